//! What every store must do, run on a local disk, a real S3 server and a real HDFS.

use crate::servers::{self, Writer};
use bytes::Bytes;
use hudifs::storage::{self, DirEntry, EntryKind, RandomRead, Storage, StorageOptions, TablePath};
use hudifs::{ErrorKind, Result};
use std::sync::{Arc, mpsc};
use std::time::Duration;

type Put = Box<dyn Fn(&str, Bytes) + Send + Sync>;
type Remove = Box<dyn Fn(&str) + Send + Sync>;

/// A store to test and the way to write to it behind its back.
pub struct Subject {
    pub store: Arc<dyn Storage>,
    pub put: Put,
    pub remove: Remove,
    _dir: Option<tempfile::TempDir>,
}

pub fn path(text: &str) -> TablePath {
    TablePath::parse(text).unwrap()
}

/// Reads and waits.
pub fn read(file: &Arc<dyn RandomRead>, offset: u64, len: u32) -> Result<Bytes> {
    let (tx, rx) = mpsc::channel();
    file.read_at(offset, len, Box::new(move |r| tx.send(r).unwrap()));
    rx.recv_timeout(Duration::from_secs(60)).expect("a read hangs")
}

/// Bytes that differ at every place and from those of another seed.
pub fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e3779b97f4a7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bytes.extend_from_slice(&(state ^ (state >> 33)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// A folder of its own.
pub fn local() -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let (put, remove) = (dir.path().to_owned(), dir.path().to_owned());
    Subject {
        store: storage::open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap(),
        put: Box::new(move |key, bytes| {
            let path = put.join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            // As Hudi's engines do on a local disk: written beside, then renamed.
            std::fs::write(put.join(".new"), bytes).unwrap();
            std::fs::rename(put.join(".new"), path).unwrap();
        }),
        remove: Box::new(move |key| std::fs::remove_file(remove.join(key)).unwrap()),
        _dir: Some(dir),
    }
}

fn remote(base_uri: &str, writer: Writer, options: &StorageOptions) -> Subject {
    let base = format!("conformance/{:x}", std::ptr::from_ref(options).addr() ^ rand());
    let (put_writer, put_base, remove_base) = (writer.clone(), base.clone(), base.clone());
    Subject {
        store: storage::open(&format!("{base_uri}/{base}"), options).unwrap(),
        put: Box::new(move |key, bytes| put_writer.put(&format!("{put_base}/{key}"), bytes)),
        remove: Box::new(move |key| writer.remove(&format!("{remove_base}/{key}"))),
        _dir: None,
    }
}

/// A number that differs from call to call.
pub fn rand() -> usize {
    use std::hash::{BuildHasher, RandomState};
    usize::try_from(RandomState::new().hash_one(0) >> 8).unwrap()
}

/// A prefix of its own on the S3 server.
pub fn s3(options: &StorageOptions) -> Option<Subject> {
    let server = servers::s3()?;
    Some(remote("s3a://hudifs", server.writer(), options))
}

/// A directory of its own on the HDFS.
pub fn hdfs(options: &StorageOptions) -> Option<Subject> {
    let server = servers::hdfs()?;
    Some(remote(&server.uri, server.writer(), options))
}

/// One test a store and a behaviour.
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
    names_are_taken_as_written,
    whole_and_ranged_reads,
    missing_things_are_told_apart,
    flat_listing_equals_a_walk,
    open_files_read_anywhere,
    many_threads_read_one_file,
    another_size_is_stale_at_the_open,
    a_replaced_file_never_mixes_bytes,
    a_truncated_file_is_never_padded,
    readers_beside_a_writer_see_one_version_each,
    tables_are_found_below_a_folder,
);

const NAMES: [&str; 9] = [
    "plain.parquet",
    "city=São Paulo, 2026.parquet",
    "a%2Fb%20c.parquet",
    "100%.parquet",
    "a+b&c=d.parquet",
    "hash#and?mark.parquet",
    "日本語.parquet",
    "~tilde$dollar'quote(x)[y]{z}.parquet",
    "8c8db0e3-7d2b-4a1e-9b0f-000000000000-0_0-22-25_20261001082021.parquet",
];

