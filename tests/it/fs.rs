//! The tree's meaning, through `TableFs` alone, on tables made by hand.

pub mod double;

use double::*;
use hudifs::fs::{Attr, Fault, FsOptions, Item, Kind, Lookup, Sink, TableFs, Wait};
use hudifs::storage::TablePath;
use hudifs::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const ROOT: u64 = 1;

fn serve(table: &Arc<DoubleTable>) -> Arc<TableFs> {
    serve_with(table, FsOptions::default())
}

fn serve_with(table: &Arc<DoubleTable>, options: FsOptions) -> Arc<TableFs> {
    TableFs::single(table.clone(), Arc::new(DoubleHost), options).unwrap()
}

fn publish(fs: &TableFs, view: Arc<dyn hudifs::fs::View>) -> hudifs::fs::Invalidation {
    fs.publish(&TablePath::root(), view).unwrap()
}

/// Walks a path; the fault of the first name that is not found.
fn walk(fs: &TableFs, path: &str) -> Result<Attr, Fault> {
    let mut ino = ROOT;
    let mut attr = fs.getattr(ROOT, Wait::Yes)?;
    for name in path.split('/').filter(|n| !n.is_empty()) {
        attr = match fs.lookup(ino, OsStr::new(name), Wait::Yes)? {
            Lookup::Found { attr, .. } => attr,
            Lookup::Absent { .. } => return Err(Fault::NOT_FOUND),
        };
        ino = attr.ino;
    }
    Ok(attr)
}

fn ino(fs: &TableFs, path: &str) -> u64 {
    walk(fs, path).unwrap_or_else(|f| panic!("{path}: {f:?}")).ino
}

/// Takes at most `room` entries a call.
#[derive(Default)]
struct Buffer {
    room: usize,
    names: Vec<(String, u64, Kind, Option<Attr>)>,
    next: u64,
}

impl Sink for Buffer {
    fn add(&mut self, item: &Item<'_>) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.next = item.next;
        self.names.push((item.name.to_owned(), item.ino, item.kind, item.attr));
        true
    }
}

/// One call that goes on at `buffer.next`; false at the end of the listing.
fn read_some(fs: &TableFs, dir: u64, buffer: &mut Buffer, room: usize, plus: bool) -> Result<bool, Fault> {
    buffer.room = room;
    let before = buffer.names.len();
    let next = buffer.next;
    fs.readdir(dir, next, plus, Wait::Yes, buffer)?;
    Ok(buffer.names.len() > before)
}

fn list(fs: &TableFs, dir: u64) -> Result<Vec<String>, Fault> {
    let mut buffer = Buffer::default();
    while read_some(fs, dir, &mut buffer, 3, false)? {}
    let mut names: Vec<String> = buffer.names.into_iter().map(|n| n.0).collect();
    assert_eq!(names.drain(..2).collect::<Vec<_>>(), [".", ".."]);
    Ok(names)
}

fn list_path(fs: &TableFs, path: &str) -> Vec<String> {
    list(fs, ino(fs, path)).unwrap_or_else(|f| panic!("{path}: {f:?}"))
}

fn read_all(fs: &TableFs, ino: u64) -> Result<Vec<u8>, Fault> {
    let (handle, file) = fs.open(ino, Wait::Yes)?;
    let (done, result) = std::sync::mpsc::channel();
    file.read(0, 1 << 20, move |r| done.send(r).unwrap());
    let bytes = result.recv_timeout(Duration::from_secs(10)).unwrap();
    fs.release(handle);
    Ok(bytes?.to_vec())
}

/// Two partitions of two files each.
fn small() -> Arc<DoubleTable> {
    DoubleTable::new(|c| {
        c.write("2018/08/31", "a", b"aaa");
        c.write("2018/08/31", "b", b"bb");
        c.write("2018/09/01", "c", b"c");
        c.write("2018/09/01", "d", b"");
    })
}

