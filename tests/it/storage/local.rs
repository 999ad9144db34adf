//! The local disk: nothing outside the table, nothing that waits, one version of the bytes.

use hudifs::storage::{self, EntryKind, StorageOptions, TablePath};
use hudifs::{ErrorKind, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn open(dir: &Path) -> std::sync::Arc<dyn storage::Storage> {
    storage::open(dir.to_str().unwrap(), &StorageOptions::default()).unwrap()
}

fn path(text: &str) -> TablePath {
    TablePath::parse(text).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Runs `f`, which must end within seconds.
fn bounded<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || tx.send(f()));
    rx.recv_timeout(Duration::from_secs(10)).expect("the call hangs")
}

#[test]
fn links_inside_work_and_links_out_are_refused_everywhere() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("p/q")).unwrap();
    fs::write(at("p/f"), "inside").unwrap();
    symlink("../p/f", at("p/relative")).unwrap();
    symlink(at("p/f"), at("p/absolute")).unwrap();
    symlink("p", at("dirlink")).unwrap();
    symlink(outside.path().join("secret"), at("p/out")).unwrap();
    symlink(outside.path(), at("outdir")).unwrap();
    symlink("../../../../../../../../etc/passwd", at("p/dots")).unwrap();
    symlink("circle", at("p/circle")).unwrap();
    symlink("/proc/self/root/etc/passwd", at("p/magic")).unwrap();
    symlink("nowhere", at("p/dangling")).unwrap();
    let store = open(dir.path());
    for inside in ["p/f", "p/relative", "p/absolute", "dirlink/f", "dirlink/relative"] {
        assert_eq!(store.read(&path(inside), 100).unwrap(), "inside", "{inside}");
        assert_eq!(store.stat(&path(inside)).unwrap().size, 6, "{inside}");
        assert_eq!(store.open(&path(inside), Some(6)).unwrap().size(), 6, "{inside}");
    }
    for out in ["p/out", "outdir/secret", "p/dots", "p/circle", "p/magic"] {
        assert_eq!(kind(store.read(&path(out), 100)), ErrorKind::Denied, "{out}");
        assert_eq!(kind(store.stat(&path(out))), ErrorKind::Denied, "{out}");
        assert_eq!(kind(store.open(&path(out), None)), ErrorKind::Denied, "{out}");
        assert!(store.local_path(&path(out)).is_none(), "{out}");
    }
    assert_eq!(kind(store.list(&path("outdir"))), ErrorKind::Denied);
    assert_eq!(kind(store.rooted_at(&path("outdir"))), ErrorKind::Denied);
    let names = ["f", "relative", "absolute", "out", "dots", "circle", "magic", "dangling", "q", "missing", "../p/f"];
    let got: Vec<_> =
        store.stat_many(&path("p"), &names).into_iter().map(|r| r.map(|m| m.size).map_err(|e| e.kind())).collect();
    use ErrorKind::{Denied, Invalid, NotFound};
    let want = [
        Ok(6),
        Ok(6),
        Ok(6),
        Err(Denied),
        Err(Denied),
        Err(Denied),
        Err(Denied),
        Err(NotFound),
        Err(NotFound),
        Err(NotFound),
        Err(Invalid),
    ];
    assert_eq!(got, want);
    let mut listed: Vec<_> =
        store.list(&path("p")).unwrap().into_iter().map(|e| (e.name, e.kind == EntryKind::Dir)).collect();
    listed.sort();
    assert!(
        listed.contains(&("q".into(), true)) && listed.contains(&("out".into(), false)) && listed.len() == 9,
        "{listed:?}"
    );
    assert!(
        store
            .list(&TablePath::root())
            .unwrap()
            .contains(&storage::DirEntry { name: "dirlink".into(), kind: EntryKind::Dir })
    );
}

