//! What we write of Hudi's own files, held against the files that Java Hudi wrote: each golden and fixture table's timeline is
//! read, written again and compared.

use crate::common::{golden_dir, repo, skipped};
use bytes::Bytes;
use hudifs::format::avro::{Container, Value};
use hudifs::format::bloom::{BloomFilter, BloomKind};
use hudifs::format::commit::CommitMetadata;
use hudifs::format::hfile::{HFile, HFileSettings, HFileWriter};
use hudifs::format::index_defs::IndexDefinitions;
use hudifs::format::partition_path::PartitionMetadata;
use hudifs::format::plan::{
    CleanMetadata, CleanPlan, CompactionPlan, RequestedReplace, RestorePlan, RollbackPlan, Savepoint,
};
use hudifs::format::properties::{CHECKSUM, Properties};
use std::io::Read;
use std::path::PathBuf;

/// Calls `visit` with the path and the bytes of every file of every golden and fixture table that `wanted` names.
pub fn files(wanted: impl Fn(&str) -> bool, mut visit: impl FnMut(&str, &[u8])) {
    for archive in archives() {
        let mut zip = zip::ZipArchive::new(std::fs::File::open(&archive).unwrap()).unwrap();
        for place in 0..zip.len() {
            let mut entry = zip.by_index(place).unwrap();
            let name = format!("{}: {}", archive.file_name().unwrap().to_str().unwrap(), entry.name());
            let hidden = name.rsplit('/').next().unwrap().ends_with(".crc") || name.contains("__MACOSX");
            if !hidden && wanted(&name) {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                visit(&name, &bytes);
            }
        }
    }
}

fn archives() -> Vec<PathBuf> {
    let mut dirs = vec![repo().join("tests/fixtures")];
    match golden_dir() {
        Some(dir) => dirs.push(dir),
        None => skipped("no golden tables; only the fixtures are read"),
    }
    let list = |dir: PathBuf| std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut zips: Vec<PathBuf> =
        dirs.into_iter().flat_map(list).filter(|p| p.extension().is_some_and(|e| e == "zip")).collect();
    zips.sort();
    zips
}

