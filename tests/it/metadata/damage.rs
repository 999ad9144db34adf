//! Real files, damaged in thousands of ways: an answer or an error, soon, in bounded memory, and never a panic.
//!
//! Runs in a process of its own, because memory can be bounded only for a whole process. The seed is printed with a failure,
//! and `HUDIFS_SEED` runs one seed again.

use crate::common::{golden, golden_dir, golden_names};
use bytes::Bytes;
use hudifs::format::avro::Container;
use hudifs::format::commit::CommitMetadata;
use hudifs::format::file_name::FileName;
use hudifs::format::hfile::HFile;
use hudifs::format::log::{LogReader, avro_records, delete_keys, select};
use hudifs::format::plan::{CompactionPlan, RequestedReplace};
use hudifs::metadata::MetadataLister;
use hudifs::view::Lister;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Damaged copies of each file.
const ROUNDS: u64 = 60;
/// Damaged states of each metadata table.
const TABLE_ROUNDS: u64 = 40;
/// Files of each kind of each table.
const FILES_OF_TABLE: usize = 2;
/// For one damaged file of some tens of KiB, unoptimized and beside other tests.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Address space of the process, KiB: the tests' own threads and files, and little more.
const MEMORY_MAX_KIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    HFile,
    Log,
    Avro,
}

