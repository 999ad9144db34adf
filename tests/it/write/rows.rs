//! The rows that the write tests work with, and reading them back with the Parquet library alone.

use arrow::array::{Array, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use hudifs::storage::TablePath;
use hudifs::write::{Records, Writer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One row of the test tables: key `id`, partition `part`, ordering field `ts`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub id: String,
    pub part: String,
    pub ts: i64,
    pub amount: Option<i32>,
    pub note: Option<String>,
}

/// What a table holds: rows by partition and key.
pub type Rows = BTreeMap<(String, String), Row>;

/// A row that is told from others by its key and revision.
pub fn row(id: u32, part: u32, revision: i64) -> Row {
    Row {
        id: format!("key-{id:05}"),
        part: format!("p{part}"),
        ts: revision,
        amount: (!id.is_multiple_of(5)).then_some(id as i32 * 10 + revision as i32),
        note: (revision % 3 != 0).then(|| format!("row {id} at {revision}")),
    }
}

pub fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("part", DataType::Utf8, true),
        Field::new("ts", DataType::Int64, true),
        Field::new("amount", DataType::Int32, true),
        Field::new("note", DataType::Utf8, true),
    ]))
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let text = |f: fn(&Row) -> Option<&str>| Arc::new(StringArray::from_iter(rows.iter().map(f)));
    RecordBatch::try_new(
        schema(),
        vec![
            text(|r| Some(&r.id)),
            text(|r| Some(&r.part)),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.ts))),
            Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.amount))),
            text(|r| r.note.as_deref()),
        ],
    )
    .unwrap()
}

/// As a request's rows, in batches of at most `size`.
pub fn records(rows: &[Row], size: usize) -> Records {
    let batches: Vec<_> = rows.chunks(size.max(1)).map(|part| Ok(batch(part))).collect();
    Box::new(batches.into_iter())
}

/// The rows of batches that have these columns, in any order, others beside them.
pub fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
        let text = |name: &str, at: usize| {
            let column = column(name).as_string::<i32>();
            column.is_valid(at).then(|| column.value(at).to_owned())
        };
        for at in 0..batch.num_rows() {
            let amount = column("amount").as_primitive::<Int32Type>();
            rows.push(Row {
                id: text("id", at).unwrap(),
                part: text("part", at).unwrap(),
                ts: column("ts").as_primitive::<Int64Type>().value(at),
                amount: amount.is_valid(at).then(|| amount.value(at)),
                note: text("note", at),
            });
        }
    }
    rows
}

/// Rows by partition and key; a key that is there twice is an error.
pub fn keyed(rows: Vec<Row>) -> Rows {
    let mut keyed = Rows::new();
    for row in rows {
        let key = (row.part.clone(), row.id.clone());
        if let Some(twice) = keyed.insert(key, row) {
            panic!("{twice:?} is there twice");
        }
    }
    keyed
}

/// What the read-optimized view shows, read by the Parquet library; the meta columns are checked on the way.
pub fn read_optimized(writer: &Writer) -> Vec<Row> {
    let snapshot = writer.table().snapshot();
    let mut batches = Vec::new();
    for partition in snapshot.partitions().unwrap().iter() {
        for file in snapshot.partition(partition).unwrap().listed() {
            let path = snapshot.stored_path(partition, &file).unwrap();
            let bytes = writer.table().storage().read(&path, 1 << 30).unwrap();
            assert_eq!(Some(bytes.len() as u64), file.size(), "{path}");
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
            for batch in reader {
                let batch = batch.unwrap();
                check_meta(&batch, partition, file.name());
                batches.push(batch);
            }
        }
    }
    rows_of(&batches)
}

fn check_meta(batch: &RecordBatch, partition: &TablePath, name: &str) {
    let text = |column: &str, at: usize| {
        let column =
            batch.column_by_name(column).unwrap_or_else(|| panic!("{name} has no {column}")).as_string::<i32>();
        assert!(column.is_valid(at));
        column.value(at).to_owned()
    };
    for at in 0..batch.num_rows() {
        assert_eq!(text("_hoodie_record_key", at), text("id", at));
        assert_eq!(text("_hoodie_partition_path", at), partition.as_str());
        assert_eq!(text("_hoodie_file_name", at), name);
        assert_eq!(text("_hoodie_commit_time", at).len(), 17);
        assert!(text("_hoodie_commit_seqno", at).starts_with(&text("_hoodie_commit_time", at)));
    }
}