/// Maps have no order that means anything, and Java's is by hash.
fn sorted(value: Value) -> Value {
    match value {
        Value::Map(mut entries) => {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Map(entries.into_iter().map(|(k, v)| (k, sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Record(fields) => Value::Record(fields.into_iter().map(|(k, v)| (k, sorted(v))).collect()),
        other => other,
    }
}

/// Java's own record against ours: the same fields, and the same values but for what we leave null.
pub fn assert_same(name: &str, theirs: &[u8], ours: &[u8], ignored: &[&str]) {
    let read = |bytes: &[u8]| sorted(Container::open(bytes).unwrap().first_value().unwrap().unwrap());
    compare(name, "", &read(theirs), &read(ours), ignored);
}

fn compare(name: &str, at: &str, theirs: &Value, ours: &Value, ignored: &[&str]) {
    match (theirs, ours) {
        (Value::Record(fields), Value::Record(_)) => {
            for (field, value) in fields.iter().filter(|(f, _)| !ignored.contains(&&**f)) {
                let ours = ours.get(field).unwrap_or(&Value::Null);
                compare(name, &format!("{at}.{field}"), value, ours, ignored);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).for_each(|(l, r)| compare(name, at, l, r, ignored));
        }
        (Value::Map(left), Value::Map(right)) if left.len() == right.len() => {
            for (l, r) in left.iter().zip(right) {
                assert_eq!(l.0, r.0, "{name}{at}");
                compare(name, &format!("{at}[{}]", l.0), &l.1, &r.1, ignored);
            }
        }
        _ => assert_eq!(theirs, ours, "{name}{at}"),
    }
}

fn is_commit(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap();
    let ends = [".commit", ".deltacommit", ".replacecommit", ".inflight"];
    let other = [".clean.", ".rollback.", ".restore.", ".savepoint.", ".compaction.", ".indexing.", ".clustering."];
    ends.iter().any(|e| name.ends_with(e)) && !other.iter().any(|o| name.contains(o))
}

#[test]
fn commits_written_again_read_the_same() {
    let (mut json, mut avro, mut exact) = (0, 0, 0);
    files(is_commit, |name, bytes| {
        let metadata = CommitMetadata::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        if metadata.empty {
            return;
        }
        let replace = name.contains(".replacecommit");
        let (as_json, as_avro) = (metadata.to_json(replace).unwrap(), metadata.to_avro(replace).unwrap());
        let again = CommitMetadata::parse(&as_avro).unwrap();
        let order = |mut m: CommitMetadata| {
            m.written.sort_by(|a, b| a.partition.cmp(&b.partition));
            m.replaced.sort_by(|a, b| a.partition.cmp(&b.partition));
            m
        };
        assert_eq!(order(again), order(metadata.clone()), "{name} as Avro");
        match Container::is_container(bytes) {
            true => {
                avro += 1;
                // Java states an absent read time as null or as zero.
                assert_same(name, bytes, &as_avro, &["totalLogReadTimeMs", "numUpdates", "version"]);
            }
            false => {
                json += 1;
                exact += usize::from(bytes == as_json);
                let again = CommitMetadata::parse(&as_json).unwrap();
                assert_eq!(order(again), order(metadata), "{name} as JSON");
            }
        }
    });
    println!("{json} JSON files, {exact} of them byte for byte; {avro} Avro files");
    assert!(json >= 40 && avro >= 40 && exact >= 20, "{json} {avro} {exact}");
}

/// Every file whose name ends so, written again by `again`, against itself; how many there were.
fn same_again(ending: &str, ignored: &[&str], again: impl Fn(&[u8]) -> hudifs::Result<Vec<u8>>) -> usize {
    let mut count = 0;
    files(
        |name| name.ends_with(ending),
        |name, bytes| {
            // Old writers left files of some kinds empty.
            if !bytes.is_empty() {
                let ours = again(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_same(name, bytes, &ours, ignored);
                count += 1;
            }
        },
    );
    count
}

#[test]
fn plans_written_again_read_the_same() {
    // Older releases lack the last fields, which we write empty; a field that only they have would be a difference.
    let plans =
        same_again(".clean.requested", &["extraMetadata", "partitionsToBeDeleted"], |b| CleanPlan::parse(b)?.encode());
    let cleans = same_again(".clean", &["extraMetadata"], |b| CleanMetadata::parse(b)?.encode());
    assert!(plans >= 20 && cleans >= 20, "{plans} {cleans}");
    let savepoints = same_again(".savepoint", &[], |b| Savepoint::parse(b)?.encode());
    assert!(savepoints >= 6, "{savepoints}");
    let restores = same_again(".restore.requested", &[], |b| RestorePlan::parse(b)?.encode());
    assert!(restores >= 6, "{restores}");
    let rollbacks = same_again(".rollback.requested", &[], |b| RollbackPlan::parse(b)?.encode());
    assert!(rollbacks >= 10, "{rollbacks}");
    let compactions = same_again(".compaction.requested", &["extraMetadata"], |b| CompactionPlan::parse(b)?.encode());
    assert!(compactions >= 40, "{compactions}");
}

#[test]
fn overwrites_are_requested_as_java_requests_them() {
    let mut count = 0;
    files(
        |name| name.ends_with(".replacecommit.requested"),
        |name, bytes| {
            let requested = RequestedReplace::parse(bytes).unwrap();
            if !bytes.is_empty() && requested.clustered.is_none() {
                let ours = RequestedReplace::encode_without_plan(requested.operation.as_deref()).unwrap();
                assert_same(name, bytes, &ours, &["version", "extraMetadata"]);
                count += 1;
            }
        },
    );
    assert!(count >= 10, "{count}");
}

#[test]
fn properties_written_again_read_the_same() {
    let (mut tables, mut partitions, mut indexes) = (0, 0, 0);
    files(
        |name| name.ends_with("hoodie.properties"),
        |name, bytes| {
            let properties = Properties::parse(bytes);
            assert_eq!(Properties::parse(&properties.encode(&["Updated at"])), properties, "{name}");
            let mut sealed = properties.clone();
            sealed.seal();
            assert_eq!(sealed.get(CHECKSUM), properties.get(CHECKSUM), "{name}");
            // The lines themselves, but for comments and their order.
            let lines = |bytes: &[u8]| {
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                let mut lines: Vec<String> =
                    text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(lines(bytes), lines(&properties.encode(&[])), "{name}");
            tables += 1;
        },
    );
    files(
        |name| name.ends_with(".hoodie_partition_metadata"),
        |name, bytes| {
            let metadata = PartitionMetadata::parse(bytes);
            assert!(metadata.created.is_some() && metadata.depth.is_some(), "{name}");
            assert_eq!(PartitionMetadata::parse(&metadata.encode()), metadata, "{name}");
            partitions += 1;
        },
    );
    files(
        |name| name.ends_with("index.json"),
        |name, bytes| {
            let definitions = IndexDefinitions::parse(bytes).unwrap();
            assert_eq!(IndexDefinitions::parse(&definitions.encode().unwrap()).unwrap(), definitions, "{name}");
            assert!(definitions.other.is_empty() && !definitions.index_definitions.is_empty(), "{name}");
            assert!(definitions.index_definitions.values().all(|d| d.other.is_empty()), "{name}");
            indexes += 1;
        },
    );
    assert!(tables >= 100 && partitions >= 200 && indexes >= 20, "{tables} {partitions} {indexes}");
}

/// The payloads of an HFile's blocks of that kind, in order.
fn hfile_blocks(bytes: &[u8], magic: &[u8; 8]) -> Vec<Vec<u8>> {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut found) = (0, Vec::new());
    while at + 4096 < bytes.len() {
        let (on_disk, with_header) = (number(at + 8), number(at + 29));
        if &bytes[at..at + 8] == magic {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&bytes[at + 33..at + with_header]).read_to_end(&mut plain).unwrap();
            found.push(plain);
        }
        at += 33 + on_disk;
    }
    found
}

/// Cells and filters of base files of metadata tables, by either generation of writers: ours hold the same bytes.
#[test]
fn hfiles_written_again_hold_the_same_blocks() {
    let (mut count, mut hbase) = (0, 0);
    files(
        |name| name.ends_with(".hfile"),
        |name, bytes| {
            let file = HFile::open(Bytes::copy_from_slice(bytes)).unwrap();
            let text = |key: &str| file.info(key).map(|v| String::from_utf8(v.to_vec()).unwrap());
            let (Some(schema), Some(kind)) = (text("schema"), text("bloomFilterTypeCode")) else { return };
            if file.info("KEY_VALUE_VERSION").is_none() {
                // The first builds of Hudi's own writer, which left the ends of keys out.
                return;
            }
            let [written] = &hfile_blocks(bytes, b"METABLKc")[..] else { panic!("{name}") };
            let kind = BloomKind::from_code(&kind).unwrap();
            let theirs = BloomFilter::parse_text(kind, written).unwrap();
            let entries = if theirs.to_bytes().len() > 300_000 { 60_000 } else { 10_000 };
            let bloom = BloomFilter::new(kind, entries, 1e-9, 100_000).unwrap();
            let mut writer = HFileWriter::new(Vec::new(), HFileSettings::base_file(schema, bloom));
            file.scan(|row, value| writer.append(row, &value)).unwrap();
            let (ours, _) = writer.finish().unwrap();
            for magic in [b"DATABLK*", b"METABLKc"] {
                assert!(hfile_blocks(bytes, magic) == hfile_blocks(&ours, magic), "{name}: {}", magic.escape_ascii());
            }
            let again = HFile::open(Bytes::from(ours)).unwrap();
            for key in ["minRecordKey", "maxRecordKey", "schema", "KEY_VALUE_VERSION", "hfile.AVG_VALUE_LEN"] {
                assert_eq!(again.info(key), file.info(key), "{name}: {key}");
            }
            if bytes[bytes.len() - 4] == 3 {
                for key in ["hfile.LASTKEY", "hfile.AVG_KEY_LEN", "hfile.CREATE_TIME_TS", "MAX_MEMSTORE_TS_KEY"] {
                    assert_eq!(again.info(key), file.info(key), "{name}: {key}");
                }
                hbase += 1;
            }
            count += 1;
        },
    );
    println!("{count} HFiles, {hbase} of them by HBase's writer");
    assert!(count >= 100 && hbase >= 30, "{count} {hbase}");
}
