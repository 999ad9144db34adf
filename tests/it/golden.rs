//! Tables written by Java Hudi (and by tools of its time) against what a right reader finds in them: the read-optimized
//! files of the newest snapshot and of every completed instant, listed from storage and from the metadata table.

use crate::common::{golden, golden_answer, golden_names, skipped};
use hudifs::storage::StorageOptions;
use hudifs::table::{Listing, Snapshot, Table, TableOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Path relative to the base → bytes.
type Files = BTreeMap<String, u64>;

pub fn open(base: &Path, listing: Listing) -> hudifs::Result<Arc<Table>> {
    let storage = hudifs::storage::open(base.to_str().unwrap(), &StorageOptions::default())?;
    Table::open(storage, TableOptions { listing, ..TableOptions::default() })
}

pub fn listed(snapshot: &Snapshot) -> Files {
    let mut files = Files::new();
    for partition in snapshot.partitions().unwrap().iter() {
        let view = snapshot.partition(partition).unwrap();
        for file in view.listed() {
            let path = snapshot.stored_path(partition, &file).unwrap();
            assert!(files.insert(path.to_string(), file.size().unwrap()).is_none(), "{path} is listed twice");
        }
    }
    files
}

fn expected(files: &Value) -> Files {
    let files = files.as_array().unwrap().iter();
    files.map(|f| (f["path"].as_str().unwrap().to_owned(), f["size"].as_u64().unwrap())).collect()
}

/// Its file slices are skeletons without data columns: refused by name, never shown as data.
const METADATA_BOOTSTRAP: &str = "bootstrap_data";

fn check(name: &str, listing: Listing) -> usize {
    let table = golden(name);
    let answer = golden_answer(name);
    if name == METADATA_BOOTSTRAP {
        check_refused(&open(&table.base(), listing).unwrap().snapshot());
        return 1;
    }
    let opened = open(&table.base(), listing).unwrap_or_else(|e| panic!("{name} ({listing:?}): {e:?}"));
    let newest = opened.snapshot();
    assert_eq!(
        listed(&newest),
        expected(&answer["ro"]["files"]),
        "{name} ({listing:?}), newest; {:?}",
        newest.warnings()
    );
    assert_eq!(
        newest.instant().map(|i| i.to_string()).as_deref(),
        answer["latest_instant"].as_str(),
        "{name}: newest instant"
    );
    if listing == Listing::Auto {
        let has_metadata_table =
            answer["properties"]["metadata_partitions"].as_array().is_some_and(|p| p.iter().any(|p| p == "files"));
        assert_eq!(
            newest.lister_name() == "metadata_table",
            has_metadata_table,
            "{name}: lister; {:?}",
            newest.warnings()
        );
    }
    let points = answer["time_travel"].as_object().unwrap();
    for (instant, then) in points {
        let snapshot = opened.as_of(instant).unwrap_or_else(|e| panic!("{name} as of {instant}: {e}"));
        assert_eq!(listed(&snapshot), expected(&then["files"]), "{name} ({listing:?}) as of {instant}");
    }
    points.len()
}

fn check_refused(snapshot: &Snapshot) {
    let partitions = snapshot.partitions().unwrap();
    assert!(!partitions.is_empty());
    for partition in partitions.iter() {
        let error = snapshot.partition(partition).unwrap_err();
        assert_eq!(error.kind(), hudifs::ErrorKind::Unsupported);
        assert!(
            error.message().contains("METADATA_ONLY bootstrap") && error.message().contains(partition.as_str()),
            "{error}"
        );
    }
}

#[test]
fn every_golden_table_lists_the_right_files_from_storage() {
    let names = golden_names();
    let points: usize = names.iter().map(|name| check(name, Listing::Storage)).sum();
    println!("{} tables, {points} points in time", names.len());
    assert!(names.is_empty() || points >= names.len());
}

#[test]
fn every_golden_table_lists_the_right_files_from_its_metadata_table() {
    let names = golden_names();
    for name in &names {
        check(name, Listing::Auto);
    }
}

#[test]
fn a_moment_between_two_commits_is_the_earlier_one() {
    if golden_names().is_empty() {
        return skipped("no golden tables");
    }
    let table = golden("hudi_v6_table_mor");
    let opened = open(&table.base(), Listing::Auto).unwrap();
    let at = |moment: &str| opened.as_of(moment).unwrap().instant().unwrap().to_string();
    assert_eq!(at("20250922132204000"), "20250922132203239");
    assert_eq!(at("2025-09-22 13:22:04"), "20250922132203239");
    assert_eq!(at("99990101000000000"), "20250922132208785");
    assert_eq!(at("latest"), "20250922132208785");
    let early = opened.as_of("2020-01-01").unwrap_err();
    assert_eq!(early.kind(), hudifs::ErrorKind::NotFound);
    assert!(early.hint().unwrap().contains("20250922132"), "{early}");
}