#[test]
fn damaged_files_are_an_answer_or_an_error() {
    if golden_dir().is_none() {
        golden_names();
        return;
    }
    let shell = format!("ulimit -v {MEMORY_MAX_KIB} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &shell]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "metadata::damage::child", "--ignored", "--nocapture", "--test-threads=1"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("damaged copies"), "the child did not run: {text}");
}

#[test]
#[ignore = "run by damaged_files_are_an_answer_or_an_error, with its memory bounded"]
fn child() {
    let (mut copies, mut failures) = (0u64, 0u64);
    for name in golden_names() {
        let table = golden(&name);
        let mut files = Vec::new();
        collect(&table.base(), &mut files);
        for (path, kind) in files {
            let whole = std::fs::read(&path).unwrap();
            assert!(read(kind, &whole), "{} is whole", path.display());
            for round in 0..number("HUDIFS_DAMAGE_ROUNDS").unwrap_or(ROUNDS) {
                let seed = number("HUDIFS_SEED").unwrap_or(copies * 1_000_003 + round);
                let damaged = Random(seed | 1).damage(&whole);
                let start = Instant::now();
                let ok = std::panic::catch_unwind(|| read(kind, &damaged));
                let took = start.elapsed();
                let ok = ok.unwrap_or_else(|_| panic!("seed {seed}: {} panics", path.display()));
                assert!(took < TIME_MAX, "seed {seed}: {} took {took:?}", path.display());
                copies += 1;
                failures += u64::from(!ok);
            }
        }
    }
    println!("{copies} damaged copies, {failures} refused");
    assert!(copies > 5_000 && failures > copies / 2);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// One file of a metadata table after the other is damaged, left out or replaced by another, and the table opened.
#[test]
fn a_damaged_metadata_table_is_an_answer_or_an_error() {
    let mut refused = 0u64;
    for name in ["hudi_v6_table_mor", "mor_v8_trips_8i3u1d", "mor_v9_txns_complex_meta"] {
        if golden_dir().is_none() {
            golden_names();
            return;
        }
        let table = golden(name);
        let mut files = Vec::new();
        walk(&table.base().join(".hoodie/metadata/files"), &mut files);
        walk(&table.base().join(".hoodie/metadata/.hoodie"), &mut files);
        files.sort();
        for round in 0..TABLE_ROUNDS {
            let seed = number("HUDIFS_SEED").unwrap_or(round * 7919 + 1);
            let mut random = Random(seed | 1);
            let path = &files[random.below(files.len())];
            let whole = std::fs::read(path).unwrap();
            match random.below(4) {
                0 => std::fs::remove_file(path).unwrap(),
                1 => drop(std::fs::copy(&files[random.below(files.len())], path).unwrap()),
                _ => std::fs::write(path, random.damage(&whole)).unwrap(),
            }
            let start = Instant::now();
            let ok = std::panic::catch_unwind(|| list_all(&table.base()));
            let took = start.elapsed();
            let ok = ok.unwrap_or_else(|_| panic!("seed {seed}: {name} with damaged {} panics", path.display()));
            // Damaged properties are waited for, since an update of them may be under way.
            assert!(took < TIME_MAX, "seed {seed}: {name} with damaged {} took {took:?}", path.display());
            refused += u64::from(!ok);
            std::fs::write(path, whole).unwrap();
        }
        assert!(list_all(&table.base()), "{name} is whole again");
    }
    println!("{refused} refused");
    assert!(refused > 5);
}

fn list_all(base: &Path) -> bool {
    let (storage, timeline) = super::golden::open(base);
    let Ok(lister) = MetadataLister::open(&*storage, &timeline) else { return false };
    let Ok(partitions) = lister.partitions() else { return false };
    partitions.iter().all(|p| lister.files(p).is_ok())
}

fn collect(dir: &Path, found: &mut Vec<(std::path::PathBuf, Kind)>) {
    let mut all = Vec::new();
    walk(dir, &mut all);
    all.sort();
    for kind in [Kind::HFile, Kind::Log, Kind::Avro] {
        let of_kind = all.iter().filter(|p| kind_of(p) == Some(kind)).take(FILES_OF_TABLE);
        found.extend(of_kind.map(|p| (p.clone(), kind)));
    }
}

fn walk(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

fn kind_of(path: &Path) -> Option<Kind> {
    match FileName::parse(path.file_name()?.to_str()?) {
        FileName::Base(base) if base.extension == ".hfile" => Some(Kind::HFile),
        FileName::Log(_) => Some(Kind::Log),
        _ => {
            let bytes = std::fs::read(path).unwrap();
            Container::is_container(&bytes).then_some(Kind::Avro)
        }
    }
}

/// Reads all that can be read; true if nothing was refused.
fn read(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::HFile => read_hfile(Bytes::copy_from_slice(bytes)),
        Kind::Log => read_log(Bytes::copy_from_slice(bytes)),
        Kind::Avro => {
            let _ = CommitMetadata::parse(bytes);
            let _ = CompactionPlan::parse(bytes);
            let _ = RequestedReplace::parse(bytes);
            Container::open(bytes).and_then(|c| c.records(|record| record.value().map(drop))).is_ok()
        }
    }
}

fn read_hfile(bytes: Bytes) -> bool {
    let Ok(file) = HFile::open(bytes) else { return false };
    let mut rows = Vec::new();
    let scanned = file.scan(|row, _| {
        rows.push(row.to_vec());
        Ok(())
    });
    rows.push(b"nothing".to_vec());
    rows.iter().take(20).all(|row| file.get(row).is_ok()) && scanned.is_ok()
}

fn read_log(bytes: Bytes) -> bool {
    let mut reader = LogReader::new(bytes);
    let (mut heads, mut ok) = (Vec::new(), true);
    loop {
        let block = match reader.next_block() {
            Ok(Some(block)) => block,
            Ok(None) => break,
            Err(_) => return false,
        };
        heads.extend(block.head().ok());
        let content = reader.content(&block).unwrap();
        use hudifs::format::log::BlockKind::*;
        ok &= match block.kind {
            HFile => read_hfile(content),
            Delete => delete_keys(&content, |_, _| Ok(())).is_ok(),
            Avro => avro_records(&content).is_ok_and(|mut records| records.all(|r| r.is_ok())),
            Corrupt => false,
            Command | Parquet | Cdc => true,
        };
    }
    ok & select(&heads, |_| true).is_ok()
}

/// Xorshift: repeatable from its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn damage(&mut self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        for _ in 0..=self.below(3) {
            let len = bytes.len();
            if len < 16 {
                break;
            }
            // Structure is at the start of logs and Avro files, and at the end of HFiles.
            let at = match self.below(3) {
                0 => self.below(len.min(200)),
                1 => len - 1 - self.below(len.min(4400)),
                _ => self.below(len),
            };
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.next() as u8,
                2 => bytes.truncate(at),
                // A number of four or eight bytes that is out of all proportion.
                3 => {
                    let number = [0, 1, i64::MAX, i64::MIN, -1, 0x7fff_ffff, 0x7fff_ff00][self.below(7)].to_be_bytes();
                    let width = [4, 8][self.below(2)].min(len - at);
                    bytes[at..at + width].copy_from_slice(&number[8 - width..]);
                }
                4 => drop(bytes.drain(at..(at + 1 + self.below(40)).min(len))),
                _ => {
                    let from = self.below(len);
                    let piece = bytes[from..(from + 1 + self.below(64)).min(len)].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    }
}
