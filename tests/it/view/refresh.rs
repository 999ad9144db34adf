//! What a refresh finds changed, and what it refuses.

use super::built::{Built, wrote};
use hudifs::ErrorKind;
use hudifs::storage::TablePath;
use hudifs::table::{Changed, Listing, Table, TableOptions};
use std::sync::Arc;

fn open(table: &Built) -> hudifs::Result<Arc<Table>> {
    Table::open(table.storage(), TableOptions { listing: Listing::Storage, as_of: None })
}

/// What the next snapshot says has changed.
fn changed(table: &Arc<Table>) -> Changed {
    let old = table.snapshot();
    table.refresh().unwrap().expect("the timeline has moved").changed_since(&old)
}

fn only_a() -> Changed {
    Changed::Partitions([TablePath::parse("a").unwrap()].into())
}

#[test]
fn a_commit_changes_the_partitions_that_it_wrote() {
    let built = Built::new(6);
    let commit = |time: &str| wrote("f-0", &format!("f-0_1-0-1_{time}.parquet"));
    built.instant("001.commit", &commit("001")).instant("002.commit", &commit("002"));
    let table = open(&built).unwrap();
    built.instant("003.commit", &commit("003"));
    assert_eq!(changed(&table), only_a());
    built.instant("004.clean", "");
    assert_eq!(changed(&table), Changed::Partitions([].into()));
    // Archival.
    built.remove_instant("001.commit").instant("005.commit", &commit("005"));
    assert_eq!(changed(&table), only_a());
}

/// The newest commit undone, the oldest one undone, and a table made anew: none of them looks like archival.
#[test]
fn commits_that_were_undone_may_have_changed_everything() {
    let built = Built::new(6);
    let commit = |time: &str| wrote("f-0", &format!("f-0_1-0-1_{time}.parquet"));
    built.instant("001.commit", &commit("001"));
    let table = open(&built).unwrap();
    built.remove_instant("001.commit").instant("002.rollback", "");
    assert_eq!(changed(&table), Changed::Everything);
    built.instant("003.commit", &commit("003")).instant("004.commit", &commit("004"));
    assert_eq!(changed(&table), only_a());
    built.remove_instant("004.commit").instant("005.rollback", "");
    assert_eq!(changed(&table), Changed::Everything);
    built.remove_instant("002.rollback").remove_instant("003.commit").remove_instant("005.rollback");
    built.instant("006.commit", &commit("006"));
    assert_eq!(changed(&table), Changed::Everything);
}

/// An upgrade moves instants one by one before the properties say so: no snapshot is made of what is left.
#[test]
fn a_table_on_its_way_to_another_layout() {
    let built = Built::new(6);
    built.instant("001.commit", "{}").instant("002.commit", "{}").instant("003.commit", "{}");
    let table = open(&built).unwrap();
    std::fs::create_dir(built.path(".hoodie/timeline")).unwrap();
    assert!(table.refresh().unwrap().is_none(), "the folder alone is nothing");
    built.file(".hoodie/timeline/001_0011.commit", b"");
    assert!(table.refresh().unwrap().is_none(), "still at both places");
    built.remove_instant("001.commit");
    for error in [table.refresh().unwrap_err(), open(&built).unwrap_err()] {
        assert!(error.kind() == ErrorKind::Corrupt && error.hint().unwrap().contains("upgrade"), "{error}");
        assert!(error.message().contains("001"), "{error}");
    }
    assert_eq!(table.snapshot().timeline().writes().count(), 3);
    built.remove_instant("002.commit").remove_instant("003.commit");
    built.file(".hoodie/timeline/002_0021.commit", b"").file(".hoodie/timeline/003_0031.commit", b"");
    built.property("hoodie.table.version=8").property("hoodie.timeline.layout.version=2");
    let upgraded = table.refresh().unwrap().expect("the properties have changed");
    assert_eq!(upgraded.timeline().writes().count(), 3);
    // And back.
    built.instant("003.commit", "{}").remove(".hoodie/timeline/003_0031.commit");
    assert_eq!(table.refresh().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(table.snapshot().timeline().writes().count(), 3);
    built.remove_instant("003.commit").instant("004.rollback", "");
    built.file(".hoodie/timeline/004_0041.rollback", b"");
    assert_eq!(table.refresh().unwrap().unwrap().timeline().writes().count(), 2, "undone, not moved");
}
