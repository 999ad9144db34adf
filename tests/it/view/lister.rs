//! Finding partitions and files in folders.

use super::built::Built;
use hudifs::storage::TablePath;
use hudifs::view::{Lister, StorageLister};

const MARK: &str = ".hoodie_partition_metadata";

#[test]
fn folders_with_a_mark_are_partitions() {
    let table = Built::new(6);
    for folder in ["a=1", "b/c/d", "2024/01/02", "x y%2F", "deep/1/2/3/4/5/6/7"] {
        table.file(&format!("{folder}/{MARK}"), b"");
    }
    // Marks of a table that names them after its base format, or a mark that a crash left under its first name.
    table.file(&format!("parquet/{MARK}.parquet"), b"").file(&format!("renamed/{MARK}_3"), b"");
    // No partitions: no mark, below a partition, in the table's own folder.
    table.file("unmarked/f-0_1-0-1_001.parquet", b"").file(&format!("a=1/below/{MARK}"), b"");
    table.file(&format!(".hoodie/metadata/files/{MARK}"), b"").file(&format!("b/.hoodie/x/{MARK}"), b"");
    let expected = ["2024/01/02", "a=1", "b/c/d", "deep/1/2/3/4/5/6/7", "parquet", "renamed", "x y%2F"];
    assert_eq!(table.partitions(), expected);
    // The base may be a partition and hold others.
    table.file(MARK, b"");
    assert_eq!(table.partitions(), [&[""][..], &expected[..]].concat());
}

#[test]
fn tables_without_partitions() {
    let table = Built::new(6);
    assert_eq!(table.partitions(), Vec::<String>::new(), "partitioned, and none yet");
    table.property("hoodie.table.partition.fields=");
    assert_eq!(table.partitions(), [""], "the base, with or without a mark");
    table.file(MARK, b"");
    assert_eq!(table.partitions(), [""]);
    // Very old tables do not say what they are partitioned by.
    let table = Built::new(6);
    table.property("hoodie.table.partition.fields=").file(&format!("2020/01/01/{MARK}"), b"");
    assert_eq!(table.partitions(), ["2020/01/01"]);
}

#[test]
fn many_folders() {
    let table = Built::new(6);
    let mut expected: Vec<String> = (0..300).map(|i| format!("d{}/p{i}", i % 17)).collect();
    for folder in &expected {
        table.file(&format!("{folder}/{MARK}"), b"");
    }
    expected.sort();
    assert_eq!(table.partitions(), expected);
}

#[test]
fn files_of_a_partition_are_names_only() {
    let table = Built::new(6);
    table.data(&["f-0_1-0-1_001.parquet"]).file("a/folder.parquet/x", b"");
    let lister = StorageLister::new(table.storage(), TablePath::root(), table.timeline().config());
    let mut names: Vec<String> =
        lister.files(&TablePath::parse("a").unwrap()).unwrap().into_iter().map(|f| f.name).collect();
    names.sort();
    assert_eq!(names, [MARK, "f-0_1-0-1_001.parquet"]);
    assert_eq!(lister.files(&TablePath::parse("gone").unwrap()).unwrap(), []);
    assert_eq!((lister.name(), lister.is_record()), ("storage", false));
}
