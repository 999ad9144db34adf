//! What tests of this module share.

use super::*;
use crate::record::{Keyed, TableSchema};
use crate::storage::{LocalStorage, Storage, TablePath};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;

pub(super) fn storage() -> (tempfile::TempDir, Arc<dyn Storage>) {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(dir.path()).unwrap());
    (dir, storage)
}

pub(super) fn target(instant: &str) -> NewBase {
    NewBase {
        partition: "p=a".to_owned(),
        file_id: "6f1a8f4e-0000-4000-8000-000000000001-0".to_owned(),
        write_token: "0-1-2".to_owned(),
        instant: InstantTime::parse(instant).unwrap(),
        task: 0,
    }
}

/// Rows whose column `id` is the key.
pub(super) fn keyed(schema: &TableSchema, rows: RecordBatch) -> Keyed {
    let rows = schema.conform(&rows, 0).unwrap();
    let ids = arrow::compute::cast(rows.column_by_name("id").unwrap(), &arrow::datatypes::DataType::Utf8).unwrap();
    let keys: StringArray = ids.as_string::<i32>().clone();
    let partitions = StringArray::from_iter_values((0..keys.len()).map(|_| "p=a"));
    Keyed { rows, keys, partitions, deletes: None }
}

/// All rows of a written file, and its footer.
pub(super) fn read(storage: &dyn Storage, file: &WrittenFile) -> (RecordBatch, Arc<ParquetMetaData>) {
    let path = TablePath::parse(file.stat.path.as_deref().unwrap()).unwrap();
    let bytes = storage.read(&path, 1 << 30).unwrap();
    assert_eq!(Some(bytes.len() as u64), file.stat.size);
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).unwrap();
    let (metadata, schema) = (builder.metadata().clone(), builder.schema().clone());
    let batches: Vec<RecordBatch> = builder.with_batch_size(1 << 20).build().unwrap().map(|b| b.unwrap()).collect();
    (arrow::compute::concat_batches(&schema, &batches).unwrap(), metadata)
}

pub(super) fn footer(metadata: &ParquetMetaData, key: &str) -> Option<String> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|p| p.key == key).and_then(|p| p.value.clone())
}

pub(super) fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let column: &ArrayRef = batch.column_by_name(column).unwrap();
    column.as_string::<i32>().iter().map(|v| v.unwrap_or("NULL").to_owned()).collect()
}
