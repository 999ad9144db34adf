//! The record index of the golden tables: every key is found where its row is.

use crate::common::{golden, golden_answer, golden_names};
use crate::golden::open;
use arrow::array::{Array, StringArray};
use hudifs::metadata::RecordIndex;
use hudifs::table::Listing;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeMap;
use std::path::Path;

/// The keys of a base file, by its key column.
pub fn keys_of(path: &Path) -> Vec<String> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
    let mask = ProjectionMask::columns(reader.parquet_schema(), ["_hoodie_record_key"]);
    let mut keys = Vec::new();
    for batch in reader.with_projection(mask).build().unwrap() {
        let batch = batch.unwrap();
        let column = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap().clone();
        keys.extend((0..column.len()).map(|i| column.value(i).to_owned()));
    }
    keys
}

#[test]
fn keys_of_golden_tables_are_found_where_their_rows_are() {
    let (mut tables, mut found_keys) = (0, 0);
    for name in golden_names() {
        let answer = golden_answer(&name);
        let indexed = answer["properties"]["metadata_partitions"].as_array();
        if !indexed.is_some_and(|p| p.iter().any(|p| p == "record_index")) || name.contains("lance") {
            continue;
        }
        let unpacked = golden(&name);
        let table = open(&unpacked.base(), Listing::default()).unwrap();
        let snapshot = table.snapshot();
        let index = RecordIndex::open(table.storage().clone(), snapshot.timeline()).unwrap();
        let mut rows: BTreeMap<String, (String, String)> = BTreeMap::new();
        for partition in snapshot.partitions().unwrap().iter() {
            let view = snapshot.partition(partition).unwrap();
            for file in view.listed() {
                let path = unpacked.base().join(partition.as_str()).join(file.stored_path());
                for key in keys_of(&path) {
                    rows.insert(key, (partition.as_str().to_owned(), file.file_id().to_owned()));
                }
            }
        }
        let mut keys: Vec<&str> = rows.keys().map(String::as_str).collect();
        // Twice, and one that no table has.
        keys.extend(keys.clone());
        keys.push("no such key");
        for threads in [1, 3] {
            let found = index.lookup(&keys, threads).unwrap();
            assert_eq!(found.len(), keys.len());
            assert!(found.last().unwrap().is_none());
            let mut deleted = 0;
            for (key, location) in keys.iter().zip(&found).take(keys.len() - 1) {
                let (partition, file_id) = &rows[*key];
                match location {
                    Some(location) => {
                        assert_eq!(
                            (&*location.partition, &*location.file_id),
                            (&**partition, &**file_id),
                            "{name} {key}"
                        );
                        found_keys += 1;
                    }
                    None => deleted += 1,
                }
            }
            // Rows of base files that log files delete: merged rows are fewer by so many.
            let (ro, merged) = (answer["ro"]["rows"].as_u64().unwrap(), answer["snapshot"]["rows"].as_u64().unwrap());
            assert_eq!(deleted, 2 * (ro - merged), "{name}: keys that are not in the index");
        }
        tables += 1;
    }
    if crate::common::has_golden() {
        assert!(tables >= 8 && found_keys > 100, "{tables} tables, {found_keys} keys");
    }
}