fn names_are_taken_as_written(s: &Subject) {
    for dir in ["d=1", "p%3Dq/x y"] {
        for (i, name) in NAMES.iter().enumerate() {
            (s.put)(&format!("{dir}/{name}"), pattern(i as u64, i + 1));
        }
        let mut listed = s.store.list(&path(dir)).unwrap();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let mut names = NAMES.map(str::to_owned);
        names.sort();
        assert_eq!(listed.iter().map(|e| e.name.clone()).collect::<Vec<_>>(), names);
        for entry in &listed {
            let size = NAMES.iter().position(|n| *n == entry.name).unwrap() as u64 + 1;
            assert!(
                matches!(entry.kind, EntryKind::File { size: told } if told.is_none_or(|t| t == size)),
                "{entry:?}"
            );
        }
        let paths = NAMES.map(|name| path(&format!("{dir}/{name}")));
        for (i, result) in s.store.read_many(&paths, 100).into_iter().enumerate() {
            assert_eq!(result.unwrap(), pattern(i as u64, i + 1), "{}", NAMES[i]);
            assert_eq!(s.store.stat(&paths[i]).unwrap().size, i as u64 + 1);
        }
        // Few names are asked for one by one, many by a listing.
        let many: Vec<&str> = NAMES.iter().cycle().take(40).copied().chain(["missing", ".."]).collect();
        for names in [&NAMES[..], &many] {
            for (i, result) in s.store.stat_many(&path(dir), names).into_iter().enumerate() {
                match names[i] {
                    "missing" => assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound),
                    ".." => assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid),
                    name => assert_eq!(result.unwrap(), s.store.stat(&path(&format!("{dir}/{name}"))).unwrap()),
                }
            }
        }
    }
    assert_eq!(s.store.list(&path("p%3Dq")).unwrap(), [DirEntry { name: "x y".into(), kind: EntryKind::Dir }]);
    assert_eq!(s.store.rooted_at(&path("p%3Dq")).unwrap().list(&path("x y")).unwrap().len(), NAMES.len());
}

fn whole_and_ranged_reads(s: &Subject) {
    let bytes = pattern(1, 5000);
    (s.put)("f", bytes.clone());
    (s.put)("empty", Bytes::new());
    assert_eq!(s.store.read(&path("f"), 5000).unwrap(), bytes);
    assert_eq!(s.store.read(&path("f"), 4999).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(s.store.read(&path("empty"), 0).unwrap(), Bytes::new());
    for (offset, len) in [(0u64, 5000u64), (10, 20), (4999, 1), (5000, 0), (0, 0)] {
        let want = bytes.slice(offset as usize..(offset + len) as usize);
        assert_eq!(s.store.read_range(&path("f"), offset, len).unwrap(), want, "{offset}+{len}");
    }
    for (offset, len) in [(4999, 2), (5000, 1), (5001, 0), (1 << 40, 1), (u64::MAX, 1), (0, u64::MAX)] {
        let kind = s.store.read_range(&path("f"), offset, len).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::Invalid), "{offset}+{len}: {kind:?}");
    }
    assert_eq!(s.store.read_range(&path("empty"), 0, 1).unwrap_err().kind(), ErrorKind::Corrupt);
    let empty = s.store.open(&path("empty"), Some(0)).unwrap();
    assert_eq!(read(&empty, 0, 10).unwrap(), Bytes::new());
}

