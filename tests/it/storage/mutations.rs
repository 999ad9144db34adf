//! What every store must do when it is written to, run on a local disk, a real S3 server and a real HDFS.

use super::conformance::{Subject, hdfs, local, path, pattern, s3};
use bytes::Bytes;
use hudifs::format::instant::{Action, Instant, InstantTime, State};
use hudifs::storage::{EntryKind, ObjectWriter, Removal, Storage, StorageOptions, VersionTag};
use hudifs::{ErrorKind, Result};
use std::io::Write;
use std::sync::Barrier;

macro_rules! on_every_store {
    ($($behaviour:ident),+ $(,)?) => {
        mod on_local_disk { $(#[test] fn $behaviour() { super::$behaviour(&super::local()); })+ }
        mod on_s3 {
            $(#[test] fn $behaviour() {
                if let Some(s) = super::s3(&super::StorageOptions::default()) { super::$behaviour(&s); }
            })+
        }
        mod on_hdfs {
            $(#[test] fn $behaviour() {
                if let Some(s) = super::hdfs(&super::StorageOptions::default()) { super::$behaviour(&s); }
            })+
        }
    };
}

on_every_store!(
    of_many_creators_one_wins,
    a_put_replaces_as_a_whole,
    a_conditional_put_sees_every_other,
    a_file_is_seen_when_it_is_finished,
    a_writer_that_is_dropped_leaves_nothing,
    of_two_writers_of_a_name_one_wins,
    markers_are_created_many_at_once,
    only_what_is_named_is_deleted,
);

fn small(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn names(store: &dyn Storage, dir: &str) -> Vec<String> {
    let mut names: Vec<String> = match store.list(&path(dir)) {
        Ok(entries) => entries.into_iter().map(|e| e.name).collect(),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::NotFound);
            Vec::new()
        }
    };
    names.sort();
    names
}

/// All files below a folder.
fn files(store: &dyn Storage, dir: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in store.list(&path(dir)).unwrap_or_default() {
        let child = if dir.is_empty() { entry.name.clone() } else { format!("{dir}/{}", entry.name) };
        match entry.kind {
            EntryKind::Dir => files.extend(self::files(store, &child)),
            EntryKind::File { .. } => files.push(child),
        }
    }
    files.sort();
    files
}