#[test]
fn partitions_are_nested_directories_and_only_data_files_are_listed() {
    let table = small();
    let fs = serve(&table);
    assert_eq!(list_path(&fs, ""), ["2018"]);
    assert_eq!(list_path(&fs, "2018"), ["08", "09"]);
    assert_eq!(list_path(&fs, "2018/08/31"), [name("a", 1), name("b", 1)]);
    let attr = walk(&fs, &format!("2018/08/31/{}", name("a", 1))).unwrap();
    assert_eq!((attr.kind, attr.size, attr.mtime_ms, attr.nlink), (Kind::File, 3, commit_ms(1), 1));
    assert_eq!(read_all(&fs, attr.ino).unwrap(), b"aaa");
    assert_eq!(walk(&fs, "2018/08/31").unwrap().mtime_ms, commit_ms(1));
    for absent in ["x", "2018/08/32", ".hoodie", "2018/.hudifs", "2018/08/31/.hoodie_partition_metadata"] {
        assert_eq!(walk(&fs, absent), Err(Fault::NOT_FOUND), "{absent}");
    }
    let file = ino(&fs, &format!("2018/08/31/{}", name("a", 1)));
    assert_eq!(fs.lookup(file, OsStr::new("x"), Wait::Yes), Err(Fault::NOT_A_DIRECTORY));
    assert_eq!(list(&fs, file), Err(Fault::NOT_A_DIRECTORY));
    assert_eq!(fs.open(ROOT, Wait::Yes).err(), Some(Fault::IS_A_DIRECTORY));
    let long = "n".repeat(256);
    assert_eq!(fs.lookup(ROOT, OsStr::new(&long), Wait::Yes), Err(Fault::Errno(libc::ENAMETOOLONG)));
    for odd in ["..", ".", "a/b"] {
        assert!(matches!(fs.lookup(ROOT, OsStr::new(odd), Wait::Yes), Ok(Lookup::Absent { .. })), "{odd}");
    }
}

#[test]
fn a_table_without_partitions_has_its_files_in_the_root() {
    let table = DoubleTable::new(|c| c.write("", "a", b"1"));
    let fs = serve(&table);
    assert_eq!(list_path(&fs, ""), [name("a", 1)]);
    assert_eq!(
        list_path(&fs, ".hudifs"),
        ["control.sock", "metrics", "read_optimized", "status.json", "timeline.json"]
    );
}

#[test]
fn a_listing_goes_on_in_the_generation_that_it_was_begun_in() {
    let table = DoubleTable::new(|c| (0..50).for_each(|n| c.write("p", &format!("f{n:03}"), b"1")));
    for memory_target in [256 << 20, 0] {
        let fs = serve_with(&table, FsOptions { memory_target, ..FsOptions::default() });
        let first = table_commits(&table);
        let dir = ino(&fs, "p");
        let before = list(&fs, dir).unwrap();
        let mut stream = Buffer::default();
        assert!(read_some(&fs, dir, &mut stream, 20, true).unwrap());
        // More commits than generations that are kept.
        for round in 0..40 {
            let view = table.commit(|c| {
                c.write("p", &format!("f{round:03}"), b"22");
                c.write("p", &format!("new{}-{round:03}", first), b"3");
            });
            let _ = publish(&fs, view);
            let after = list(&fs, dir).unwrap();
            assert!(after.len() > before.len() && after != before);
            if round % 8 == 0 {
                read_some(&fs, dir, &mut stream, 1, false).unwrap();
            }
        }
        while read_some(&fs, dir, &mut stream, 7, true).unwrap() {}
        let names: Vec<_> = stream.names.iter().skip(2).map(|n| n.0.clone()).collect();
        assert_eq!(names, before, "no gap, no duplicate, no mix, memory target {memory_target}");
        for (name, known, _, attr) in stream.names.iter().skip(2) {
            let found = walk(&fs, &format!("p/{name}")).unwrap();
            assert_eq!(found.ino, *known);
            assert!(attr.is_none_or(|a| a.size == found.size && a.mtime_ms == found.mtime_ms));
        }
    }
}

fn table_commits(table: &DoubleTable) -> usize {
    use hudifs::fs::Source;
    table.current().instants().len()
}

#[test]
fn an_offset_of_a_directory_of_directories_keeps_its_generation_too() {
    let table = DoubleTable::new(|c| (0..20).for_each(|n| c.write(&format!("p{n:02}"), "a", b"1")));
    let fs = serve(&table);
    let before = list_path(&fs, "");
    let mut stream = Buffer::default();
    read_some(&fs, ROOT, &mut stream, 10, true).unwrap();
    let _ = publish(
        &fs,
        table.commit(|c| {
            c.drop_partition("p12");
            c.write("p05a", "a", b"1");
        }),
    );
    while read_some(&fs, ROOT, &mut stream, 3, false).unwrap() {}
    assert_eq!(stream.names.iter().skip(2).map(|n| n.0.clone()).collect::<Vec<_>>(), before);
    let after = list_path(&fs, "");
    assert!(after.contains(&"p05a".to_owned()) && !after.contains(&"p12".to_owned()));
    // Offsets that nobody was ever given lead nowhere, not to another generation.
    for odd in [99 << 32, 1 << 62, u64::MAX >> 1] {
        assert_eq!(fs.readdir(ROOT, odd, false, Wait::Yes, &mut Buffer::default()), Err(Fault::STALE));
    }
}

