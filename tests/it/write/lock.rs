//! The table's lock between threads and between processes, by each provider.

use super::bench::*;
use hudifs::ErrorKind;
use hudifs::storage::{self, Storage, StorageOptions};
use hudifs::write::WriterOptions;
use hudifs::write::lock::TableLock;
use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const STORAGE: &str = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider";
const FILE: &str = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider";

fn with(provider: &str, wait_ms: u64) -> WriterOptions {
    let mut options = WriterOptions::default();
    for (key, value) in [
        ("hoodie.write.lock.storage.validity.timeout.secs", "2"),
        ("hoodie.write.lock.storage.renew.interval.secs", "0.2"),
    ] {
        options.settings.insert(key.into(), value.into());
    }
    options.settings.insert("hoodie.write.lock.provider".into(), provider.into());
    options.settings.insert("hoodie.write.lock.wait_time_ms".into(), wait_ms.to_string());
    options
}

/// Valid for long enough that a slow store does not make its holder lose it.
fn patient(provider: &str) -> WriterOptions {
    let mut options = with(provider, 60_000);
    options.settings.insert("hoodie.write.lock.storage.validity.timeout.secs".into(), "30".into());
    options
}

fn one_at_a_time(storage: &Arc<dyn Storage>, provider: &str) {
    let (inside, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let lock = TableLock::new(storage, &patient(provider)).unwrap();
                for _ in 0..5 {
                    let guard = lock.lock().unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                    std::thread::sleep(Duration::from_millis(2));
                    guard.check().unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                    inside.store(false, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(turns.load(Ordering::SeqCst), 20);
}

#[test]
fn threads_take_turns() {
    for provider in [STORAGE, FILE, "InProcessLockProvider"] {
        one_at_a_time(&local().storage, provider);
    }
}

#[test]
fn writers_of_a_store_take_turns() {
    let Some(place) = s3() else { return };
    one_at_a_time(&place.storage, STORAGE);
}

#[test]
fn providers_that_are_not_there_are_refused_by_name() {
    let place = local();
    for provider in ["org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider", "nonsense"] {
        let e = TableLock::new(&place.storage, &with(provider, 1)).unwrap_err();
        assert!(e.kind() == ErrorKind::Unsupported && e.message().contains(provider), "{e}");
    }
    let mut outside = with(FILE, 1);
    outside.settings.insert("hoodie.write.lock.filesystem.path".into(), "/tmp/elsewhere".into());
    assert_eq!(TableLock::new(&place.storage, &outside).unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A lock file of Hudi's own writers, which is empty, is respected; it is never taken for left behind by default.
#[test]
fn an_empty_lock_file_is_somebody_s_lock() {
    let place = local();
    place.storage.create(&path(".hoodie/lock"), bytes::Bytes::new()).unwrap();
    let e = TableLock::new(&place.storage, &with(FILE, 100)).unwrap().lock().err().unwrap();
    assert!(e.kind() == ErrorKind::Conflict && e.message().contains(".hoodie/lock"), "{e}");
}

/// The record of another machine is respected until it expires, and one that was renewed by another is lost.
#[test]
fn a_record_of_another_machine_is_waited_for_and_a_lock_can_be_lost() {
    let place = local();
    let record = |until: u128, expired: bool| {
        bytes::Bytes::from(format!(r#"{{"expired":{expired},"validUntil":{until},"owner":"other","more":1}}"#))
    };
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let at = path(".hoodie/.locks/table_lock.json");
    place.storage.put(&at, record(now() + 1500, false)).unwrap();
    let began = Instant::now();
    let e = TableLock::new(&place.storage, &with(STORAGE, 200)).unwrap().lock().err().unwrap();
    assert!(e.kind() == ErrorKind::Conflict && e.message().contains("owner other"), "{e}");
    let lock = TableLock::new(&place.storage, &with(STORAGE, 10_000)).unwrap();
    let guard = lock.lock().unwrap();
    assert!(began.elapsed() > Duration::from_millis(1900), "not before the record expired, and clocks may differ");
    guard.check().unwrap();
    place.storage.put(&at, record(now() + 60_000, false)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Conflict);
    drop(guard);
    let left = place.storage.read(&at, 1000).unwrap();
    assert!(String::from_utf8_lossy(&left).contains("other"), "what another wrote is not released for him");
    place.storage.put(&at, record(now() + 60_000, true)).unwrap();
    drop(lock.lock().unwrap());
    let left = place.storage.read(&at, 1000).unwrap();
    assert!(String::from_utf8_lossy(&left).contains(r#""expired":true"#), "released, and never deleted");
}

/// Held for longer than it is valid, it is renewed.
#[test]
fn a_lock_that_is_held_long_is_renewed() {
    let place = local();
    let guard = TableLock::new(&place.storage, &with(STORAGE, 100)).unwrap().lock().unwrap();
    std::thread::sleep(Duration::from_millis(2600));
    guard.check().unwrap();
    let left =
        String::from_utf8(place.storage.read(&path(".hoodie/.locks/table_lock.json"), 1000).unwrap().to_vec()).unwrap();
    let record: serde_json::Value = serde_json::from_str(&left).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!(record["validUntil"].as_i64().unwrap() > now, "{left}");
}

/// Commits of several threads with sessions of their own: all succeed, under times of their own.
#[test]
fn writers_of_other_groups_all_commit() {
    for kind in [KINDS[0], KINDS[3]] {
        let place = local();
        table(&place, kind);
        let write_some = |writer: usize| {
            let storage = place.storage.clone();
            let one =
                move |i: usize| write_as(steady(&storage), kind, &[New::base("p=1", &format!("w{writer}x{i}-0"))]);
            (0..4).map(one).map(|c| c.unwrap().instant.requested).collect::<Vec<_>>()
        };
        let times: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..4).map(|w| scope.spawn(move || write_some(w))).collect();
            running.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(times.iter().collect::<HashSet<_>>().len(), 16);
        assert_eq!(data_files(&place.storage).len(), 18);
        assert_eq!(seen(&place.storage).len(), 18);
    }
}

const CHILD: &str = "HUDIFS_TEST_LOCK_TABLE";

/// Not a test by itself: takes the lock of the table that the environment names, says so, and holds it.
#[test]
#[ignore = "run as a child by the test below"]
fn child_holds_the_lock() {
    let table = std::env::var(CHILD).expect("run by another test");
    let storage = storage::open(&table, &StorageOptions::default()).unwrap();
    let _guard = TableLock::new(&storage, &WriterOptions::default()).unwrap().lock().unwrap();
    std::fs::write(std::path::Path::new(&table).join("held"), "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

fn child(table: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "write::lock::child_holds_the_lock", "--ignored"])
        .env(CHILD, table)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// With no configuration: another process is excluded, and once it is killed nobody waits for its record to expire.
#[test]
fn processes_exclude_each_other_and_a_killed_one_is_known() {
    let place = local();
    let base = place.storage.local_path(&path("")).unwrap();
    let mut holder = child(base.to_str().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while !base.join("held").exists() {
        assert!(Instant::now() < deadline, "the child does not take the lock");
        std::thread::sleep(Duration::from_millis(10));
    }
    let wait = |ms: u64| {
        let mut options = WriterOptions::default();
        options.settings.insert("hoodie.write.lock.wait_time_ms".into(), ms.to_string());
        TableLock::new(&place.storage, &options).unwrap()
    };
    assert_eq!(wait(300).lock().err().unwrap().kind(), ErrorKind::Conflict);
    // SIGKILL: it releases nothing.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let began = Instant::now();
    wait(10_000).lock().unwrap().check().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
