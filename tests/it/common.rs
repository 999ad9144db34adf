//! What several areas need: places, golden tables, and loud skips.

pub mod faulty;

use std::io::Write;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};

/// Says that the running test could not run, past the test runner's capture, and leaves a line in the file that
/// `HUDIFS_SKIPPED_FILE` names, so that `scripts/test` counts it as skipped and not as passed.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let line = format!("SKIPPED: {name}: {why}\n");
    // The raw descriptor, since the runner captures what goes through `eprintln!`.
    let mut stderr = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(2) });
    let _ = stderr.write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("HUDIFS_SKIPPED_FILE") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// The checkout.
pub fn repo() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the golden tables written by Java Hudi are: `HUDIFS_TABLES`, else `../shared/tables` beside the checkout.
pub fn golden_dir() -> Option<PathBuf> {
    let dir = match std::env::var_os("HUDIFS_TABLES") {
        Some(dir) => PathBuf::from(dir),
        None => repo().join("../shared/tables"),
    };
    dir.join("expected").is_dir().then_some(dir)
}

/// False, with a loud skip, where there are no golden tables.
pub fn has_golden() -> bool {
    if golden_dir().is_none() {
        skipped("no golden tables; set HUDIFS_TABLES to the folder with the zips and expected/");
    }
    golden_dir().is_some()
}

/// The names of all golden tables; empty, with a loud skip, where there are none.
pub fn golden_names() -> Vec<String> {
    let Some(dir) = golden_dir() else {
        skipped("no golden tables; set HUDIFS_TABLES to the folder with the zips and expected/");
        return Vec::new();
    };
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|e| Some(e.unwrap().path().file_name()?.to_str()?.strip_suffix(".zip")?.to_owned()))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "the golden folder holds no zip");
    names
}

/// A table unpacked into a folder of its own, removed when dropped.
pub struct Unpacked {
    dir: tempfile::TempDir,
    name: String,
}

impl Unpacked {
    /// The table's base.
    pub fn base(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }
}

/// Unpacks the golden table of that name.
pub fn golden(name: &str) -> Unpacked {
    let zip = golden_dir().expect("golden tables").join(format!("{name}.zip"));
    unpack(&zip, name)
}

/// What a right reader finds in the golden table of that name.
pub fn golden_answer(name: &str) -> serde_json::Value {
    let file = golden_dir().expect("golden tables").join("expected").join(format!("{name}.json"));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// Unpacks a zip that holds one folder, `name`.
pub fn unpack(zip: &Path, name: &str) -> Unpacked {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::open(zip).unwrap_or_else(|e| panic!("{}: {e}", zip.display()));
    zip::ZipArchive::new(file).unwrap().extract(dir.path()).unwrap();
    let unpacked = Unpacked { dir, name: name.to_owned() };
    assert!(unpacked.base().is_dir(), "{} does not hold {name}/", zip.display());
    unpacked
}
