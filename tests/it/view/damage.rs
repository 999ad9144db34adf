//! Damaged timelines: whatever the bytes, an answer or an error, and never rows that are not the table's.

use crate::common::{golden, golden_answer, golden_names};
use hudifs::format::instant::InstantTime;
use hudifs::storage::{LocalStorage, Storage, TablePath};
use hudifs::timeline::{Timeline, load_config};
use hudifs::view::{Lister, StorageLister, ViewContext, load_partition};
use hudifs::{ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Small tables of each layout, with replacements, compaction, history.
const TABLES: [&str; 4] =
    ["hudi_v6_table_mor", "hudi_v8_table_cow", "hudi_v9_table_mor", "derived_v8_mor_pending_compaction"];

fn resolve(base: &Path) -> Result<BTreeSet<String>> {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(base)?);
    let config = load_config(&*storage, &TablePath::root())?;
    let timeline = Timeline::load(&*storage, &TablePath::root(), &config)?;
    // What a merged view and a status page would ask for.
    let _ = timeline.completion_time(&*storage, InstantTime::zero());
    for instant in timeline.completed() {
        let _ = timeline.commit_metadata(&*storage, instant);
    }
    let context = ViewContext::load(&*storage, &timeline, &config, None)?;
    let _ = context.with_plans(&*storage);
    let lister = StorageLister::new(storage.clone(), TablePath::root(), &config);
    let mut files = BTreeSet::new();
    for partition in lister.partitions()? {
        let view = load_partition(&*storage, &context, &lister, &partition)?;
        files.extend(view.listed().map(|f| partition.join(f.stored_path()).unwrap().to_string()));
    }
    Ok(files)
}

fn metadata_files(base: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![base.join(".hoodie")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            match path.is_dir() {
                true if name != "metadata" => folders.push(path),
                false if !name.ends_with(".crc") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Cut, emptied, turned over at some places, filled with zeros.
fn damages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut damaged = vec![Vec::new(), bytes.get(..bytes.len() / 2).unwrap().to_vec(), vec![0; bytes.len()]];
    damaged.push(bytes.get(..bytes.len().saturating_sub(1)).unwrap().to_vec());
    for step in 0..8 {
        let mut turned = bytes.to_vec();
        if let Some(byte) = turned.get_mut(bytes.len() * step / 8) {
            *byte ^= 0x80;
        }
        damaged.push(turned);
    }
    damaged
}

#[test]
fn each_file_of_the_timeline_damaged() {
    let mut tried = 0;
    for name in golden_names().iter().filter(|n| TABLES.contains(&n.as_str())) {
        let table = golden(name);
        let right = resolve(&table.base()).unwrap();
        let latest = golden_answer(name)["latest_instant"].as_str().unwrap().to_owned();
        for file in metadata_files(&table.base()) {
            let bytes = std::fs::read(&file).unwrap();
            let is_instant = file.parent().unwrap().ends_with("timeline") || name.contains("v6");
            for damaged in damages(&bytes) {
                std::fs::write(&file, &damaged).unwrap();
                tried += 1;
                match resolve(&table.base()) {
                    // Only what decides about files can change them: properties that now say something else.
                    Ok(files) if is_instant && !file.ends_with("hoodie.properties") => {
                        assert_eq!(files, right, "{name} {} of {latest}", file.display());
                    }
                    Ok(_) => {}
                    Err(e) => {
                        let sound =
                            matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::NotFound);
                        assert!(sound, "{name} {}: {e:?}", file.display());
                    }
                }
            }
            std::fs::write(&file, &bytes).unwrap();
        }
    }
    println!("{tried} damaged files");
}

/// The history is Parquet, read by a library: no bytes may stop the process.
#[test]
fn each_byte_of_a_history_file_turned_over() {
    for name in golden_names().iter().filter(|n| *n == "hudi_v8_table_cow") {
        let table = golden(name);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&table.base()).unwrap());
        let config = load_config(&*storage, &TablePath::root()).unwrap();
        let folder = table.base().join(".hoodie/timeline/history");
        let is_parquet = |p: &PathBuf| p.extension().is_some_and(|e| e == "parquet");
        let file = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).find(is_parquet).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        // The footer and the pages of the first column chunks are at the ends.
        let places = (0..bytes.len()).filter(|i| *i < 1500 || *i + 3000 > bytes.len()).step_by(3);
        for place in places {
            let mut turned = bytes.clone();
            turned[place] ^= 1 << (place % 8);
            std::fs::write(&file, &turned).unwrap();
            let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
            let _ = timeline.archived_len(&*storage);
        }
    }
}