#[test]
fn names_that_were_listed_can_be_opened_after_later_commits() {
    let table = small();
    let fs = serve(&table);
    let old = format!("2018/08/31/{}", name("a", 1));
    let before = walk(&fs, &old).unwrap();
    for _ in 0..3 {
        let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"aaaaaa")));
    }
    assert_eq!(list_path(&fs, "2018/08/31"), [name("a", 4), name("b", 1)]);
    assert_eq!(walk(&fs, &old).unwrap(), before, "size, time and number of a name never change");
    assert_eq!(read_all(&fs, before.ino).unwrap(), b"aaa");
    assert_eq!(walk(&fs, &format!("2018/08/31/{}", name("a", 3))).unwrap().size, 6);
    // A directory that is no longer listed still leads to what was listed in it.
    let _ = publish(&fs, table.commit(|c| c.drop_partition("2018/08/31")));
    assert_eq!(list_path(&fs, "2018"), ["09"]);
    assert_eq!(read_all(&fs, ino(&fs, &old)).unwrap(), b"aaa");
    assert_eq!(list_path(&fs, "2018/08/31"), Vec::<String>::new());
}

#[test]
fn inode_numbers_are_the_same_after_a_remount_and_never_shared() {
    let table = DoubleTable::new(|c| {
        for p in ["a", "a/b", "b"] {
            (0..100).for_each(|n| c.write(p, &format!("{n}"), b"1"));
        }
    });
    let all = |fs: &TableFs| -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for dir in ["", "a", "a/b", "b"] {
            all.insert(dir.to_owned(), ino(fs, dir));
            for name in list_path(fs, dir) {
                let path = format!("{dir}/{name}");
                all.insert(path.trim_start_matches('/').to_owned(), ino(fs, &path));
            }
        }
        all
    };
    let first = all(&serve(&table));
    let again = serve(&table);
    // In another order, and after a commit.
    let _ = publish(&again, table.commit(|c| c.write("b", "7", b"2")));
    ino(&again, "b");
    let second = all(&again);
    let (new, old) = (format!("b/{}", name("7", 2)), format!("b/{}", name("7", 1)));
    assert!(!first.contains_key(&new) && second.contains_key(&new) && !second.contains_key(&old));
    for (path, number) in &second {
        assert!(first.get(path).is_none_or(|n| n == number), "{path}");
    }
    let distinct: BTreeSet<_> = second.values().collect();
    assert_eq!(distinct.len(), second.len());
    // What a plain listing says is what stat says.
    let mut buffer = Buffer::default();
    while read_some(&again, second["a/b"], &mut buffer, 9, false).unwrap() {}
    for (name, number, ..) in buffer.names.iter().skip(2) {
        assert_eq!(second[&format!("a/b/{name}")], *number);
    }
}

#[test]
fn a_partition_that_cannot_be_loaded_fails_alone_and_is_never_empty() {
    let table = small();
    let fs = serve(&table);
    table.knobs.broken.lock().unwrap().insert(path("2018/08/31"));
    let broken = ino(&fs, "2018/08/31");
    for _ in 0..3 {
        assert_eq!(list(&fs, broken), Err(Fault::IO));
        assert_eq!(fs.lookup(broken, OsStr::new("x.parquet"), Wait::Yes), Err(Fault::IO));
    }
    assert_eq!(list_path(&fs, "2018"), ["08", "09"]);
    assert_eq!(list_path(&fs, "2018/09/01").len(), 2);
    let events = event::recent();
    // Events are the process's, and other tests run beside this one.
    let failed = |e: &&hudifs::telemetry::Event| e.code == hudifs::telemetry::EventCode::PartitionFailed;
    let event = events.iter().filter(failed).find(|e| e.partition.as_deref() == Some("2018/08/31"));
    assert!(event.is_some_and(|e| e.message.contains("broken on purpose")), "{events:?}");
    table.knobs.broken.lock().unwrap().clear();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(list(&fs, broken).unwrap().len(), 2, "it recovers");
}

