//! Refreshing a table: what the next snapshot takes over from the last one.

use crate::golden::open;
use crate::semantics::{commit, fixture};
use hudifs::storage::TablePath;
use hudifs::table::{Changed, Listing};
use std::fs;

fn names(partitions: &[TablePath]) -> Vec<&str> {
    partitions.iter().map(TablePath::as_str).collect()
}

#[test]
fn a_new_partition_joins_those_that_are_known_if_it_is_one() {
    let fixture = fixture("v6_cow_basic_hive");
    let base = fixture.base();
    let table = open(&base, Listing::Auto).unwrap();
    let old = table.snapshot();
    assert_eq!(names(&old.partitions().unwrap()), ["part=p0", "part=p1"]);
    let source = fs::read_dir(base.join("part=p0")).unwrap().map(|e| e.unwrap().path());
    let source = source.into_iter().find(|p| p.extension().is_some_and(|e| e == "parquet")).unwrap();
    for new in ["part=a", "part=z", "part=unmarked"] {
        fs::create_dir(base.join(new)).unwrap();
        if new != "part=unmarked" {
            fs::copy(
                base.join("part=p0/.hoodie_partition_metadata"),
                base.join(new).join(".hoodie_partition_metadata"),
            )
            .unwrap();
        }
    }
    commit(&base, "20991231235959000", &[("part=a", &source), ("part=z", &source), ("part=unmarked", &source)]);
    let new = table.refresh().unwrap().expect("the timeline has moved");
    assert!(matches!(new.changed_since(&old), Changed::Partitions(p) if p.len() == 3));
    assert_eq!(names(&new.partitions().unwrap()), ["part=a", "part=p0", "part=p1", "part=z"]);
    // What a table opened now finds by walking is the same.
    let walked = open(&base, Listing::Auto).unwrap().snapshot();
    assert_eq!(names(&new.partitions().unwrap()), names(&walked.partitions().unwrap()));
    assert_eq!(names(&old.partitions().unwrap()), ["part=p0", "part=p1"], "an older snapshot stays what it was");
    assert!(table.refresh().unwrap().is_none(), "nothing has happened since");
}

#[test]
fn a_pinned_table_does_not_move_on_even_to_a_moment_that_lay_in_the_future() {
    let fixture = fixture("v6_cow_basic_hive");
    let base = fixture.base();
    let storage = hudifs::storage::open(base.to_str().unwrap(), &Default::default()).unwrap();
    let options = hudifs::table::TableOptions { as_of: Some("2099-12-31".to_owned()), ..Default::default() };
    let table = hudifs::table::Table::open(storage, options).unwrap();
    let before = table.snapshot().instant();
    let source = fs::read_dir(base.join("part=p0")).unwrap().map(|e| e.unwrap().path());
    let source = source.into_iter().find(|p| p.extension().is_some_and(|e| e == "parquet")).unwrap();
    commit(&base, "20990101000000000", &[("part=p0", &source)]);
    assert!(table.refresh().unwrap().is_none());
    assert_eq!(table.as_of("2099-12-31").unwrap().instant(), before);
    assert_eq!(table.snapshot().instant(), before);
}
