//! The same through a real mount: what is damaged gives an error in time, and the rest is read as before.

use super::judge::{SECRET, holds_secret};
use crate::common::{repo, unpack};
use crate::mounted::{Mounted, can_mount};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command, and ends it if it takes longer than any answer should.
fn timely(command: &[&str], path: &Path) -> Output {
    let output = Command::new("timeout").arg("30").args(command).arg(path).output().unwrap();
    assert_ne!(output.status.code(), Some(124), "{command:?} {} hangs", path.display());
    output
}

fn data_files(base: &Path) -> Vec<String> {
    let found = Command::new("find").arg(base).args(["-name", "*.parquet", "-printf", "%P\n"]).output().unwrap();
    let mut names: Vec<String> = String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn a_mount_of_a_damaged_table_serves_what_is_whole() {
    if !can_mount() {
        return;
    }
    for name in ["v6_cow_basic_hive", "v9_cow_basic_hive_mdt"] {
        let table = unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name);
        let base = table.base();
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        std::fs::write(&secret, SECRET.repeat(1000)).unwrap();
        let before = {
            let mounted = Mounted::new(&base);
            data_files(&mounted.path())
        };
        let partition_of = |file: &String| file.rsplit_once('/').unwrap().0.to_owned();
        let damaged = partition_of(&before[0]);
        let healthy: Vec<&String> = before.iter().filter(|f| partition_of(f) != damaged).collect();
        assert!(!healthy.is_empty());
        let victim = base.join(&before[0]);
        for kind in ["link", "pipe", "folder"] {
            let _ = std::fs::remove_file(&victim);
            match kind {
                "link" => symlink(&secret, &victim).unwrap(),
                "pipe" => assert!(Command::new("mkfifo").arg(&victim).status().unwrap().success()),
                _ => std::fs::create_dir(&victim).unwrap(),
            }
            let mounted = Mounted::new(&base);
            let root = mounted.path();
            timely(&["ls", "-lR"], &root);
            let cat = timely(&["cat"], &root.join(&before[0]));
            assert!(!cat.status.success() && cat.stdout.is_empty(), "{name} {kind}: {cat:?}");
            for file in &healthy {
                let cat = timely(&["cat"], &root.join(file));
                assert!(cat.status.success() && !holds_secret(&cat.stdout), "{name} {kind}: {file}");
                assert_eq!(cat.stdout, std::fs::read(base.join(file)).unwrap(), "{name} {kind}: {file}");
            }
            let listed = data_files(&root);
            assert!(healthy.iter().all(|f| listed.contains(f)), "{name} {kind}: {listed:?}");
            for path in [".hudifs/../../etc/passwd", ".hoodie/hoodie.properties", ".hudifs/read_optimized/..%2f"] {
                assert!(!timely(&["cat"], &root.join(path)).status.success(), "{name}: {path}");
            }
        }
    }
}

#[test]
fn a_table_that_is_damaged_while_it_is_mounted_keeps_its_last_good_view() {
    if !can_mount() {
        return;
    }
    let name = "v9_cow_basic_hive_mdt";
    let table = unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name);
    let base = table.base();
    let mounted = Mounted::with(&base, &["--metadata-ttl", "1"]);
    let before = data_files(&mounted.path());
    assert!(!before.is_empty());
    let outside = tempfile::tempdir().unwrap();
    let moved = outside.path().join("hoodie");
    assert!(Command::new("mv").arg(base.join(".hoodie")).arg(&moved).status().unwrap().success());
    symlink(&moved, base.join(".hoodie")).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    timely(&["ls", "-lR"], &mounted.path());
    assert_eq!(data_files(&mounted.path()), before);
    for file in &before {
        assert!(timely(&["cat"], &mounted.path().join(file)).status.success(), "{file}");
    }
    timely(&["cat"], &mounted.path().join(".hudifs/status.json"));
}
