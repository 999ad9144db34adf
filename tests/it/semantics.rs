//! Each promise of docs/semantics.md, on a real mount of tables that Spark wrote.

use crate::common::{Unpacked, repo, unpack};
use crate::mounted::{Mounted, can_mount, eventually, hudifs};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const TABLE: &str = "v6_cow_basic_hive";

pub fn fixture(name: &str) -> Unpacked {
    unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name)
}

fn answer(name: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(repo().join(format!("tests/fixtures/{name}.json"))).unwrap()).unwrap()
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn files_below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => drop(found.insert(entry.path())),
        }
    }
    found
}

fn errno(result: std::io::Result<impl Sized>) -> i32 {
    result.err().and_then(|e| e.raw_os_error()).unwrap_or(0)
}

/// What a foreign writer does on a table of version 6: new base files (here: old bytes under new names), then the commit.
pub fn commit(base: &Path, instant: &str, files: &[(&str, &Path)]) -> Vec<PathBuf> {
    let mut stats = serde_json::Map::new();
    let mut written = Vec::new();
    for (partition, from) in files {
        let old = from.file_name().unwrap().to_str().unwrap();
        let file_id = old.split('_').next().unwrap();
        let name = format!("{file_id}_9-9-9_{instant}.parquet");
        fs::copy(from, base.join(partition).join(&name)).unwrap();
        let size = fs::metadata(from).unwrap().len();
        let stat = serde_json::json!({"fileId": file_id, "path": format!("{partition}/{name}"), "prevCommit": "null",
            "fileSizeInBytes": size, "totalWriteBytes": size, "numWrites": 1, "partitionPath": partition});
        stats.entry(*partition).or_insert_with(|| serde_json::json!([])).as_array_mut().unwrap().push(stat);
        written.push(Path::new(partition).join(name));
    }
    complete(
        base,
        instant,
        "commit",
        &serde_json::json!({"partitionToWriteStats": stats, "compacted": false,
        "extraMetadata": {}, "operationType": "UPSERT"})
        .to_string(),
    );
    written
}

fn complete(base: &Path, instant: &str, action: &str, content: &str) {
    let meta = base.join(".hoodie");
    fs::write(meta.join(format!("{instant}.{action}.requested")), "").unwrap();
    let temporary = meta.join(format!("{instant}.{action}.tmp"));
    fs::write(&temporary, content).unwrap();
    fs::rename(temporary, meta.join(format!("{instant}.{action}"))).unwrap();
}

#[test]
fn the_root_lists_partitions_and_nothing_else() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::new(&table.base());
    assert_eq!(names(&mount.path()), BTreeSet::from(["part=p0".into(), "part=p1".into()]));
    assert_eq!(errno(fs::metadata(mount.path().join(".hoodie"))), libc::ENOENT);
    assert_eq!(errno(fs::metadata(mount.path().join("part=p0/.hoodie_partition_metadata"))), libc::ENOENT);
    assert!(fs::metadata(mount.path().join(".hudifs")).unwrap().is_dir());
    assert_eq!(errno(fs::metadata(mount.path().join(".hudifs/snapshot"))), libc::ENOENT);
}

#[test]
fn a_partition_lists_what_spark_scans_and_serves_the_same_bytes() {
    if !can_mount() {
        return;
    }
    for name in [TABLE, "v6_mor_basic_nested_mdt", "v9_cow_clustering_hive_mdt"] {
        let table = fixture(name);
        let mount = Mounted::new(&table.base());
        let expected: BTreeSet<PathBuf> = answer(name)["ro"]["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| mount.path().join(f["path"].as_str().unwrap()))
            .collect();
        assert_eq!(files_below(&mount.path()), expected, "{name}");
        for file in expected {
            let stored = table.base().join(file.strip_prefix(mount.path()).unwrap());
            assert!(fs::read(&file).unwrap() == fs::read(&stored).unwrap(), "{name}: {}", file.display());
            assert_eq!(fs::metadata(&file).unwrap().len(), fs::metadata(&stored).unwrap().len());
        }
    }
}

#[test]
fn an_older_version_is_found_by_name_and_not_listed() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::new(&table.base());
    let stored = names(&table.base().join("part=p0")).into_iter().filter(|n| n.ends_with(".parquet"));
    let listed = names(&mount.path().join("part=p0"));
    let older: Vec<String> = stored.filter(|n| !listed.contains(n)).collect();
    assert_eq!(older.len(), 3);
    for name in older {
        let (here, there) = (mount.path().join("part=p0").join(&name), table.base().join("part=p0").join(&name));
        assert!(fs::read(here).unwrap() == fs::read(there).unwrap(), "{name}");
    }
}

