//! A large metadata table: opening it must not read it all, and a lookup must read what belongs to its key.
//!
//! `HUDIFS_SCALE=1000x1000` sets partitions and files of each; the times that it prints mean something in a release build.

use crate::metadata_writer::{Entry, Synthetic};
use hudifs::storage::TablePath;
use hudifs::view::Lister;
use std::sync::atomic::Ordering;
use std::time::Instant;

const SOLO: &str = "00000000000000000";
const LOGS: u32 = 10;

fn scale() -> (usize, usize) {
    let text = std::env::var("HUDIFS_SCALE").unwrap_or_else(|_| "100x200".to_owned());
    let (partitions, files) = text.split_once('x').unwrap();
    (partitions.parse().unwrap(), files.parse().unwrap())
}

fn partition(i: usize) -> String {
    format!("region=eu/date=2024-{:02}-{:02}/hour={:03}", i / 700 % 12 + 1, i / 24 % 28 + 1, i)
}

/// As long and as unlike each other as real names.
fn file_name(partition: usize, file: usize) -> String {
    let hash = |salt: u64| {
        let mixed = (partition as u64 + salt) << 32 | file as u64;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let (a, b) = (hash(1), hash(77));
    let id = format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a & 0xffff,
        b >> 52,
        b >> 36 & 0xffff,
        b & 0xffff_ffff_ffff
    );
    format!("{id}-0_{file}-21-{partition}_20240101000000000.parquet")
}

#[test]
fn a_large_metadata_table_is_opened_by_its_index() {
    let (partitions, files) = scale();
    let mut table = Synthetic::new(9);
    table.writer.block_size = if partitions * files > 100_000 { 1 << 20 } else { 64 << 10 };
    table.commit(SOLO, "20240101000000001");
    let keys: Vec<String> = (0..partitions).map(partition).collect();
    let names: Vec<Vec<String>> = (0..partitions).map(|p| (0..files).map(|f| file_name(p, f)).collect()).collect();
    let all: Vec<Entry<'_>> = keys.iter().map(|k| (k.as_str(), Some(0))).collect();
    let entries: Vec<Vec<Entry<'_>>> =
        names.iter().map(|n| n.iter().map(|n| (n.as_str(), Some(123_456_789))).collect()).collect();
    let mut records = vec![("__all_partitions__", all.as_slice())];
    records.extend(keys.iter().zip(&entries).map(|(k, e)| (k.as_str(), e.as_slice())));
    table.base(SOLO, &records);
    // Each log touches all partitions, as a commit to every partition does.
    for log in 1..=LOGS {
        let time = format!("202401020000{log:02}000");
        table.commit(&time, &format!("202401020000{log:02}500"));
        let added = format!("log-{log}.parquet");
        let entry = [(added.as_str(), Some(u64::from(log)))];
        let records: Vec<_> = keys.iter().map(|k| (k.as_str(), &entry[..])).collect();
        table.log(&time, 1, &[table.block(&time, &records)]);
    }
    measure(&table, &keys, files);
}

fn measure(table: &Synthetic, keys: &[String], files: usize) {
    let base = table.base_path().join(format!(".hoodie/metadata/files/files-0000-0_0-1-2_{SOLO}.hfile"));
    let base_len = std::fs::metadata(base).unwrap().len();
    let storage = table.storage();
    let timeline = table.timeline();
    let read = || storage.stats().bytes.load(Ordering::Relaxed);
    let before = read();
    let start = Instant::now();
    let lister = hudifs::metadata::MetadataLister::open(&*storage, &timeline).unwrap();
    let opened = start.elapsed();
    let open_read = read() - before;
    let start = Instant::now();
    let first = lister.files(&TablePath::parse(&keys[keys.len() / 2]).unwrap()).unwrap();
    let looked_up = start.elapsed();
    assert_eq!(first.len(), files + LOGS as usize);
    let start = Instant::now();
    let partitions = lister.partitions().unwrap();
    let listed = start.elapsed();
    assert_eq!(partitions.len(), keys.len());
    let start = Instant::now();
    let total: usize = partitions.iter().map(|p| lister.files(p).unwrap().len()).sum();
    let walked = start.elapsed();
    assert_eq!(total, keys.len() * (files + LOGS as usize));
    println!(
        "base of {base_len} bytes; opened in {opened:?} reading {open_read} bytes; first partition in {looked_up:?}, \
         partitions in {listed:?}, all {total} files in {walked:?}; {} bytes held",
        lister.memory_bytes()
    );
    if base_len > 1 << 20 {
        assert!(open_read < base_len / 2 + 300_000, "opening read {open_read} of {base_len} bytes");
    }
}
