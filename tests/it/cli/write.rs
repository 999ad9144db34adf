//! Tables made and written from the command line: through a mount, and without one.

use super::run::{Finished, Place, can_mount, ends, hudifs, signal};
use crate::control::write::{FIRST, csv, ndjson, parquet_rows, rows};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A folder with a file of trips in it.
struct Work {
    dir: tempfile::TempDir,
}

impl Work {
    fn new() -> Work {
        let work = Work { dir: tempfile::tempdir().unwrap() };
        work.file("trips.csv", &csv(&FIRST));
        work
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `hudifs create`, by id and city.
    fn create(&self, more: &[&str]) -> PathBuf {
        let base = self.path("trips");
        let args =
            ["create", base.to_str().unwrap(), "--record-key", "id", "--partition-by", "city", "--ordering", "ts"];
        let done = hudifs(&[&args[..], more].concat());
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(done.out.starts_with("created "), "{}", done.out);
        base
    }
}

fn ok(args: &[&str]) -> Finished {
    let done = hudifs(args);
    assert_eq!(done.code, Some(0), "{args:?}: {}{}", done.out, done.err);
    assert_eq!(done.err, "", "no bar and no warning where standard error is no terminal");
    done
}

/// Pipes bytes into a command.
fn piped(args: &[&str], input: &[u8]) -> Finished {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hudifs"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Finished { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn keys(base: &Path) -> Vec<String> {
    rows(base).into_keys().collect()
}

#[test]
fn a_table_is_made_and_written_without_a_daemon() {
    let work = Work::new();
    let base = work.create(&["--hive-style"]);
    let table = base.to_str().unwrap();
    let csv = work.path("trips.csv");
    let done = ok(&["upsert", csv.to_str().unwrap(), "--table", table]);
    assert!(done.out.contains("upsert: committed as ") && done.out.contains("3 rows: 3 inserted"), "{}", done.out);
    assert!(base.join("city=oslo").is_dir());
    assert_eq!(keys(&base), ["a", "b", "c"]);

    // A pipe, several files in one commit, JSON, a dry run.
    let lines = ndjson(&[("d", "bern", 1.0, 1)]);
    let done = piped(&["upsert", "-", "--format", "ndjson", "--table", &format!("file://{table}"), "--json"], &lines);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((report["inserted"].as_u64(), report["action"].as_str()), (Some(1), Some("commit")));
    let (one, two) = (
        work.file("1.ndjson", &ndjson(&[("e", "bern", 1.0, 1)])),
        work.file("2.csv", b"id,city,fare,ts\nf,bern,2,1\n"),
    );
    let before = std::fs::read_dir(base.join(".hoodie")).unwrap().count();
    let dry = ok(&["insert", &one, &two, "--table", table, "--dry-run"]);
    assert!(dry.out.contains("dry run") && dry.out.contains("2 rows"), "{}", dry.out);
    assert_eq!(std::fs::read_dir(base.join(".hoodie")).unwrap().count(), before);
    ok(&["insert", &one, &two, "--table", table]);
    assert_eq!(keys(&base), ["a", "b", "c", "d", "e", "f"]);
    let timeline: Value = serde_json::from_str(&ok(&["timeline", "--json", table]).out).unwrap();
    assert_eq!(timeline["instants"].as_array().unwrap().len(), 3);

    ok(&["delete", &work.file("gone.csv", b"id,city\na,oslo\n"), "--table", table]);
    ok(&["delete-partition", "city=rome", "--table", table]);
    assert_eq!(keys(&base), ["c", "d", "e", "f"]);
    ok(&["insert-overwrite", &work.file("3.csv", b"id,city,fare,ts\ng,bern,2,1\n"), "--table", table]);
    assert_eq!(keys(&base), ["c", "g"]);
    ok(&["bulk-insert", &work.file("4.csv", b"id,city,fare,ts\nh,bern,2,1\n"), "--table", table]);
    ok(&["insert-overwrite-table", &work.file("5.csv", b"id,city,fare,ts\ni,bern,2,1\n"), "--table", table]);
    assert_eq!(keys(&base), ["i"]);

    let key = ["--idempotency-key", "k", "--table", table];
    let once = ok(&[&["insert", &one][..], &key].concat());
    let again = ok(&[&["insert", &one][..], &key].concat());
    assert!(
        once.out.contains("committed as") && again.out.contains("committed before as"),
        "{} {}",
        once.out,
        again.out
    );
    assert_eq!(keys(&base), ["e", "i"]);
}

#[test]
fn services_run_by_command() {
    let work = Work::new();
    let base = work.create(&[]);
    let table = base.to_str().unwrap();
    let csv = work.path("trips.csv");
    for _ in 0..4 {
        ok(&["upsert", csv.to_str().unwrap(), "--table", table, "--no-services"]);
    }
    let versions = || {
        let oslo = std::fs::read_dir(base.join("oslo")).unwrap().map(|e| e.unwrap().file_name());
        oslo.filter(|n| n.to_str().unwrap().ends_with(".parquet") && !n.to_str().unwrap().starts_with('.')).count()
    };
    assert_eq!(versions(), 4);
    assert_eq!(ok(&["clean", table]).out, "clean: nothing to do\n", "the grace period is not over");
    let now = "hudifs.clean.grace.period.seconds=0";
    let cleaned = ok(&["clean", table, "--set", "hoodie.clean.commits.retained=1", "--set", now]);
    assert!(cleaned.out.starts_with("clean at "), "{}", cleaned.out);
    assert!(versions() < 4);
    assert_eq!(keys(&base), ["a", "b", "c"]);
    for args in [vec!["archive", table], vec!["rollback", table], vec!["compact", table, "--json"]] {
        ok(&args);
    }
    assert_eq!(keys(&base), ["a", "b", "c"]);
    // The metadata table: right, found wrong, made anew with an index of keys.
    let right = "metadata_verify: the metadata table is right\n";
    assert_eq!(ok(&["metadata", "verify", table]).out, right);
    let lost = ok(&["files", table]).out.lines().find(|l| l.starts_with("oslo/")).unwrap().to_owned();
    std::fs::rename(base.join(&lost), work.path("lost")).unwrap();
    let wrong = hudifs(&["metadata", "verify", table]);
    assert_eq!(wrong.code, Some(12), "{}{}", wrong.out, wrong.err);
    assert!(wrong.out.contains(&lost), "{}", wrong.out);
    std::fs::rename(work.path("lost"), base.join(&lost)).unwrap();
    let rebuilt = ok(&["metadata", "rebuild", table, "--partitions", "files,column_stats,record_index"]);
    assert!(rebuilt.out.contains("record_index"), "{}", rebuilt.out);
    assert_eq!(ok(&["metadata", "verify", table]).out, right);
    assert_eq!(hudifs(&["metadata", "rebuild", table, "--partitions", "everything"]).code, Some(1));
    ok(&["upsert", csv.to_str().unwrap(), "--table", table]);
    assert_eq!(ok(&["metadata", "verify", table]).out, right);
    assert_eq!(keys(&base), ["a", "b", "c"]);
    assert_ne!(hudifs(&["rollback", table, "--instant", "20200101000000000"]).code, Some(0));
}

#[test]
fn wrong_calls_end_with_the_right_code_and_write_nothing() {
    let work = Work::new();
    let base = work.create(&[]);
    let table = base.to_str().unwrap();
    let csv = work.path("trips.csv");
    let csv = csv.to_str().unwrap();
    let strange = work.file("trips.xyz", b"?");
    let empty = work.file("empty.csv", b"");
    let bad = work.file("bad.csv", b"id,city,fare,ts\n,oslo,1,1\n");
    let out = work.file("out.csv", b"id,city,fare,ts\nx,..,1,1\n");
    let dir = work.dir.path().to_str().unwrap();
    for (args, code, said) in [
        (vec!["upsert", csv], 2, "--table"),
        (vec!["upsert", csv, "--table", "/no/such/place"], 10, "/no/such/place"),
        (vec!["upsert", csv, "--table", dir], 10, "neither a mount"),
        (vec!["upsert", "/no/such/file.csv", "--table", table], 1, "/no/such/file.csv"),
        (vec!["upsert", &strange, "--table", table], 2, "--format"),
        (vec!["upsert", dir, "--format", "csv", "--table", table], 2, "directory"),
        (vec!["upsert", "--table", table], 2, "--format"),
        (vec!["upsert", csv, "--table", table, "--index", "btree"], 2, "btree"),
        (vec!["upsert", csv, "--table", table, "--set", "spark.x=1"], 2, "spark.x"),
        (vec!["upsert", csv, "--table", table, "--format", "xml"], 2, "xml"),
        (vec!["upsert", &empty, "--table", table], 2, "empty"),
        (vec!["upsert", &bad, "--table", table], 1, "id"),
        (vec!["upsert", &out, "--table", table], 1, "city"),
        (vec!["delete-partition", "--table", table], 2, "PARTITION"),
        (vec!["create", table, "--record-key", "id"], 1, "already"),
        (vec!["create", &format!("{table}/inner"), "--table-version", "7"], 1, "7"),
        (vec!["metadata"], 2, "verify"),
    ] {
        let done = hudifs(&args);
        assert_eq!(done.code, Some(code), "{args:?}: {}{}", done.out, done.err);
        assert!(format!("{}{}", done.out, done.err).contains(said), "{args:?} does not say {said}: {}", done.err);
        assert!(rows(&base).is_empty(), "{args:?}");
    }
    assert!(!base.join("inner").exists());
}

/// What a mount shows, read as any engine would.
fn shown(place: &Place) -> Vec<String> {
    let files = place.files("");
    let all = files.iter().flat_map(|file| parquet_rows(&place.point.join(file)));
    let mut keys: Vec<String> = all.map(|row| row["_hoodie_record_key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[test]
fn upsert_through_a_mount_is_visible_when_the_command_returns() {
    if !can_mount() {
        return;
    }
    let work = Work::new();
    let base = work.create(&[]);
    let place = Place::new();
    place.mounted(&base, &[]);
    let csv = work.path("trips.csv");
    ok(&["upsert", csv.to_str().unwrap(), "--table", place.point()]);
    assert_eq!(shown(&place), ["a", "b", "c"]);
    // Every commit at once, also from a partition's directory, and never by polling luck.
    let mut wanted = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    for n in 0..20 {
        let key = format!("k{n:02}");
        let line = format!("{{\"id\": \"{key}\", \"city\": \"oslo\", \"fare\": 1.0, \"ts\": 1}}\n");
        let inside = place.point.join("oslo");
        let done = piped(&["upsert", "--format", "ndjson", "--table", inside.to_str().unwrap()], line.as_bytes());
        wanted.push(key);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(shown(&place), wanted);
    }
    let pid = place.pid();
    let log = place.log();
    assert!(log.contains("upsert: done") && log.contains("control: POST /v1/tables/trips/upsert"), "{log}");
    // Several files through the daemon are one commit.
    let (one, two) = (
        work.file("1.ndjson", &ndjson(&[("x", "bern", 1.0, 1)])),
        work.file("2.csv", b"id,city,fare,ts\ny,bern,2,1\n"),
    );
    let before = place.status()["tables"][0]["generation"].as_u64().unwrap();
    let dry = ok(&["upsert", &one, &two, "--table", place.point(), "--dry-run"]);
    assert!(dry.out.contains("2 rows: 2 inserted"), "{}", dry.out);
    let done = ok(&["upsert", &one, &two, "--table", place.point(), "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&done.out).unwrap()["inserted"], 2);
    assert_eq!(place.status()["tables"][0]["generation"].as_u64().unwrap(), before + 1);
    // Refused, and said by whom.
    let bad = hudifs(&["upsert", &work.file("bad.csv", b"id,city,fare,ts\nz,..,1,1\n"), "--table", place.point()]);
    assert_eq!(bad.code, Some(1), "{}", bad.err);
    assert!(bad.err.contains("city"), "{}", bad.err);
    ok(&["delete-partition", "bern", "--table", place.point()]);
    ok(&["clean", place.point()]);
    assert_eq!(shown(&place), wanted);
    assert_eq!(place.pid(), pid);
    assert_eq!(hudifs(&["umount", place.point()]).code, Some(0));
}

#[test]
fn a_table_is_created_inside_the_mount_of_a_warehouse() {
    if !can_mount() {
        return;
    }
    let work = Work::new();
    let lake = work.path("lake");
    std::fs::create_dir(&lake).unwrap();
    let place = Place::new();
    place.mounted(&lake, &["--warehouse"]);
    let inside = place.point.join("db/trips");
    let table = inside.to_str().unwrap();
    ok(&["create", table, "--record-key", "id", "--partition-by", "city", "--type", "mor"]);
    assert!(inside.is_dir(), "the new table is a directory of the mount at once");
    let csv = work.path("trips.csv");
    ok(&["upsert", csv.to_str().unwrap(), "--table", table]);
    assert_eq!(shown(&place), ["a", "b", "c"]);
    assert!(lake.join("db/trips/.hoodie/hoodie.properties").is_file());
    assert_eq!(hudifs(&["create", table, "--record-key", "id"]).code, Some(1));
}

/// A daemon that is told to end while records still come in writes nothing of them, and one that is writing ends its commit.
#[test]
fn the_daemon_ends_in_order_while_it_is_written_to() {
    if !can_mount() {
        return;
    }
    let work = Work::new();
    let base = work.create(&[]);
    ok(&["upsert", work.path("trips.csv").to_str().unwrap(), "--table", base.to_str().unwrap()]);
    for round in 0..3 {
        let place = Place::new();
        place.mounted(&base, &[]);
        let pid = place.pid();
        let before = keys(&base);
        let mut slow = Command::new(env!("CARGO_BIN_EXE_hudifs"))
            .args(["upsert", "--format", "csv", "--table", place.point()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = slow.stdin.take().unwrap();
        input.write_all(b"id,city,fare,ts\nslow,oslo,1,1\n").unwrap();
        input.flush().unwrap();
        let lines: String = (0..20_000).map(|n| format!("r{round}-{n},oslo,1,1\n")).collect();
        let many = work.file("many.csv", format!("id,city,fare,ts\n{lines}").as_bytes());
        let point = place.point().to_owned();
        let writing = std::thread::spawn(move || hudifs(&["bulk-insert", &many, "--table", &point]));
        std::thread::sleep(Duration::from_millis(40 * round));
        signal(pid, libc::SIGTERM);
        ends(pid);
        drop(input);
        let mut said = String::new();
        slow.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!slow.wait().unwrap().success(), "a body that never ended was committed: {said}");
        let acknowledged = writing.join().unwrap().code == Some(0);
        let after = keys(&base);
        let gained = after.len() - before.len();
        assert!(gained == 20_000 || (gained == 0 && !acknowledged), "{gained} rows, acknowledged: {acknowledged}");
        assert!(!after.contains(&"slow".to_owned()));
    }
}

#[test]
fn an_interrupted_command_leaves_all_or_nothing() {
    let work = Work::new();
    let base = work.create(&[]);
    let lines: String = (0..50_000).map(|n| format!("k{n},oslo,1.5,1\n")).collect();
    let many = work.file("many.csv", format!("id,city,fare,ts\n{lines}").as_bytes());
    for wait in [0, 30, 100, 300] {
        let before = committed_rows(&base);
        let child = Command::new(env!("CARGO_BIN_EXE_hudifs"))
            .args(["bulk-insert", &many, "--table", base.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        signal(child.id() as i32, libc::SIGINT);
        let end = Instant::now() + Duration::from_secs(60);
        let mut child = child;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        };
        let gained = committed_rows(&base) - before;
        assert!(gained == 50_000 || (gained == 0 && !status.success()), "{gained} rows, {status}");
        // The next writer is not in its way.
        ok(&["insert-overwrite-table", work.path("trips.csv").to_str().unwrap(), "--table", base.to_str().unwrap()]);
        assert_eq!(keys(&base), ["a", "b", "c"]);
    }
}

/// Rows that the read-optimized view shows.
fn committed_rows(base: &Path) -> usize {
    let files = hudifs(&["files", base.to_str().unwrap()]).out;
    files.lines().map(|file| parquet_rows(&base.join(file)).len()).sum()
}
