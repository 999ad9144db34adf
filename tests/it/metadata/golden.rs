//! The metadata tables of the golden tables, read as a whole and piece by piece.

use crate::common::{Unpacked, golden, golden_answer, golden_names, repo, unpack};
use bytes::Bytes;
use hudifs::format::file_name::FileName;
use hudifs::format::hfile::HFile;
use hudifs::format::instant::InstantTime;
use hudifs::format::log::{BlockKind, LogReader, avro_records, delete_keys};
use hudifs::metadata::MetadataLister;
use hudifs::storage::{self, Storage, StorageOptions, TablePath};
use hudifs::timeline::{Timeline, load_config};
use hudifs::view::{Lister, StorageLister, ViewContext, load_partition};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn open(base: &Path) -> (Arc<dyn Storage>, Timeline) {
    let uri = format!("file://{}", base.display());
    let storage = storage::open(&uri, &StorageOptions::default()).unwrap();
    let config = load_config(storage.as_ref(), &TablePath::root()).unwrap();
    let timeline = Timeline::load(storage.as_ref(), &TablePath::root(), &config).unwrap();
    (storage, timeline)
}

/// The golden tables and fixture tables whose metadata table lists files.
pub fn tables_with_metadata() -> impl Iterator<Item = (String, Unpacked)> {
    golden_with_metadata().into_iter().map(|name| (name.clone(), golden(&name))).chain(fixtures_with_metadata())
}

fn fixtures_with_metadata() -> impl Iterator<Item = (String, Unpacked)> {
    let mut zips = Vec::new();
    files_below(&repo().join("tests/fixtures"), &mut zips);
    zips.retain(|p| p.to_str().unwrap().ends_with("_mdt.zip"));
    zips.sort();
    assert!(zips.len() > 10, "too few fixture tables with a metadata table: {zips:?}");
    zips.into_iter().map(|zip| {
        let name = zip.file_stem().unwrap().to_str().unwrap().to_owned();
        let table = unpack(&zip, &name);
        (name, table)
    })
}

fn golden_with_metadata() -> Vec<String> {
    let listed = |name: &String| {
        let answer = golden_answer(name);
        let partitions = answer["properties"]["metadata_partitions"].as_array();
        partitions.is_some_and(|p| p.iter().any(|p| p == "files"))
    };
    let names: Vec<String> = golden_names().into_iter().filter(listed).collect();
    assert!(
        names.len() > 25 || crate::common::golden_dir().is_none(),
        "too few golden tables with a metadata table: {names:?}"
    );
    names
}

/// The partitions in storage: the folders with a metadata file.
fn partitions_on_disk(base: &Path, dir: &Path, found: &mut BTreeMap<String, BTreeMap<String, u64>>) {
    let mut files = BTreeMap::new();
    let mut is_partition = false;
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            if name != ".hoodie" {
                partitions_on_disk(base, &entry.path(), found);
            }
            continue;
        }
        is_partition |= name == ".hoodie_partition_metadata" || name == ".hoodie_partition_metadata.parquet";
        if matches!(FileName::parse(&name), FileName::Base(_) | FileName::Log(_) | FileName::External(_)) {
            files.insert(name, entry.metadata().unwrap().len());
        }
    }
    if is_partition {
        let path = dir.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
        found.insert(path, files);
    }
}

#[test]
fn the_metadata_table_lists_what_storage_lists() {
    let mut compared = 0;
    for (name, table) in tables_with_metadata() {
        let (storage, timeline) = open(&table.base());
        let lister = MetadataLister::open(storage.as_ref(), &timeline).unwrap_or_else(|e| panic!("{name}: {e}"));
        let listed = lister.partitions().unwrap();
        let mut on_disk = BTreeMap::new();
        partitions_on_disk(&table.base(), &table.base(), &mut on_disk);
        let listed_paths: Vec<&str> = listed.iter().map(TablePath::as_str).collect();
        assert_eq!(listed_paths, on_disk.keys().map(String::as_str).collect::<Vec<_>>(), "{name}");
        for partition in &listed {
            let mut missing = on_disk[partition.as_str()].clone();
            for file in lister.files(partition).unwrap() {
                let size = missing.remove(&file.name);
                assert_eq!(size, file.size, "{name}: {partition}/{} in storage and in the metadata table", file.name);
                compared += 1;
            }
            // What the metadata table leaves out must be of nobody, or of a writer that has not finished.
            for file in missing.keys() {
                let instant = match FileName::parse(file) {
                    FileName::Base(base) => base.instant,
                    FileName::Log(log) => log.instant,
                    FileName::External(external) => external.instant,
                    _ => unreachable!(),
                };
                assert!(!timeline.is_committed(instant), "{name}: {partition}/{file} is not in the metadata table");
            }
        }
        assert!(lister.files(&TablePath::parse("no/such/partition").unwrap()).unwrap().is_empty());
        assert!(timeline.warnings().is_empty(), "{name}: {:?}", timeline.warnings());
    }
    assert!(compared > 100, "only {compared} files");
    println!("{compared} files agree");
}

#[test]
fn every_expected_base_file_is_listed_with_its_size() {
    for name in golden_with_metadata() {
        let table = golden(&name);
        let (storage, timeline) = open(&table.base());
        let lister = MetadataLister::open(storage.as_ref(), &timeline).unwrap();
        let expected = golden_answer(&name);
        for file in expected["ro"]["files"].as_array().unwrap() {
            let (path, size) = (file["path"].as_str().unwrap(), file["size"].as_u64());
            let path = TablePath::parse(path).unwrap();
            let files = lister.files(&path.parent()).unwrap();
            let found = files.iter().find(|f| f.name == path.file_name());
            assert_eq!(found.and_then(|f| f.size), size, "{name}: {path}");
        }
    }
}