#[test]
fn times_are_those_of_the_commits_and_inodes_survive_a_remount() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let look = |mount: &Mounted| -> Vec<(u64, u64, i64)> {
        let all = files_below(&mount.path()).into_iter().chain([mount.path(), mount.path().join("part=p0")]);
        all.map(|f| fs::metadata(f).unwrap())
            .map(|m| (m.ino(), m.size(), m.mtime_nsec() / 1_000_000 + m.mtime() * 1000))
            .collect()
    };
    let first = look(&Mounted::new(&table.base()));
    let again = look(&Mounted::with(&table.base(), &["--listing", "storage"]));
    assert_eq!(first[..3], again[..3]);
    assert_eq!(first.iter().map(|f| f.0).collect::<BTreeSet<_>>().len(), first.len(), "inode numbers are unique");
    // 2026-11-30 22:08:43.594 UTC, the newest commit: it touched both files and their directories.
    assert!(first.iter().all(|f| f.2 == 1_796_076_523_594), "{first:?}");
}

#[test]
fn a_foreign_commit_appears_and_what_was_listed_before_stays_readable() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::new(&table.base());
    let before = files_below(&mount.path());
    let mut open = fs::File::open(before.first().unwrap()).unwrap();
    let sources: Vec<(String, PathBuf)> = before
        .iter()
        .map(|f| {
            let below = f.strip_prefix(mount.path()).unwrap();
            (below.parent().unwrap().to_str().unwrap().to_owned(), table.base().join(below))
        })
        .collect();
    let files: Vec<(&str, &Path)> = sources.iter().map(|(p, f)| (p.as_str(), f.as_path())).collect();
    let written = commit(&table.base(), "20991231235959000", &files);
    eventually("the commit is listed", || {
        names(&mount.path().join("part=p0")).iter().any(|n| n.contains("20991231235959000"))
    });
    // The whole tree at once: a partition that was not looked at since shows it too.
    assert_eq!(files_below(&mount.path()), written.iter().map(|w| mount.path().join(w)).collect());
    for old in &before {
        assert!(!fs::read(old).unwrap().is_empty(), "{} was listed and must open", old.display());
    }
    fs::remove_file(&sources[0].1).unwrap();
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "an open file outlives its removal");
}

#[test]
fn an_uncommitted_file_is_neither_listed_nor_opened() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::new(&table.base());
    let source = names(&mount.path().join("part=p0")).into_iter().next().unwrap();
    let name = "aaaaaaaa-0000-4000-8000-000000000000-0_0-0-0_20991231235959000.parquet";
    fs::copy(table.base().join("part=p0").join(source), table.base().join("part=p0").join(name)).unwrap();
    fs::write(table.base().join(".hoodie/20991231235959000.commit.requested"), "").unwrap();
    fs::write(table.base().join(".hoodie/20991231235959000.inflight"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!names(&mount.path().join("part=p0")).contains(name));
    assert_eq!(errno(fs::File::open(mount.path().join("part=p0").join(name))), libc::ENOENT);
}

#[test]
fn every_moment_can_be_looked_at() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let answer = answer(TABLE);
    let mount = Mounted::new(&table.base());
    let past = mount.path().join(".hudifs/read_optimized");
    let latest = answer["latest_instant"].as_str().unwrap();
    assert_eq!(fs::read_link(past.join("latest")).unwrap().to_str(), Some(latest));
    for instant in answer["completed_instants"].as_array().unwrap().iter().map(|i| i["instant"].as_str().unwrap()) {
        assert!(names(&past).contains(instant), "{instant} is listed");
        let files = files_below(&past.join(instant));
        assert!(!files.is_empty());
        assert!(
            files.iter().all(|f| f.to_str().unwrap().ends_with(&format!("_{instant}.parquet"))),
            "{instant}: {files:?}"
        );
    }
    // Any later moment means the newest commit before it.
    let count = |moment: &str| files_below(&past.join(moment)).len();
    assert_eq!(count("2099-01-01"), count(latest));
    assert_eq!(count("2026-11-30T22:08:39"), count("20261130220838213"));
    assert_eq!(errno(fs::metadata(past.join("2020-01-01"))), libc::ENOENT);
    assert_eq!(errno(fs::metadata(past.join("yesterday"))), libc::ENOENT);
}