fn of_many_creators_one_wins(s: &Subject) {
    for round in 0..5 {
        let at = path(&format!(".hoodie/{round}.commit"));
        let barrier = Barrier::new(4);
        let results: Vec<Result<_>> = std::thread::scope(|scope| {
            let run = |i: usize| {
                let (barrier, at, store) = (&barrier, &at, &s.store);
                scope.spawn(move || {
                    barrier.wait();
                    store.create(at, pattern(i as u64, 1000 + i))
                })
            };
            let running: Vec<_> = (0..4).map(run).collect();
            running.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let winners: Vec<usize> = (0..4).filter(|i| results[*i].is_ok()).collect();
        let [winner] = winners[..] else { panic!("{results:?}") };
        for loser in results.iter().filter_map(|r| r.as_ref().err()) {
            assert_eq!(loser.kind(), ErrorKind::AlreadyExists, "{loser}");
        }
        assert_eq!(s.store.read(&at, 10_000).unwrap(), pattern(winner as u64, 1000 + winner));
        assert_eq!(results[winner].as_ref().unwrap().size, 1000 + winner as u64);
    }
    assert_eq!(names(&*s.store, ".hoodie").len(), 5, "nothing but the files: {:?}", names(&*s.store, ".hoodie"));
    let empty = path("p/q/.hoodie_partition_metadata");
    s.store.create(&empty, Bytes::new()).unwrap();
    assert_eq!(s.store.read(&empty, 0).unwrap(), Bytes::new());
    assert_eq!(s.store.create(&empty, small("x")).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

fn a_put_replaces_as_a_whole(s: &Subject) {
    let at = path(".hoodie/hoodie.properties");
    for (i, len) in [10, 100_000, 0, 3].into_iter().enumerate() {
        let meta = s.store.put(&at, pattern(i as u64, len)).unwrap();
        assert_eq!(meta.size, len as u64);
        assert_eq!(s.store.read(&at, 1 << 20).unwrap(), pattern(i as u64, len));
    }
    assert_eq!(names(&*s.store, ".hoodie"), ["hoodie.properties"]);
}

fn a_conditional_put_sees_every_other(s: &Subject) {
    let at = path(".hoodie/.locks/table_lock.json");
    if s.store.uri().starts_with("hdfs") {
        let tag = s.store.put_if_match(&at, small("1"), None).unwrap();
        assert_eq!(s.store.put_if_match(&at, small("1"), None).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(s.store.put_if_match(&at, small("2"), Some(&tag)).unwrap_err().kind(), ErrorKind::Unsupported);
        return;
    }
    let count = |text: &[u8]| std::str::from_utf8(text).unwrap().parse::<u32>().unwrap();
    // Each of several writers counts up; a lost update would be missing at the end.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut done = 0;
                while done < 10 {
                    let (now, tag): (u32, Option<VersionTag>) = match s.store.read_tagged(&at, 100) {
                        Ok((bytes, tag)) => (count(&bytes), Some(tag)),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
                            (0, None)
                        }
                    };
                    match s.store.put_if_match(&at, small(&(now + 1).to_string()), tag.as_ref()) {
                        Ok(_) => done += 1,
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Conflict, "{e}"),
                    }
                }
            });
        }
    });
    let (bytes, tag) = s.store.read_tagged(&at, 100).unwrap();
    assert_eq!(count(&bytes), 40);
    // The tag of a put is that of the next read.
    let tag = s.store.put_if_match(&at, small("41"), Some(&tag)).unwrap();
    assert_eq!(s.store.read_tagged(&at, 100).unwrap().1, tag);
    // A plain put with the same bytes is another version on a disk; stores whose ETag is a hash cannot tell.
    s.store.put(&at, small("0")).unwrap();
    let e = s.store.put_if_match(&at, small("42"), Some(&tag)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    assert_eq!(s.store.put_if_match(&at, small("42"), None).unwrap_err().kind(), ErrorKind::Conflict);
}

fn write_all(writer: &mut Box<dyn ObjectWriter>, bytes: &[u8], step: usize) {
    for piece in bytes.chunks(step) {
        writer.write_all(piece).unwrap();
    }
}

fn a_file_is_seen_when_it_is_finished(s: &Subject) {
    // Empty, one put, exactly one part, several parts.
    for (i, len) in [0, 100_000, 8 << 20, (17 << 20) + 5].into_iter().enumerate() {
        let at = path(&format!("p={i}/f_0-0-0_20260101000000000.parquet"));
        let bytes = pattern(i as u64, len);
        let mut writer = s.store.create_writer(&at).unwrap();
        write_all(&mut writer, &bytes, 1 << 20);
        assert_eq!(s.store.stat(&at).unwrap_err().kind(), ErrorKind::NotFound);
        let meta = writer.finish().unwrap();
        assert_eq!((meta.size, s.store.stat(&at).unwrap().size), (len as u64, len as u64));
        assert!(s.store.read(&at, len as u64).unwrap() == bytes, "other bytes of {len}");
        assert_eq!(names(&*s.store, &format!("p={i}")), [at.file_name()]);
    }
    s.store.sync().unwrap();
}

fn a_writer_that_is_dropped_leaves_nothing(s: &Subject) {
    for len in [10, 17 << 20] {
        let at = path("p/gone.parquet");
        let mut writer = s.store.create_writer(&at).unwrap();
        write_all(&mut writer, &pattern(1, len), 1 << 20);
        drop(writer);
        assert_eq!(s.store.stat(&at).unwrap_err().kind(), ErrorKind::NotFound);
    }
    if !s.store.is_object_store() {
        assert_eq!(names(&*s.store, "p"), [""; 0]);
    }
}