fn missing_things_are_told_apart(s: &Subject) {
    (s.put)("dir/f", Bytes::from_static(b"x"));
    for missing in ["nothing", "dir/nothing", "dir/f/below", "no/such/dir/f", "dir"] {
        let missing = path(missing);
        for e in [
            s.store.read(&missing, 10).unwrap_err(),
            s.store.read_range(&missing, 0, 1).unwrap_err(),
            s.store.stat(&missing).unwrap_err(),
            s.store.open(&missing, None).unwrap_err(),
        ] {
            assert_eq!(e.kind(), ErrorKind::NotFound, "{missing}: {e}");
            assert!(e.message().contains(missing.as_str()), "{e}");
        }
    }
    match s.store.list(&path("no/such/dir")) {
        Ok(entries) => assert!(s.store.is_object_store() && entries.is_empty()),
        Err(e) => assert!(!s.store.is_object_store() && e.kind() == ErrorKind::NotFound, "{e}"),
    }
}

fn flat_listing_equals_a_walk(s: &Subject) {
    let mut want = Vec::new();
    for i in 0..60u64 {
        let key = format!("t/year={}/month={}/f{i}", 2020 + i % 3, i % 7);
        (s.put)(&key, pattern(i, i as usize));
        want.push((key["t/".len()..].to_owned(), i));
    }
    (s.put)("tt/neighbour", Bytes::from_static(b"x"));
    want.sort();
    match s.store.list_flat(&path("t")) {
        None => assert!(!s.store.is_object_store()),
        Some(found) => {
            let mut found = found.unwrap();
            found.sort();
            assert_eq!(found, want);
            assert_eq!(s.store.list_flat(&path("none")).unwrap().unwrap(), []);
        }
    }
}

fn open_files_read_anywhere(s: &Subject) {
    // Over a part and a block of HDFS, and not a multiple of anything.
    let bytes = pattern(7, 9_437_185 + 4321);
    (s.put)("big", bytes.clone());
    let file = s.store.open(&path("big"), Some(bytes.len() as u64)).unwrap();
    let mut seed = rand() as u64;
    for _ in 0..150 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let offset = (seed >> 20) as usize % (bytes.len() + 1000);
        let len = [1, 4096, 65536, 131072, 1 << 20][(seed >> 10) as usize % 5];
        let from = offset.min(bytes.len());
        let want = bytes.slice(from..(from + len).min(bytes.len()));
        assert_eq!(read(&file, offset as u64, len as u32).unwrap(), want, "{len} bytes at {offset}");
    }
    let file = s.store.open(&path("big"), None).unwrap();
    for offset in (0..bytes.len()).step_by(100_000) {
        let want = bytes.slice(offset..(offset + 100_000).min(bytes.len()));
        assert_eq!(read(&file, offset as u64, 100_000).unwrap(), want, "at {offset}");
    }
    assert_eq!(read(&file, u64::MAX, u32::MAX).unwrap(), Bytes::new());
    assert_eq!(read(&file, 0, u32::MAX).unwrap(), bytes);
}

fn many_threads_read_one_file(s: &Subject) {
    let bytes = pattern(8, 3 << 20);
    (s.put)("shared", bytes.clone());
    let file = s.store.open(&path("shared"), None).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..64usize {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for i in 0..20usize {
                    let offset = (thread * 7919 + i * 104_729) % bytes.len();
                    let end = (offset + 70_000).min(bytes.len());
                    assert_eq!(read(file, offset as u64, 70_000).unwrap(), bytes.slice(offset..end));
                }
            });
        }
    });
}