#[test]
fn what_a_cleaner_took_is_stale_and_says_why() {
    let table = small();
    let fs = serve(&table);
    let gone = ino(&fs, &format!("2018/08/31/{}", name("a", 1)));
    let held = fs.open(ino(&fs, &format!("2018/08/31/{}", name("b", 1))), Wait::Yes).unwrap();
    std::fs::remove_file(table.base().join("2018/08/31").join(name("a", 1))).unwrap();
    std::fs::remove_file(table.base().join("2018/08/31").join(name("b", 1))).unwrap();
    assert_eq!(fs.open(gone, Wait::Yes).err(), Some(Fault::STALE));
    let (done, result) = std::sync::mpsc::channel();
    held.1.read(0, 100, move |r| done.send(r).unwrap());
    assert_eq!(&result.recv().unwrap().unwrap()[..], b"bb", "an open handle goes on");
    let events = event::recent();
    let cleaned = hudifs::telemetry::EventCode::CleanedUnderReader;
    let told = events.iter().find(|e| e.file.as_deref() == Some(&name("a", 1)) && e.code == cleaned);
    assert!(told.is_some_and(|e| e.hint.as_ref().unwrap().contains("retain")), "{events:?}");
    // Once the table no longer knows the file: stale for who has the name, absent for who has not.
    std::fs::write(table.base().join("2018/08/31").join(name("b", 1)), b"bb").unwrap();
    let _ = publish(&fs, table.commit(|c| c.clean("2018/08/31", &name("b", 1))));
    // Listings that began before keep the old names reachable; a remount has none.
    let fresh = serve(&table);
    assert_eq!(walk(&fresh, &format!("2018/08/31/{}", name("b", 1))), Err(Fault::NOT_FOUND));
}

#[test]
fn a_size_that_the_table_says_wrongly_is_an_error_of_that_file() {
    let table = small();
    let _ = table.commit(|c| c.lie_about_size("2018/08/31", &name("a", 1), 999));
    let fs = serve(&table);
    let file = walk(&fs, &format!("2018/08/31/{}", name("a", 1))).unwrap();
    assert_eq!(file.size, 999);
    assert_eq!(fs.open(file.ino, Wait::Yes).err(), Some(Fault::IO));
    assert!(event::recent().iter().any(|e| e.message.contains("999") && e.message.contains("has 3 bytes")));
    assert_eq!(read_all(&fs, ino(&fs, &format!("2018/08/31/{}", name("b", 1)))).unwrap(), b"bb");
}

#[test]
fn the_kernel_is_told_what_it_may_know_and_nothing_else() {
    let table = small();
    let fs = serve(&table);
    let (aug, sep) = (ino(&fs, "2018/08/31"), ino(&fs, "2018/09/01"));
    let coming = name("a", 2);
    assert_eq!(fs.lookup(aug, OsStr::new(&coming), Wait::Yes), Ok(Lookup::Absent { keep: true }));
    assert_eq!(fs.lookup(sep, OsStr::new("never"), Wait::Yes), Ok(Lookup::Absent { keep: true }));
    let told = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"2")));
    assert_eq!(told.entries, [(aug, coming.as_str().into())]);
    let above: BTreeSet<u64> = [ROOT, ino(&fs, "2018"), ino(&fs, "2018/08"), aug].into();
    assert_eq!(told.inodes.iter().copied().collect::<BTreeSet<_>>(), above);
    assert!(matches!(fs.lookup(aug, OsStr::new(&coming), Wait::Yes), Ok(Lookup::Found { keep: true, .. })));
    // Told once: the next commit has nothing to say about that name.
    assert!(publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"3"))).entries.is_empty());
    // A new partition: its parents' names.
    assert_eq!(walk(&fs, "2018/10"), Err(Fault::NOT_FOUND));
    let told = publish(&fs, table.commit(|c| c.write("2018/10/01", "a", b"3")));
    assert!(told.entries.contains(&(ino(&fs, "2018"), "10".into())));
    assert_eq!(list_path(&fs, "2018"), ["08", "09", "10"]);
    assert_eq!(list_path(&fs, "2018/10/01"), [name("a", 4)]);
}

#[test]
fn probes_for_hidden_names_ask_nobody() {
    let table = small();
    let fs = serve(&table);
    let dir = ino(&fs, "2018/09/01");
    let fresh = serve(&table);
    let _ = (dir, ino(&fresh, "2018/09/01"));
    let before = table.knobs.loads.load(SeqCst);
    for n in 0..1000 {
        let name = format!(".{}.crc", name("c", n));
        assert_eq!(fs.lookup(dir, OsStr::new(&name), Wait::No), Ok(Lookup::Absent { keep: true }));
    }
    assert_eq!(table.knobs.loads.load(SeqCst), before);
    assert!(publish(&fs, table.commit(|c| c.write("2018/09/01", "c", b"2"))).entries.is_empty());
}