#[test]
fn a_table_below_a_warehouse_is_guarded_at_its_own_base() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("db/t")).unwrap();
    fs::write(dir.path().join("db/other"), "x").unwrap();
    symlink("../other", dir.path().join("db/t/link")).unwrap();
    let warehouse = open(dir.path());
    let table = warehouse.rooted_at(&path("db/t")).unwrap();
    assert_eq!(table.uri(), format!("file://{}/db/t", dir.path().display()));
    assert_eq!(warehouse.stat(&path("db/t/link")).unwrap().size, 1);
    assert_eq!(kind(table.stat(&path("link"))), ErrorKind::Denied);
}

#[test]
fn pipes_sockets_and_devices_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = std::ffi::CString::new(dir.path().join("fifo").to_str().unwrap()).unwrap();
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let mut names = vec!["fifo", "socket"];
    let device = std::ffi::CString::new(dir.path().join("tty").to_str().unwrap()).unwrap();
    if unsafe { libc::mknod(device.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(5, 0)) } == 0 {
        names.push("tty");
    }
    let store = open(dir.path());
    for name in names {
        let store = store.clone();
        bounded(move || {
            assert_eq!(kind(store.read(&path(name), 100)), ErrorKind::Corrupt, "{name}");
            assert_eq!(kind(store.open(&path(name), None)), ErrorKind::Corrupt, "{name}");
            assert_eq!(kind(store.stat(&path(name))), ErrorKind::Corrupt, "{name}");
            assert_eq!(kind(store.stat_many(&TablePath::root(), &[name]).remove(0)), ErrorKind::Corrupt, "{name}");
        });
    }
}

#[test]
fn an_open_file_keeps_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["replaced", "removed", "truncated", "rewritten"] {
        fs::write(at(name), "old old old").unwrap();
    }
    let store = open(dir.path());
    let opened = |name: &str| store.open(&path(name), Some(11)).unwrap();
    let read = |file: &std::sync::Arc<dyn storage::RandomRead>| {
        let (tx, rx) = mpsc::channel();
        file.read_at(4, 100, Box::new(move |r| tx.send(r).unwrap()));
        rx.recv_timeout(Duration::from_secs(10)).unwrap()
    };
    let [replaced, removed, truncated, rewritten] = ["replaced", "removed", "truncated", "rewritten"].map(opened);
    assert_eq!(read(&rewritten).unwrap(), "old old");
    std::thread::sleep(Duration::from_millis(20));
    fs::write(at("new"), "new new new").unwrap();
    fs::rename(at("new"), at("replaced")).unwrap();
    fs::remove_file(at("removed")).unwrap();
    fs::write(at("truncated"), "").unwrap();
    fs::write(at("rewritten"), "new new new").unwrap();
    assert_eq!(read(&replaced).unwrap(), "old old");
    assert_eq!(read(&removed).unwrap(), "old old");
    assert_eq!(kind(read(&truncated)), ErrorKind::Stale);
    assert_eq!(kind(read(&rewritten)), ErrorKind::Stale);
    assert_eq!(kind(store.open(&path("truncated"), Some(11))), ErrorKind::Stale);
}

#[test]
fn a_hundred_thousand_names_are_listed_and_stated_fast() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..100_000 {
        fs::File::create(
            dir.path().join(format!("{i:08x}-0000-4000-8000-000000000000-0_0-22-25_20261001082021.parquet")),
        )
        .unwrap();
    }
    let store = open(dir.path());
    let start = Instant::now();
    let names: Vec<String> = store.list(&TablePath::root()).unwrap().into_iter().map(|e| e.name).collect();
    let listed = start.elapsed();
    assert_eq!(names.len(), 100_000);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let start = Instant::now();
    let stats = store.stat_many(&TablePath::root(), &names);
    let stated = start.elapsed();
    assert!(stats.iter().all(|s| s.as_ref().is_ok_and(|m| m.size == 0 && m.modified_ms > 0)));
    eprintln!("100,000 names: listed in {listed:?}, stated in {stated:?}");
    // Far above what it takes, so that a busy machine does not fail the test.
    assert!(listed + stated < Duration::from_secs(5), "{listed:?} {stated:?}");
}

#[test]
fn a_missing_base_says_what_to_do() {
    let e = storage::open("/nonexistent/table", &StorageOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("/nonexistent/table") && e.hint().is_some(), "{e}");
}
