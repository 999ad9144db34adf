//! What we write of Hudi's own files, held against the files that Java Hudi wrote: each golden and fixture table's timeline is
//! read, written again and compared.

use crate::common::{golden_dir, repo, skipped};
use hudifs::format::avro::{Container, Value};
use hudifs::format::commit::CommitMetadata;
use std::io::Read;
use std::path::PathBuf;

/// Calls `visit` with the path and the bytes of every file of every golden and fixture table that `wanted` names.
pub fn files(wanted: impl Fn(&str) -> bool, mut visit: impl FnMut(&str, &[u8])) {
    for archive in archives() {
        let mut zip = zip::ZipArchive::new(std::fs::File::open(&archive).unwrap()).unwrap();
        for place in 0..zip.len() {
            let mut entry = zip.by_index(place).unwrap();
            let name = format!("{}: {}", archive.file_name().unwrap().to_str().unwrap(), entry.name());
            let hidden = name.rsplit('/').next().unwrap().ends_with(".crc") || name.contains("__MACOSX");
            if !hidden && wanted(&name) {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                visit(&name, &bytes);
            }
        }
    }
}

fn archives() -> Vec<PathBuf> {
    let mut dirs = vec![repo().join("tests/fixtures")];
    match golden_dir() {
        Some(dir) => dirs.push(dir),
        None => skipped("no golden tables; only the fixtures are read"),
    }
    let list = |dir: PathBuf| std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut zips: Vec<PathBuf> =
        dirs.into_iter().flat_map(list).filter(|p| p.extension().is_some_and(|e| e == "zip")).collect();
    zips.sort();
    zips
}

/// Maps have no order that means anything, and Java's is by hash.
fn sorted(value: Value) -> Value {
    match value {
        Value::Map(mut entries) => {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Map(entries.into_iter().map(|(k, v)| (k, sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Record(fields) => Value::Record(fields.into_iter().map(|(k, v)| (k, sorted(v))).collect()),
        other => other,
    }
}

/// Java's own record against ours: the same fields, and the same values but for what we leave null.
pub fn assert_same(name: &str, theirs: &[u8], ours: &[u8], ignored: &[&str]) {
    let read = |bytes: &[u8]| sorted(Container::open(bytes).unwrap().first_value().unwrap().unwrap());
    compare(name, "", &read(theirs), &read(ours), ignored);
}

fn compare(name: &str, at: &str, theirs: &Value, ours: &Value, ignored: &[&str]) {
    match (theirs, ours) {
        (Value::Record(fields), Value::Record(_)) => {
            for (field, value) in fields.iter().filter(|(f, _)| !ignored.contains(&&**f)) {
                let ours = ours.get(field).unwrap_or(&Value::Null);
                compare(name, &format!("{at}.{field}"), value, ours, ignored);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).for_each(|(l, r)| compare(name, at, l, r, ignored));
        }
        (Value::Map(left), Value::Map(right)) if left.len() == right.len() => {
            for (l, r) in left.iter().zip(right) {
                assert_eq!(l.0, r.0, "{name}{at}");
                compare(name, &format!("{at}[{}]", l.0), &l.1, &r.1, ignored);
            }
        }
        _ => assert_eq!(theirs, ours, "{name}{at}"),
    }
}

fn is_commit(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap();
    let ends = [".commit", ".deltacommit", ".replacecommit", ".inflight"];
    let other = [".clean.", ".rollback.", ".restore.", ".savepoint.", ".compaction.", ".indexing.", ".clustering."];
    ends.iter().any(|e| name.ends_with(e)) && !other.iter().any(|o| name.contains(o))
}

#[test]
fn commits_written_again_read_the_same() {
    let (mut json, mut avro, mut exact) = (0, 0, 0);
    files(is_commit, |name, bytes| {
        let metadata = CommitMetadata::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        if metadata.empty {
            return;
        }
        let replace = name.contains(".replacecommit");
        let (as_json, as_avro) = (metadata.to_json(replace).unwrap(), metadata.to_avro(replace).unwrap());
        let again = CommitMetadata::parse(&as_avro).unwrap();
        let order = |mut m: CommitMetadata| {
            m.written.sort_by(|a, b| a.partition.cmp(&b.partition));
            m.replaced.sort_by(|a, b| a.partition.cmp(&b.partition));
            m
        };
        assert_eq!(order(again), order(metadata.clone()), "{name} as Avro");
        match Container::is_container(bytes) {
            true => {
                avro += 1;
                // Java states an absent read time as null or as zero.
                assert_same(name, bytes, &as_avro, &["totalLogReadTimeMs", "numUpdates", "version"]);
            }
            false => {
                json += 1;
                exact += usize::from(bytes == as_json);
                let again = CommitMetadata::parse(&as_json).unwrap();
                assert_eq!(order(again), order(metadata), "{name} as JSON");
            }
        }
    });
    println!("{json} JSON files, {exact} of them byte for byte; {avro} Avro files");
    assert!(json >= 40 && avro >= 40 && exact >= 20, "{json} {avro} {exact}");
}