#[test]
fn a_partition_is_loaded_once_however_many_look() {
    let table = small();
    let fs = serve(&table);
    let dir = {
        let tree = ino(&fs, "2018/08");
        // The number without a look at the partition itself.
        let mut buffer = Buffer::default();
        read_some(&fs, tree, &mut buffer, 10, false).unwrap();
        tree
    };
    table.knobs.load_ms.store(100, SeqCst);
    let before = table.knobs.loads.load(SeqCst);
    assert_eq!(fs.lookup(dir, OsStr::new("31"), Wait::No), Err(Fault::WouldBlock), "nobody waits who may not");
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(list_path(&fs, "2018/08/31").len(), 2));
        }
    });
    assert_eq!(table.knobs.loads.load(SeqCst), before + 1);
}

#[test]
fn a_commit_while_a_partition_loads_does_not_leave_its_old_list_behind() {
    let table = small();
    let fs = serve(&table);
    ino(&fs, "2018/08");
    table.knobs.load_ms.store(300, SeqCst);
    std::thread::scope(|scope| {
        let old = scope.spawn(|| list_path(&fs, "2018/08/31"));
        std::thread::sleep(Duration::from_millis(100));
        let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"2")));
        assert_eq!(list_path(&fs, "2018/08/31"), [name("a", 2), name("b", 1)]);
        let old = old.join().unwrap();
        assert!(old[0] == name("a", 1) || old[0] == name("a", 2));
    });
    assert_eq!(list_path(&fs, "2018/08/31"), [name("a", 2), name("b", 1)]);
}

#[test]
fn a_walk_is_followed_by_loading_ahead() {
    let table = DoubleTable::new(|c| (0..64).for_each(|n| c.write(&format!("p{n:02}"), "a", b"1")));
    let fs = serve(&table);
    for n in 0..8 {
        list_path(&fs, &format!("p{n:02}"));
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs.stats().partitions_loaded < 30 {
        assert!(Instant::now() < deadline, "{:?}", fs.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    let loads = table.knobs.loads.load(SeqCst);
    for n in 0..64 {
        list_path(&fs, &format!("p{n:02}"));
    }
    assert!(table.knobs.loads.load(SeqCst) <= 64 && loads >= 30, "each partition is loaded once");
}

#[test]
fn memory_is_bounded_and_what_was_dropped_comes_back() {
    let table = DoubleTable::new(|c| {
        for p in 0..40 {
            (0..50).for_each(|n| c.write(&format!("p{p:02}"), &format!("file-{n:04}"), b"1"));
        }
    });
    let fs = serve_with(&table, FsOptions { memory_target: 40_000, ..FsOptions::default() });
    let mut known = Vec::new();
    for p in 0..40 {
        list_path(&fs, &format!("p{p:02}"));
        known.push(walk(&fs, &format!("p{p:02}/{}", name("file-0007", 1))).unwrap());
        assert!(fs.stats().partition_bytes <= 60_000, "{:?}", fs.stats());
    }
    assert!(fs.stats().partitions_loaded < 20, "{:?}", fs.stats());
    for attr in known {
        assert_eq!(fs.getattr(attr.ino, Wait::Yes), Ok(attr), "inodes outlive the lists they came from");
        assert_eq!(read_all(&fs, attr.ino).unwrap(), b"1");
    }
}

#[test]
fn what_the_kernel_gives_back_is_forgotten() {
    let table = small();
    let fs = serve(&table);
    let baseline = fs.stats().inodes;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut ino = ROOT;
        for part in ["2018", "08", "31", &name("a", 1)] {
            let Ok(Lookup::Found { attr, .. }) = fs.lookup(ino, OsStr::new(part), Wait::Yes) else { panic!("{part}") };
            held.push(attr.ino);
            ino = attr.ino;
        }
    }
    assert_eq!(fs.stats().inodes, baseline + 4);
    for ino in &held[..8] {
        fs.forget(*ino, 1);
    }
    assert_eq!(fs.stats().inodes, baseline + 4, "each was given three times");
    for ino in &held[8..] {
        fs.forget(*ino, 1);
    }
    assert_eq!(fs.stats().inodes, baseline);
    assert_eq!(fs.getattr(held[3], Wait::Yes), Err(Fault::STALE));
    fs.forget(ROOT, 1000);
    assert!(fs.getattr(ROOT, Wait::Yes).is_ok());
}

#[test]
fn moments_are_directories_and_latest_is_a_link() {
    let table = small();
    let fs = serve(&table);
    let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"22")));
    let base = ".hudifs/read_optimized";
    assert_eq!(fs.readlink(ino(&fs, &format!("{base}/latest"))).unwrap(), instant(2).as_str().as_bytes());
    assert_eq!(list_path(&fs, base), [instant(1).to_string(), instant(2).to_string(), "latest".to_owned()]);
    let at = |moment: &str, path: &str| format!("{base}/{moment}/2018/08/31{path}");
    assert_eq!(list_path(&fs, &at(instant(1).as_str(), "")), [name("a", 1), name("b", 1)]);
    // A moment between commits, and one that is yet to come.
    assert_eq!(list_path(&fs, &at("20260101000000001999", "")), [name("a", 1), name("b", 1)]);
    let future = "20990101";
    assert_eq!(list_path(&fs, &at(future, "")), [name("a", 2), name("b", 1)]);
    let future_dir = ino(&fs, &format!("{base}/{future}"));
    let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "b", b"333")));
    assert_ne!(ino(&fs, &format!("{base}/{future}")), future_dir, "it means another commit now");
    assert_eq!(list_path(&fs, &at(future, "")), [name("a", 2), name("b", 3)]);
    assert_eq!(list(&fs, future_dir).unwrap(), ["2018"], "who is in the old one stays there");
    // One version of one file is one inode, wherever it is seen.
    let (live, past) =
        (ino(&fs, &format!("2018/08/31/{}", name("a", 2))), ino(&fs, &at("2099", &format!("/{}", name("a", 2)))));
    assert_eq!(live, past);
    for absent in ["2019", "yesterday", "../..", ".hudifs"] {
        assert_eq!(walk(&fs, &format!("{base}/{absent}")), Err(Fault::NOT_FOUND), "{absent}");
    }
    assert_eq!(walk(&fs, &format!("{base}/{future}/.hudifs")), Err(Fault::NOT_FOUND));
    let held = fs.held(&TablePath::root()).unwrap();
    assert!(held.instants.contains(&instant(1)) && held.instants.contains(&instant(2)), "{held:?}");
}

