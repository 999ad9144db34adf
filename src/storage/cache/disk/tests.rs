use super::super::{BLOCK_BYTES, Version};
use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

fn key(name: &str, index: u64) -> BlockKey {
    let version = Version::new(format!("s3://b/{name}"), "\"tag\"".into(), 1 << 40);
    BlockKey { version: Arc::new(version), index }
}

fn block(fill: u8) -> Bytes {
    Bytes::from(vec![fill; BLOCK_BYTES as usize])
}

fn open(dir: &Path, bytes_max: u64) -> DiskCache {
    DiskCache::open(dir, Some(bytes_max), Arc::new(StorageStats::default())).unwrap()
}

fn damage(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn size_of(dir: &Path) -> u64 {
    let mut usage = Usage::new(dir.join("hudifs-blocks-1"), Some(0));
    usage.measure();
    usage.bytes()
}

/// Writes all as the writer's thread does, but leaves out none.
fn fill(dir: &Path, bytes_max: u64, keys: impl Iterator<Item = BlockKey>) {
    let mut usage = Usage::new(open(dir, bytes_max).root.clone(), Some(bytes_max));
    usage.measure();
    for key in keys {
        usage.make_room(BLOCK_BYTES);
        usage.grew(write(usage.root(), &key, &block(key.index as u8)).unwrap());
    }
}

#[test]
fn blocks_survive_a_restart_and_answer_to_their_own_key_only() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 1 << 30);
    cache.put(&key("a", 1), &block(1));
    drop(cache);
    let cache = open(dir.path(), 1 << 30);
    assert_eq!(cache.get(&key("a", 1)).unwrap(), block(1));
    assert!(cache.get(&key("a", 2)).is_none() && cache.get(&key("b", 1)).is_none());
    let other_tag = Version::new("s3://b/a".into(), "\"other\"".into(), 1 << 40);
    assert!(cache.get(&BlockKey { version: Arc::new(other_tag), index: 1 }).is_none());
}

#[test]
fn damage_is_never_served() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 1 << 30);
    let (mine, other) = (key("a", 1), key("a", 2));
    let path = path_of(&cache.root, &mine);
    let whole = write(&cache.root, &mine, &block(1)).unwrap();
    let start = whole - BLOCK_BYTES;
    for at in [0, 8, 12, 30, start - 12, start - 1, start, whole - 1] {
        write(&cache.root, &mine, &block(1)).unwrap();
        assert!(cache.get(&mine).is_some());
        let mut byte = [0];
        damage(&path).read_exact_at(&mut byte, at).unwrap();
        damage(&path).write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        assert!(cache.get(&mine).is_none(), "a flipped bit at {at}");
    }
    for len in [0, 7, whole / 2, whole - 1, whole + 1, 1 << 30] {
        write(&cache.root, &mine, &block(1)).unwrap();
        damage(&path).set_len(len).unwrap();
        assert!(cache.get(&mine).is_none(), "{len} bytes");
    }
    // Another block's file under this name, as with a colliding hash.
    write(&cache.root, &other, &block(2)).unwrap();
    fs::rename(path_of(&cache.root, &other), &path).unwrap();
    assert!(cache.get(&mine).is_none());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(cache.get(&mine).is_none());
}

#[test]
fn the_bound_holds_and_what_was_used_last_stays() {
    let dir = tempfile::tempdir().unwrap();
    let bound = 2048 * BLOCK_BYTES;
    fill(dir.path(), bound, (0..1500).map(|i| key("old", i)));
    let root = dir.path().join("hudifs-blocks-1");
    let ago = SystemTime::now() - Duration::from_secs(7200);
    for i in 0..1500 {
        damage(&path_of(&root, &key("old", i))).set_modified(ago).unwrap();
    }
    // A hit renews the time.
    let cache = open(dir.path(), bound);
    (0..100).for_each(|i| assert!(cache.get(&key("old", i)).is_some()));
    fill(dir.path(), bound, (0..1200).map(|i| key("new", i)));
    assert!(size_of(dir.path()) <= bound, "{} of {bound}", size_of(dir.path()));
    let kept = |name: &str, n| (0..n).filter(|i| cache.get(&key(name, *i)).is_some()).count();
    assert!(kept("old", 100) > 80 && kept("new", 1200) > 1100, "{} {}", kept("old", 100), kept("new", 1200));
}

#[test]
fn two_daemons_on_one_directory_do_not_hurt_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let bound = 1024 * BLOCK_BYTES;
    std::thread::scope(|scope| {
        for seed in 0..2u64 {
            let dir = dir.path();
            scope.spawn(move || {
                fill(dir, bound, (0..2000).map(|i| key("shared", (i * 7 + seed * 500) % 1500)));
            });
        }
    });
    let cache = open(dir.path(), bound);
    let found: Vec<_> = (0..1500).filter_map(|i| Some((i, cache.get(&key("shared", i))?))).collect();
    assert!(found.len() > 500 && found.iter().all(|(i, b)| *b == block(*i as u8)), "{} found", found.len());
    assert!(size_of(dir.path()) <= bound + bound / 8, "{} of {bound}", size_of(dir.path()));
}

#[test]
fn leftovers_of_a_crash_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1 << 30));
    let tmp = dir.path().join("hudifs-blocks-1/tmp");
    fs::write(tmp.join("1-1"), "torn").unwrap();
    fs::write(tmp.join("1-2"), "being written").unwrap();
    damage(&tmp.join("1-1")).set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    drop(open(dir.path(), 1 << 30));
    assert!(!tmp.join("1-1").exists() && tmp.join("1-2").exists());
}
