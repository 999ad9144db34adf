//! The module order of docs/architecture.md: the one rule that the compiler cannot keep.

use crate::common::repo;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules in reading order: each may use those before it, and itself.
const ORDER: [&str; 16] = [
    "error",
    "telemetry",
    "format",
    "storage",
    "timeline",
    "view",
    "metadata",
    "table",
    "record",
    "slice",
    "index",
    "write",
    "fs",
    "fuse",
    "control",
    "daemon",
];
/// Above all others.
const TOP: [&str; 3] = ["cli", "main", "lib"];

#[test]
fn modules_use_only_those_before_them() {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    visit(&repo().join("src"), &repo().join("src"), &mut uses);
    assert!(uses.contains_key("view"), "the scan found no modules");
    let rank = |m: &str| ORDER.iter().position(|o| *o == m).or(TOP.contains(&m).then_some(ORDER.len()));
    for (module, used) in &uses {
        let own = rank(module)
            .unwrap_or_else(|| panic!("module {module} is not in the order: add it, and to docs/architecture.md"));
        for other in used {
            let other_rank = rank(other).unwrap_or_else(|| panic!("{module} uses unknown module {other}"));
            assert!(other_rank <= own, "{module} uses {other}, which comes after it in docs/architecture.md");
        }
    }
    // Siblings at the end that must not know each other.
    for (a, b) in [("control", "fuse"), ("control", "fs"), ("fuse", "control")] {
        assert!(!uses.get(a).is_some_and(|u| u.contains(b)), "{a} must not use {b}");
    }
}

/// Only `fuse` may name the FUSE library.
#[test]
fn only_fuse_names_the_fuse_library() {
    let mut files = Vec::new();
    collect(&repo().join("src"), &mut files);
    for file in files {
        let module = top_module(&repo().join("src"), &file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(module == "fuse" || !text.contains("fuser::"), "{} names the FUSE library", file.display());
    }
}

fn collect(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn top_module(src: &Path, file: &Path) -> String {
    let first = file.strip_prefix(src).unwrap().iter().next().unwrap().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn visit(src: &Path, dir: &Path, uses: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut files = Vec::new();
    collect(dir, &mut files);
    for file in files {
        let module = top_module(src, &file);
        let text = std::fs::read_to_string(&file).unwrap();
        let entry = uses.entry(module).or_default();
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for part in line.split("crate::").skip(1) {
                entry.extend(names_after_crate(part));
            }
        }
    }
    if let Some(lib) = uses.get_mut("lib") {
        lib.clear();
    }
}

/// `format::x` gives `format`; `{error::E, view}` gives both.
fn names_after_crate(part: &str) -> Vec<String> {
    let word = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let words = match part.strip_prefix('{') {
        Some(group) => {
            let mut depth = 0;
            let flat: String = group
                .chars()
                .take_while(|c| {
                    depth += (*c == '{') as i32 - (*c == '}') as i32;
                    depth >= 0
                })
                .collect();
            flat.split(',').map(|s| word(s.trim())).collect()
        }
        None => vec![word(part)],
    };
    // Lower-case words are modules; `crate::Result` is a re-export of `error`.
    words.into_iter().filter(|w| w.starts_with(|c: char| c.is_ascii_lowercase())).collect()
}