#[test]
fn virtual_files_have_the_size_that_they_are_read_with() {
    let table = small();
    let fs = serve(&table);
    for (file, content) in [("status.json", "Some(\"\") Status\n"), ("timeline.json", "Some(\"\") Timeline\n")] {
        let attr = walk(&fs, &format!(".hudifs/{file}")).unwrap();
        assert_eq!(attr.size as usize, content.len());
        assert!(!attr.cacheable);
        assert_eq!(read_all(&fs, attr.ino).unwrap(), content.as_bytes());
    }
    assert_eq!(fs.readlink(ino(&fs, ".hudifs/control.sock")).unwrap(), b"/run/hudifs/double.sock");
}

#[test]
fn statfs_tells_the_view_and_follows_commits() {
    let table = small();
    let fs = serve(&table);
    let total = || {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let s = fs.statfs(ROOT).unwrap();
            if s.complete {
                assert!(s.free_bytes > 0 && s.free_files > 0);
                return (s.files, s.bytes);
            }
            assert!(Instant::now() < deadline);
        }
    };
    assert_eq!(total(), (4, 6));
    let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"1234567")));
    assert_eq!(total(), (4, 10), "only the newest versions count");
    let _ = publish(&fs, table.commit(|c| c.write("2018/12/31", "z", b"12345678901234567890")));
    assert_eq!(total(), (5, 30));
    let _ = publish(&fs, table.commit(|c| c.drop_partition("2018/08/31")));
    assert_eq!(total(), (3, 21));
}

#[test]
fn extended_attributes_say_where_a_file_comes_from() {
    let table = small();
    let fs = serve(&table);
    let file = ino(&fs, &format!("2018/08/31/{}", name("a", 1)));
    let get = |ino, name: &str| fs.getxattr(ino, OsStr::new(name), Wait::Yes).map(|v| String::from_utf8(v).unwrap());
    assert_eq!(get(file, "user.hudi.commit_time").unwrap(), instant(1).as_str());
    assert_eq!(get(file, "user.hudi.file_id").unwrap(), "a");
    assert_eq!(get(file, "user.hudi.partition").unwrap(), "2018/08/31");
    let source = get(file, "user.hudi.source").unwrap();
    assert!(source.ends_with(&format!("/2018/08/31/{}", name("a", 1))) && source.starts_with("file://"), "{source}");
    assert_eq!(get(file, "user.hudi.other"), Err(Fault::NO_DATA));
    for kind in ["security.selinux", "security.capability", "system.posix_acl_access"] {
        assert_eq!(get(file, kind), Err(Fault::Errno(libc::EOPNOTSUPP)), "{kind}: not there, and never will be");
    }
    let names = fs.listxattr(file).unwrap();
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        assert!(get(file, std::str::from_utf8(name).unwrap()).is_ok());
    }
    assert_eq!(names.iter().filter(|b| **b == 0).count(), 4);
    assert_eq!(get(ino(&fs, "2018/08/31"), "user.hudi.partition").unwrap(), "2018/08/31");
}

