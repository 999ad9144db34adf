//! Lookups in tables that Spark with Hudi wrote, with Java's filters and key ranges.

use super::{tag, truth};
use crate::common::{golden, has_golden, repo, unpack};
use crate::golden::open;
use hudifs::format::properties::TableType;
use hudifs::table::{Listing, Snapshot};
use hudifs::write::{IndexKind, WriterOptions};
use std::collections::BTreeSet;

const KINDS: [IndexKind; 4] = [IndexKind::Bloom, IndexKind::GlobalBloom, IndexKind::Simple, IndexKind::GlobalSimple];

fn check(name: &str, snapshot: &Snapshot) -> usize {
    let truth = truth(snapshot);
    let mut keys: Vec<(String, String)> = truth.keys().cloned().collect();
    let held = keys.len();
    keys.extend(keys.clone().into_iter().map(|(partition, key)| (partition, format!("{key} is not there"))));
    let distinct: BTreeSet<&String> = truth.keys().map(|(_, key)| key).collect();
    for kind in KINDS {
        let global = matches!(kind, IndexKind::GlobalBloom | IndexKind::GlobalSimple);
        if global && distinct.len() < held {
            continue; // Not a table for a global index.
        }
        let found = tag(snapshot, kind, &WriterOptions::default(), &keys).unwrap();
        for ((at, found), wanted) in keys.iter().zip(&found).zip(keys.iter().map(|k| truth.get(k))) {
            let wanted = wanted.map(|group| (at.0.clone(), group.clone()));
            assert_eq!(found, &wanted, "{name} {kind:?}: {at:?}");
        }
    }
    held
}

#[test]
fn keys_of_copy_on_write_tables_are_found() {
    let dir = repo().join("tests/fixtures");
    let mut keys = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".zip") else { continue };
        let table = unpack(&dir.join(format!("{name}.zip")), name);
        let snapshot = open(&table.base(), Listing::Storage).unwrap().snapshot();
        let config = snapshot.config();
        if config.table_type() == TableType::CopyOnWrite
            && config.populate_meta_fields()
            && snapshot.instant().is_some()
        {
            keys += check(name, &snapshot);
        }
    }
    assert!(keys > 100, "only {keys} keys");
}

#[test]
fn forty_thousand_keys_are_found() {
    if !has_golden() {
        return;
    }
    let table = golden("hudi_trips_cow_v8");
    let snapshot = open(&table.base(), Listing::Storage).unwrap().snapshot();
    assert_eq!(check("hudi_trips_cow_v8", &snapshot), 40_000);
}