fn of_two_writers_of_a_name_one_wins(s: &Subject) {
    // Two parts would be completed without a condition in S3: there the second looks first.
    for len in [100usize, 9 << 20] {
        let at = path(&format!("p/{len}.parquet"));
        let mut writers: Vec<_> = (0..2).map(|_| s.store.create_writer(&at).unwrap()).collect();
        for (i, writer) in writers.iter_mut().enumerate() {
            write_all(writer, &pattern(i as u64, len), len);
        }
        let results: Vec<Result<_>> = writers.into_iter().map(|w| w.finish()).collect();
        assert!(results[0].is_ok());
        assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(s.store.read(&at, len as u64).unwrap() == pattern(0, len));
    }
    assert!(names(&*s.store, "p").iter().all(|n| n.ends_with(".parquet")));
}

fn markers_are_created_many_at_once(s: &Subject) {
    let marker = |i: usize| path(&format!(".hoodie/.temp/7/p={}/f{i}.parquet.marker.CREATE", i % 3));
    let mut files: Vec<_> = (0..60).map(|i| (marker(i), Bytes::new())).collect();
    assert!(s.store.create_many(&files).into_iter().all(|r| r.is_ok()));
    files.push((path(".hoodie/.temp/7/MARKERS0"), small("p/f.marker.CREATE\n")));
    let again = s.store.create_many(&files);
    let taken = again.iter().filter(|r| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::AlreadyExists)).count();
    assert_eq!((taken, again[60].is_ok()), (60, true));
    assert_eq!(names(&*s.store, ".hoodie/.temp/7/p=0").len(), 20);
    assert_eq!(names(&*s.store, ".hoodie/.temp/7"), ["MARKERS0", "p=0", "p=1", "p=2"]);
}

fn only_what_is_named_is_deleted(s: &Subject) {
    let time = |t: &str| InstantTime::parse(t).unwrap();
    for file in [
        "p/a.parquet",
        "p/b.parquet",
        ".hoodie/1.commit",
        ".hoodie/1.inflight",
        ".hoodie/.temp/1/p/a.parquet.marker.CREATE",
        ".hoodie/.temp/1/q/r/b.parquet.marker.MERGE",
        ".hoodie/.temp/11/p/c.parquet.marker.CREATE",
        ".hoodie/.heartbeat/1",
        ".hoodie/metadata/files/f",
        ".hoodie/metadata/column_stats/f",
        ".hoodie/metadata/.hoodie/hoodie.properties",
    ] {
        (s.put)(file, small(file));
    }
    let inflight = Instant { requested: time("1"), action: Action::Commit, state: State::Inflight, completion: None };
    let what = [
        Removal::data_file(&path("p/a.parquet")).unwrap(),
        Removal::markers(time("1")),
        Removal::data_file(&path("p/missing.parquet")).unwrap(),
        Removal::data_file(&path("missing/missing.parquet")).unwrap(),
        Removal::instant(&path(".hoodie"), &inflight).unwrap(),
        Removal::heartbeat(time("1")),
        Removal::metadata_partition("column_stats").unwrap(),
        Removal::markers(time("5")),
    ];
    for result in s.store.delete_many(&what) {
        result.unwrap();
    }
    for what in &what {
        s.store.delete(what).unwrap();
    }
    let left = [
        ".hoodie/.temp/11/p/c.parquet.marker.CREATE",
        ".hoodie/1.commit",
        ".hoodie/metadata/.hoodie/hoodie.properties",
        ".hoodie/metadata/files/f",
        "p/b.parquet",
    ];
    assert_eq!(files(&*s.store, ""), left);
    s.store.delete(&Removal::metadata_table()).unwrap();
    assert_eq!(files(&*s.store, ""), [left[0], left[1], left[4]]);
    // Where folders exist, those of the deleted are gone too. SeaweedFS keeps empty ones for a while.
    if !s.store.uri().starts_with("s3") {
        assert_eq!(names(&*s.store, ".hoodie/.temp"), ["11"]);
        assert!(!names(&*s.store, ".hoodie").contains(&"metadata".to_owned()));
    }
}