#[test]
fn a_warehouse_shows_its_tables_below_each_other() {
    let fs = TableFs::warehouse(Arc::new(DoubleHost), FsOptions::default());
    assert_eq!(list_path(&fs, ""), Vec::<String>::new());
    let (one, two) = (small(), DoubleTable::new(|c| c.write("x=1", "a", b"1")));
    let told = fs.add_table(&path("db/one"), one.clone()).unwrap();
    assert!(told.inodes.contains(&ROOT) && told.entries.contains(&(ROOT, "db".into())));
    let _ = fs.add_failed_table(&path("db/broken"), hudifs::Error::corrupt("broken on purpose")).unwrap();
    let _ = fs.add_table(&path("other"), two).unwrap();
    assert_eq!(list_path(&fs, ""), ["db", "other"]);
    assert_eq!(list_path(&fs, "db"), ["broken", "one"]);
    assert_eq!(list_path(&fs, "db/one/2018/09/01").len(), 2);
    assert_eq!(list(&fs, ino(&fs, "db/broken")), Err(Fault::IO));
    assert_eq!(list_path(&fs, "other/x=1"), [name("a", 1)]);
    assert_eq!(list_path(&fs, ".hudifs"), ["control.sock", "metrics", "status.json"]);
    assert!(walk(&fs, "db/one/.hudifs/timeline.json").is_ok());
    assert_eq!(walk(&fs, "db/.hudifs"), Err(Fault::NOT_FOUND));
    for refused in ["", "db", "db/one/inner", "db/one", ".hudifs/t"] {
        assert!(fs.add_table(&path(refused), small()).is_err(), "{refused:?}");
    }
    let _ = fs.publish(&path("db/one"), one.commit(|c| c.write("2019", "n", b"1"))).unwrap();
    assert_eq!(list_path(&fs, "db/one"), ["2018", "2019"]);
    let _ = fs.add_table(&path("db/broken"), small()).unwrap();
    assert_eq!(list_path(&fs, "db/broken"), ["2018"], "a table that has been mended takes its place");
    let _ = fs.remove_table(&path("db/one"));
    assert_eq!(list_path(&fs, "db"), ["broken"]);
    assert!(fs.publish(&path("db/one"), one.commit(|_| {})).is_err());
}

#[test]
fn readers_and_commits_at_once_see_whole_generations() {
    let table = DoubleTable::new(|c| (0..20).for_each(|n| c.write("p", &format!("f{n:02}"), b"1")));
    let fs = serve(&table);
    let deadline = Instant::now() + Duration::from_millis(1500);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let fs = &fs;
            scope.spawn(move || {
                let dir = ino(fs, "p");
                while Instant::now() < deadline {
                    let mut stream = Buffer::default();
                    while read_some(fs, dir, &mut stream, 1 + seed, true).unwrap() {}
                    let names: Vec<_> = stream.names.iter().skip(2).map(|n| n.0.clone()).collect();
                    let groups: BTreeSet<_> = names.iter().map(|n| n.split('_').next().unwrap()).collect();
                    let commits: BTreeSet<_> = names.iter().map(|n| n.rsplit('_').next().unwrap()).collect();
                    assert_eq!((names.len(), groups.len(), commits.len()), (20, 20, 1), "{names:?}");
                    for (_, ino, ..) in stream.names.iter().skip(2) {
                        assert!(fs.getattr(*ino, Wait::Yes).is_ok());
                        fs.forget(*ino, 1);
                    }
                }
            });
        }
        while Instant::now() < deadline {
            let view = table.commit(|c| (0..20).for_each(|n| c.write("p", &format!("f{n:02}"), b"1")));
            let _ = publish(&fs, view);
            if table_commits(&table) > 900 {
                break;
            }
        }
    });
}

