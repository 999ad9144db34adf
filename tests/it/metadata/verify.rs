//! Metadata tables that Hudi wrote agree with what they are about, as far as this build compares them.

use crate::golden::open;
use crate::metadata::golden::tables_with_metadata;
use hudifs::metadata::write::Finding;
use hudifs::table::Listing;
use hudifs::write::verify_metadata;
use std::collections::BTreeMap;

/// What is odd about tables at hand.
const ODD: [(&str, &str); 3] = [
    // Base files of a compaction that was undone to make the table, and that the metadata table knows.
    ("derived_v8_mor_pending_compaction", "is listed and not in storage"),
    // One key in two file groups.
    ("mor_v9_nonpartitioned_rollback", "the key is said to be in"),
    ("cow_v9_timebasedkeygen_nonhivestyle", "the key is said to be in"),
];

#[test]
fn metadata_tables_of_hudi_are_found_right() {
    let mut indexed = BTreeMap::new();
    for (name, unpacked) in tables_with_metadata() {
        let table = open(&unpacked.base(), Listing::default()).unwrap();
        // Base files of a format that is not read.
        let deep = !name.contains("lance");
        let findings = verify_metadata(&table, deep).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let is_odd = |f: &&Finding| !ODD.iter().any(|(table, what)| *table == name && f.what.starts_with(what));
        let wrong: Vec<&Finding> = findings.iter().filter(is_odd).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        for partition in table.snapshot().config().metadata_partitions() {
            *indexed.entry(partition.to_owned()).or_insert(0) += 1;
        }
    }
    println!("{indexed:?}");
    assert!(!crate::common::has_golden() || (indexed["column_stats"] > 15 && indexed["record_index"] > 6));
}