fn another_size_is_stale_at_the_open(s: &Subject) {
    (s.put)("f", Bytes::from_static(b"12345"));
    for other in [4, 6, 0, 10_000_000] {
        assert_eq!(s.store.open(&path("f"), Some(other)).unwrap_err().kind(), ErrorKind::Stale, "{other}");
    }
    assert_eq!(s.store.open(&path("missing"), Some(5)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(s.store.open(&path("f"), Some(5)).unwrap().size(), 5);
}

fn a_replaced_file_never_mixes_bytes(s: &Subject) {
    for new_len in [4 << 20, (4 << 20) - 100_000, (4 << 20) + 1] {
        let old = pattern(1, 4 << 20);
        let new = pattern(2, new_len);
        (s.put)("f", old.clone());
        let file = s.store.open(&path("f"), None).unwrap();
        assert_eq!(read(&file, 0, 1000).unwrap(), old.slice(..1000));
        // HDFS tells versions apart by the millisecond.
        std::thread::sleep(Duration::from_millis(20));
        (s.put)("f", new.clone());
        for offset in (0..old.len()).step_by(333_333) {
            match read(&file, offset as u64, 200_000) {
                Ok(got) => assert_eq!(got, old.slice(offset..(offset + 200_000).min(old.len())), "at {offset}"),
                Err(e) => assert_eq!(e.kind(), ErrorKind::Stale, "{e}"),
            }
        }
        let again = s.store.open(&path("f"), Some(new.len() as u64)).unwrap();
        assert_eq!(read(&again, 3_000_000, 200_000).unwrap(), new.slice(3_000_000..3_200_000));
        assert_eq!(read(&again, 0, 1000).unwrap(), new.slice(..1000));
        (s.remove)("f");
        match read(&again, 1_500_000, 200_000) {
            Ok(got) => assert_eq!(got, new.slice(1_500_000..1_700_000)),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Stale, "{e}"),
        }
    }
}

fn a_truncated_file_is_never_padded(s: &Subject) {
    (s.put)("f", pattern(1, 1 << 20));
    let file = s.store.open(&path("f"), None).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    (s.put)("f", pattern(1, 1000));
    match read(&file, 500_000, 1000) {
        Ok(got) => assert_eq!(got, pattern(1, 1 << 20).slice(500_000..501_000)),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Stale, "{e}"),
    }
}

fn readers_beside_a_writer_see_one_version_each(s: &Subject) {
    // Two of three have the same size.
    let versions: Vec<Bytes> = (0..15).map(|i| pattern(100 + i, (1 << 20) + 7 * usize::from(i % 3 == 0))).collect();
    (s.put)("f", versions[0].clone());
    let writing = std::sync::atomic::AtomicBool::new(true);
    let served = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for reader in 0..4usize {
            let (versions, writing, served) = (&versions, &writing, &served);
            scope.spawn(move || {
                let mut at = reader * 54321;
                while writing.load(std::sync::atomic::Ordering::SeqCst) {
                    let file = s.store.open(&path("f"), None).unwrap();
                    let mut version = None;
                    for _ in 0..6 {
                        at = (at + 271_828) % (1 << 20);
                        match read(&file, at as u64, 100_000) {
                            Err(e) => assert_eq!(e.kind(), ErrorKind::Stale, "{e}"),
                            Ok(got) => {
                                let is = versions.iter().position(|v| {
                                    v.len() as u64 == file.size()
                                        && v[at..].starts_with(&got)
                                        && at + got.len() == v.len().min(at + 100_000)
                                });
                                let is = is.unwrap_or_else(|| panic!("bytes of no version at {at}"));
                                assert_eq!(*version.get_or_insert(is), is, "two versions in one open file");
                                served.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                            }
                        }
                    }
                }
            });
        }
        for version in &versions {
            (s.put)("f", version.clone());
            std::thread::sleep(Duration::from_millis(50));
        }
        writing.store(false, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(served.into_inner() > 20);
}

fn tables_are_found_below_a_folder(s: &Subject) {
    for key in [
        "w/a/.hoodie/hoodie.properties",
        "w/db/b/.hoodie/x",
        "w/db/b/p=1/nested/.hoodie/x",
        "w/db/deep/er/c/.hoodie/x",
        "w/other/f",
        "w/.hidden/d/.hoodie/x",
    ] {
        (s.put)(key, Bytes::from_static(b"x"));
    }
    let warehouse = s.store.rooted_at(&path("w")).unwrap();
    let found = |depth| {
        storage::discover_tables(&*warehouse, depth).unwrap().iter().map(|t| t.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(4), ["a", "db/b", "db/deep/er/c"]);
    assert_eq!(found(2), ["a", "db/b"]);
    assert_eq!(found(0), Vec::<String>::new());
    let table = warehouse.rooted_at(&path("a")).unwrap();
    assert_eq!(storage::discover_tables(&*table, 4).unwrap(), [TablePath::root()]);
}