#[test]
fn a_broken_partition_does_not_make_every_question_for_sums_wait() {
    let table = small();
    table.knobs.broken.lock().unwrap().insert(TablePath::parse("2018/08/31").unwrap());
    let fs = serve(&table);
    let deadline = Instant::now() + Duration::from_secs(10);
    // The other partitions are counted, once.
    while fs.statfs(ROOT).unwrap().files != 2 {
        assert!(Instant::now() < deadline);
    }
    let loads = table.knobs.loads.load(SeqCst);
    let start = Instant::now();
    for _ in 0..20 {
        let sums = fs.statfs(ROOT).unwrap();
        assert!(!sums.complete && sums.files == 2);
    }
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
    assert_eq!(table.knobs.loads.load(SeqCst), loads);
    // A commit is a reason to try again.
    table.knobs.broken.lock().unwrap().clear();
    let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"1234567")));
    while !fs.statfs(ROOT).unwrap().complete {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(fs.statfs(ROOT).unwrap().files, 4);
}

/// Gives every lookup back that walking to a path has counted.
fn forget(fs: &TableFs, inos: &[u64]) {
    inos.iter().for_each(|ino| fs.forget(*ino, 1000));
}

#[test]
fn a_view_of_the_past_is_let_go_when_nobody_uses_it() {
    let table = small();
    let idle_max = Duration::from_millis(100);
    let fs = serve_with(&table, FsOptions { idle_max, ..FsOptions::default() });
    let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "a", b"22")));
    let old = instant(1).to_string();
    let base = format!(".hudifs/read_optimized/{old}");
    let steps = ["", "/2018", "/2018/08", "/2018/08/31"].map(|p| ino(&fs, &format!("{base}{p}")));
    let file = ino(&fs, &format!("{base}/2018/08/31/{}", name("a", 1)));
    // What was loaded ahead or counted has no name that the kernel knows.
    assert!(fs.statfs(steps[0]).unwrap().files > 0);
    let loaded = fs.stats().partitions_loaded;
    let holds = || fs.held(&TablePath::root()).unwrap().instants.contains(&instant(1));
    assert!(holds() && fs.tick().is_empty(), "in use a moment ago");
    std::thread::sleep(idle_max);
    let told = fs.tick();
    let moments = ino(&fs, ".hudifs/read_optimized");
    assert_eq!(told.iter().flat_map(|t| t.entries.clone()).collect::<Vec<_>>(), [(moments, old.as_str().into())]);
    assert!(fs.tick().is_empty(), "told once in that time");
    assert!(holds(), "the kernel may still use it");
    assert_eq!(list(&fs, steps[3]).unwrap().len(), 2);
    forget(&fs, &[&[file], steps.as_slice()].concat());
    let _ = fs.tick();
    assert!(fs.stats().partitions_loaded < loaded, "its lists are freed");
    assert_eq!(fs.stats().moments, 0, "and so is the view");
    assert_eq!(list_path(&fs, &format!("{base}/2018/08/31")).len(), 2, "it comes back when asked for");
}

#[test]
fn a_dropped_partition_is_found_by_name_until_nobody_has_used_it_for_a_while() {
    let table = small();
    let idle_max = Duration::from_millis(100);
    let fs = serve_with(&table, FsOptions { idle_max, ..FsOptions::default() });
    let path = format!("2018/08/31/{}", name("a", 1));
    let file = ino(&fs, &path);
    let (dir, parent) = (ino(&fs, "2018/08/31"), ino(&fs, "2018/08"));
    let _ = publish(&fs, table.commit(|c| c.drop_partition("2018/08/31")));
    let (handle, _) = fs.open(file, Wait::Yes).unwrap();
    assert!(walk(&fs, &path).is_ok(), "a scan that listed before may open now");
    std::thread::sleep(idle_max);
    let entries: BTreeSet<_> = fs.tick().into_iter().flat_map(|t| t.entries).collect();
    assert!(entries.contains(&(parent, "31".into())), "{entries:?}");
    // Somebody asked again: it stays for another while.
    assert!(walk(&fs, &path).is_ok());
    assert!(fs.tick().is_empty());
    forget(&fs, &[file, dir]);
    std::thread::sleep(idle_max);
    let _ = fs.tick();
    assert_eq!(walk(&fs, "2018/08/31"), Err(Fault::NOT_FOUND));
    assert!(fs.getattr(file, Wait::Yes).is_ok(), "an open file is not touched");
    fs.release(handle);
    // Written again, it is there again.
    let _ = publish(&fs, table.commit(|c| c.write("2018/08/31", "c", b"3")));
    assert_eq!(list_path(&fs, "2018/08/31"), [name("c", 3)]);
    std::thread::sleep(idle_max);
    let _ = fs.tick();
    assert!(walk(&fs, "2018/08/31").is_ok());
}