#[test]
fn a_pinned_mount_stays_where_it_is() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::with(&table.base(), &["--as-of", "20261130220838213"]);
    let before = files_below(&mount.path());
    assert!(before.iter().all(|f| f.to_str().unwrap().contains("20261130220838213")));
    let source = table.base().join(before.first().unwrap().strip_prefix(mount.path()).unwrap());
    commit(&table.base(), "20991231235959000", &[("part=p0", &source)]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(files_below(&mount.path()), before);
}

#[test]
fn a_file_that_somebody_cleaned_away_is_stale_and_leaves_an_event() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::new(&table.base());
    let file = files_below(&mount.path()).pop_first().unwrap();
    fs::remove_file(table.base().join(file.strip_prefix(mount.path()).unwrap())).unwrap();
    assert_eq!(errno(fs::File::open(&file)), libc::ESTALE);
    let name = file.file_name().unwrap().to_str().unwrap();
    eventually("the event says what to do", || {
        let status = mount.status();
        let event = status["events"].as_array().unwrap().iter().find(|e| e.to_string().contains(name)).cloned();
        event.is_some_and(|e| e["code"] == "CLEANED_UNDER_READER" && e["hint"].as_str().is_some_and(|h| !h.is_empty()))
    });
    // The rest of the partition is not affected.
    assert!(names(file.parent().unwrap()).contains(name));
}

#[test]
fn a_partition_with_log_files_only_is_an_empty_directory() {
    if !can_mount() {
        return;
    }
    let table = fixture("v6_mor_log_only_plain_mdt");
    let mount = Mounted::new(&table.base());
    let expected = answer("v6_mor_log_only_plain_mdt")["ro"]["files"].as_array().unwrap().len();
    assert_eq!(files_below(&mount.path()).len(), expected);
    assert!(names(&mount.path()).iter().any(|p| names(&mount.path().join(p)).is_empty()));
}

#[test]
fn nothing_outside_the_table_is_served_through_a_link() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let victim = names(&table.base().join("part=p0")).into_iter().find(|n| n.contains("20261130220843594")).unwrap();
    let stored = table.base().join("part=p0").join(&victim);
    fs::remove_file(&stored).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), &stored).unwrap();
    std::os::unix::fs::symlink(outside.path(), table.base().join("part=p2")).unwrap();
    let mount = Mounted::new(&table.base());
    assert!(fs::read(mount.path().join("part=p0").join(&victim)).is_err());
    // It may have been a partition: an error, and not silence.
    let listed = fs::read_dir(mount.path().join("part=p2")).and_then(|dir| dir.collect::<Result<Vec<_>, _>>());
    assert_eq!(errno(listed), libc::EACCES);
    assert_eq!(names(&mount.path().join("part=p1")).len(), 1, "a healthy partition is not affected");
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let table = fixture(TABLE);
    let point = tempfile::tempdir().unwrap();
    let mount = |point: &Path| {
        let output = hudifs().arg("mount").arg("-f").arg(table.base()).arg(point).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let properties = table.base().join(".hoodie/hoodie.properties");
    let text = fs::read_to_string(&properties).unwrap();
    for version in ["7", "10", "99"] {
        fs::write(&properties, text.replace("hoodie.table.version=6", &format!("hoodie.table.version={version}")))
            .unwrap();
        let (code, message) = mount(point.path());
        assert!(code != 0 && message.contains(version), "version {version}: {code} {message}");
    }
    fs::write(&properties, &text).unwrap();
    let (code, message) = mount(&table.base().join("part=p0"));
    assert!(code != 0 && message.contains("inside"), "inside the table: {code} {message}");
    fs::remove_dir_all(table.base().join(".hoodie")).unwrap();
    assert_eq!(mount(point.path()).0, 10, "no such table");
}

#[test]
fn a_replace_commit_that_cannot_be_read_keeps_the_last_good_tree() {
    if !can_mount() {
        return;
    }
    let table = fixture(TABLE);
    let mount = Mounted::new(&table.base());
    let before = files_below(&mount.path());
    complete(&table.base(), "20991231235959000", "replacecommit", "{\"partitionToReplaceFile");
    eventually("the failure is reported", || mount.status().to_string().contains("20991231235959000"));
    assert_eq!(files_below(&mount.path()), before);
    let output = hudifs().arg("files").arg(table.base()).output().unwrap();
    assert_eq!(output.status.code(), Some(12), "{}", String::from_utf8_lossy(&output.stderr));
}