/// Path and size of every file of the read-optimized view.
fn resolve(storage: &dyn Storage, timeline: &Timeline, lister: &dyn Lister, as_of: Option<InstantTime>) -> Resolved {
    let context = ViewContext::load(storage, timeline, timeline.config(), as_of).map_err(|e| e.to_string())?;
    let mut files = BTreeMap::new();
    for partition in lister.partitions().map_err(|e| e.to_string())? {
        let view = load_partition(storage, &context, lister, &partition).map_err(|e| e.to_string())?;
        for file in view.listed() {
            files.insert(format!("{partition}/{}", file.name()), file.size());
        }
    }
    Ok(files)
}

type Resolved = Result<BTreeMap<String, Option<u64>>, String>;

/// The metadata table is of the newest moment whatever instant is looked at: the view leaves out what came later.
#[test]
fn views_are_the_same_from_either_source_at_every_instant() {
    let mut compared = 0;
    for (name, table) in tables_with_metadata() {
        let (storage, timeline) = open(&table.base());
        let storage_lister = StorageLister::new(storage.clone(), TablePath::root(), timeline.config());
        let lister = MetadataLister::open(storage.as_ref(), &timeline).unwrap();
        let instants = timeline.writes().map(|i| Some(i.requested)).chain([None]);
        for as_of in instants {
            let from_storage = resolve(storage.as_ref(), &timeline, &storage_lister, as_of);
            let from_metadata = resolve(storage.as_ref(), &timeline, &lister, as_of);
            assert_eq!(from_metadata, from_storage, "{name} as of {as_of:?}");
            compared += 1;
        }
    }
    println!("{compared} views");
    assert!(compared > 150 || crate::common::golden_dir().is_none(), "only {compared} views");
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Cells of an HFile, after as many lookups as there are keys.
fn cells_of(bytes: Bytes, what: &str) -> u64 {
    let file = HFile::open(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    let mut cells = Vec::new();
    let scanned = file.scan(|row, value| {
        cells.push((row.to_vec(), value));
        Ok(())
    });
    scanned.unwrap_or_else(|e| panic!("{what}: {e}"));
    for (row, value) in &cells {
        assert_eq!(file.get(row).unwrap().as_ref(), Some(value), "{what}: {row:?}");
    }
    assert_eq!(cells.len() as u64, file.entry_count(), "{what}");
    file.entry_count()
}

#[test]
fn every_hfile_and_log_of_every_metadata_table_decodes() {
    let (mut hfiles, mut logs, mut cells, mut deletes) = (0, 0, 0, 0);
    for table in golden_names().iter().map(|n| golden(n)).chain(fixtures_with_metadata().map(|(_, t)| t)) {
        let dir = table.base().join(".hoodie/metadata");
        if !dir.is_dir() {
            continue;
        }
        let mut files = Vec::new();
        files_below(&dir, &mut files);
        for path in files {
            let file_name = path.file_name().unwrap().to_str().unwrap();
            let what = path.display().to_string();
            let bytes = || Bytes::from(std::fs::read(&path).unwrap());
            match FileName::parse(file_name) {
                FileName::Base(base) if base.extension == ".hfile" => {
                    hfiles += 1;
                    cells += cells_of(bytes(), &what);
                }
                FileName::Log(_) => {
                    logs += 1;
                    let mut reader = LogReader::new(bytes());
                    for block in reader.blocks().unwrap_or_else(|e| panic!("{what}: {e}")) {
                        block.head().unwrap();
                        let content = reader.content(&block).unwrap();
                        match block.kind {
                            BlockKind::HFile => cells += cells_of(content, &what),
                            BlockKind::Delete => delete_keys(&content, |_, _| {
                                deletes += 1;
                                Ok(())
                            })
                            .unwrap(),
                            BlockKind::Command => assert!(content.is_empty()),
                            other => panic!("{what}: {other:?}"),
                        }
                    }
                }
                _ => {}
            }
        }
    }
    println!("{hfiles} HFiles, {logs} log files, {cells} cells, {deletes} deletes");
    assert!(hfiles > 20 && logs > 50 && cells > 200, "too little of everything");
}

/// Log files of data tables have the other kinds of blocks.
#[test]
fn every_log_file_of_every_data_table_is_framed() {
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for name in golden_names() {
        let table = golden(&name);
        let mut files = Vec::new();
        files_below(&table.base(), &mut files);
        for path in files.iter().filter(|p| !p.to_str().unwrap().contains("/.hoodie/")) {
            let file_name = path.file_name().unwrap().to_str().unwrap();
            if !matches!(FileName::parse(file_name), FileName::Log(_)) {
                continue;
            }
            let mut reader = LogReader::new(Bytes::from(std::fs::read(path).unwrap()));
            for block in reader.blocks().unwrap_or_else(|e| panic!("{}: {e}", path.display())) {
                *kinds.entry(format!("{:?}", block.kind)).or_default() += 1;
                let content = reader.content(&block).unwrap();
                match block.kind {
                    BlockKind::Avro => assert!(avro_records(&content).unwrap().all(|r| r.is_ok())),
                    BlockKind::Delete => delete_keys(&content, |_, _| Ok(())).unwrap(),
                    BlockKind::Parquet => assert!(content.starts_with(b"PAR1") && content.ends_with(b"PAR1")),
                    BlockKind::Command => assert!(block.head().unwrap().target.is_some()),
                    other => panic!("{}: {other:?}", path.display()),
                }
            }
        }
    }
    println!("{kinds:?}");
    assert!(kinds.is_empty() || kinds.len() == 4, "{kinds:?}");
}