#[test]
fn removals_can_only_be_of_their_kind() {
    for data in ["", ".hoodie", ".hoodie/hoodie.properties", ".hoodie/metadata/files/f"] {
        assert!(Removal::data_file(&path(data)).is_err(), "{data}");
    }
    let time = InstantTime::parse("1").unwrap();
    let instant = Instant { requested: time, action: Action::Commit, state: State::Completed, completion: None };
    assert!(Removal::instant(&path("p"), &instant).is_err());
    for (folder, name) in [("p", "x"), (".hoodie", "hoodie.properties"), (".hoodie/archived", "../x")] {
        assert!(Removal::archived(&path(folder), name).is_err(), "{folder} {name}");
    }
    assert!(Removal::archived(&path(".hoodie/timeline/history"), "manifest_1").is_ok());
    for name in ["", "..", ".hoodie", "a/b"] {
        assert!(Removal::metadata_partition(name).is_err(), "{name}");
    }
}

/// A link in the table must not make a writer write, or delete, elsewhere.
#[test]
fn links_do_not_lead_mutations_out_of_the_table() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "keep").unwrap();
    std::fs::create_dir(outside.path().join("d")).unwrap();
    let s = local();
    let base = s.store.local_path(&path("")).unwrap();
    std::os::unix::fs::symlink(outside.path(), base.join("out")).unwrap();
    std::fs::create_dir_all(base.join(".hoodie/.temp/1")).unwrap();
    std::os::unix::fs::symlink(outside.path(), base.join(".hoodie/.temp/1/out")).unwrap();
    std::os::unix::fs::symlink(outside.path(), base.join(".hoodie/.temp/2")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), base.join("dangling")).unwrap();
    for to in ["out/new", "out/d/new", "out/x/y/new"] {
        assert_eq!(s.store.create(&path(to), small("x")).unwrap_err().kind(), ErrorKind::Denied, "{to}");
        assert_eq!(s.store.put(&path(to), small("x")).unwrap_err().kind(), ErrorKind::Denied, "{to}");
        assert_eq!(s.store.create_writer(&path(to)).err().unwrap().kind(), ErrorKind::Denied, "{to}");
        assert!(s.store.create_many(&[(path(to), Bytes::new())])[0].is_err(), "{to}");
        assert!(s.store.create_dir(&path(to)).is_err(), "{to}");
    }
    assert_eq!(s.store.create(&path("dangling"), small("x")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    // A replaced link is the link, not what it points to.
    s.store.put(&path("dangling"), small("x")).unwrap();
    assert!(s.store.delete(&Removal::data_file(&path("out/f")).unwrap()).is_err());
    for instant in ["1", "2"] {
        s.store.delete(&Removal::markers(InstantTime::parse(instant).unwrap())).unwrap();
    }
    assert!(!base.join(".hoodie/.temp/1").exists() && !base.join(".hoodie/.temp/2").exists());
    assert_eq!(std::fs::read_to_string(outside.path().join("f")).unwrap(), "keep");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2);
}

/// What a process that died while writing leaves behind is no obstacle, and goes with the file.
#[test]
fn a_left_over_temporary_file_is_no_obstacle() {
    let s = local();
    let base = s.store.local_path(&path("")).unwrap();
    let at = path("p/f.parquet");
    // Dies: never finished, never dropped.
    std::mem::forget(s.store.create_writer(&at).unwrap());
    assert_eq!(std::fs::read_dir(base.join("p")).unwrap().count(), 1);
    let mut writer = s.store.create_writer(&at).unwrap();
    writer.write_all(b"x").unwrap();
    writer.finish().unwrap();
    assert_eq!(
        std::fs::read_dir(base.join("p")).unwrap().count(),
        1,
        "the name is taken, so what was left is of no use"
    );
    let never = path("p/never.parquet");
    std::mem::forget(s.store.create_writer(&never).unwrap());
    for file in [&at, &never] {
        s.store.delete(&Removal::data_file(file).unwrap()).unwrap();
    }
    assert_eq!(std::fs::read_dir(base.join("p")).unwrap().count(), 0);
}
