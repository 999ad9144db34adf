//! Record keys of a base file: footers, and lookups that read key columns only.
//!
//! A row group whose key statistics exclude every key that is asked for is not read. Statistics that nobody can trust (an order
//! of bytes as signed numbers, in files of old writers) exclude nothing.

use super::footer::{BLOOM, BLOOM_OLD, BLOOM_TYPE, KEY_MAX, KEY_MIN};
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::record::META_COLUMNS;
use crate::record::parquet_file::{ParquetFile, failed};
use crate::storage::{Storage, TablePath};
use arrow::array::{Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Rows decoded at a time.
const BATCH_ROWS: usize = 16_384;
/// The type code of a filter that tells none.
const BLOOM_SIMPLE: &str = "SIMPLE";

/// A base file that was opened for lookups: its footer was read, no row.
#[derive(Debug)]
pub struct KeyFile {
    file: ParquetFile,
    metadata: Arc<ParquetMetaData>,
}

/// A key that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    /// The key's place among those that were asked for.
    pub index: usize,
    /// The row in the file.
    pub row: u64,
}

impl KeyFile {
    /// Reads the footer of a base file.
    pub fn open(storage: &dyn Storage, path: &TablePath, size: Option<u64>) -> Result<KeyFile> {
        let file = ParquetFile::open(storage, path, size)?;
        let metadata = file.metadata(false)?;
        Ok(KeyFile { file, metadata })
    }

    /// The footer.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// The ranges of its columns, by its own statistics; a column without exact ones is left out.
    pub fn ranges(&self) -> Vec<crate::metadata::ColumnRange> {
        super::statistics::of_file(&self.metadata, self.is_javas())
    }

    /// Parquet's Java library does not say that bounds are exact, but leaves out those that it would have to cut.
    fn is_javas(&self) -> bool {
        self.metadata.file_metadata().created_by().is_some_and(|by| by.starts_with("parquet-mr version 1."))
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.file_metadata().num_rows()).unwrap_or_default()
    }

    /// The smallest and the largest key, where the footer tells.
    pub fn key_range(&self) -> Option<(&str, &str)> {
        Some((self.entry(KEY_MIN)?, self.entry(KEY_MAX)?))
    }

    /// The Base64 text of the filter and its type code, where the footer has one.
    pub fn bloom(&self) -> Option<(&str, &str)> {
        let text = self.entry(BLOOM).or_else(|| self.entry(BLOOM_OLD))?;
        Some((text, self.entry(BLOOM_TYPE).unwrap_or(BLOOM_SIMPLE)))
    }

    fn entry(&self, key: &str) -> Option<&str> {
        let entries = self.metadata.file_metadata().key_value_metadata()?;
        entries.iter().find(|e| e.key == key)?.value.as_deref()
    }

    /// Which of the sorted keys the file holds, by its key column; row groups that cannot hold any are not read.
    pub fn find(&self, keys: &[&str]) -> Result<Vec<FoundKey>> {
        let column = self.column(KEY)?;
        let wanted: HashMap<&str, usize> = keys.iter().enumerate().map(|(index, key)| (*key, index)).collect();
        let mut found = Vec::new();
        let mut first = 0_u64;
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            if !within(group, column, keys).is_empty() {
                let mut row = first;
                self.read(&[KEY], number..number + 1, |batch| {
                    for key in text(batch, 0)?.iter() {
                        found.extend(key.and_then(|k| wanted.get(k)).map(|index| FoundKey { index: *index, row }));
                        row += 1;
                    }
                    Ok(())
                })?;
            }
            first += u64::try_from(group.num_rows()).unwrap_or_default();
        }
        Ok(found)
    }

    /// Calls `visit` with each key and the instant that last changed its row, in the order of the file.
    pub fn visit(&self, visit: &mut dyn FnMut(&str, InstantTime) -> Result<()>) -> Result<()> {
        self.column(KEY)?;
        let mut row = 0_u64;
        self.read(&[COMMIT_TIME, KEY], 0..self.metadata.num_row_groups(), |batch| {
            let (times, keys) = (text(batch, 0)?, text(batch, 1)?);
            for at in 0..batch.num_rows() {
                if keys.is_null(at) {
                    return Err(Error::corrupt(format!("{}: row {row} has no record key", self.file.name())));
                }
                let time = times.is_valid(at).then(|| InstantTime::parse(times.value(at))).flatten();
                let time =
                    time.ok_or_else(|| Error::corrupt(format!("{}: row {row} has no commit time", self.file.name())))?;
                visit(keys.value(at), time)?;
                row += 1;
            }
            Ok(())
        })
    }

    /// The leaf that a meta column is.
    fn column(&self, name: &str) -> Result<usize> {
        leaf_of(&self.metadata, name, self.file.name())
    }

    /// Hands over the batches of some row groups with those columns, which come in the order of the file.
    fn read(
        &self,
        columns: &[&str],
        groups: Range<usize>,
        mut take: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let lost = |e| failed(self.file.name(), e);
        let leaves = columns.iter().map(|c| self.column(c)).collect::<Result<Vec<usize>>>()?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(self.metadata.clone(), options).map_err(lost)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), metadata);
        let mask = ProjectionMask::leaves(builder.parquet_schema(), leaves);
        let builder = builder.with_projection(mask).with_row_groups(groups.collect()).with_batch_size(BATCH_ROWS);
        for batch in builder.build().map_err(lost)? {
            take(&batch.map_err(|e| lost(e.into()))?).map_err(|e| e.context(self.file.name()))?;
        }
        Ok(())
    }
}

const COMMIT_TIME: &str = META_COLUMNS[0];
const KEY: &str = META_COLUMNS[2];

/// The leaf that a meta column is in a base file.
pub(super) fn leaf_of(metadata: &ParquetMetaData, name: &str, file: &str) -> Result<usize> {
    let schema = metadata.file_metadata().schema_descr();
    let found = schema.columns().iter().position(|c| c.path().parts() == [name]);
    found.ok_or_else(|| Error::corrupt(format!("{file}: has no column {name}, so that its keys are not known")))
}

/// The part of the sorted keys that a row group may hold.
pub(super) fn within<'k>(group: &RowGroupMetaData, column: usize, keys: &'k [&'k str]) -> &'k [&'k str] {
    let statistics = group.columns().get(column).and_then(|c| c.statistics());
    let Some(statistics) = statistics.filter(|s| !s.is_min_max_deprecated()) else { return keys };
    let (Some(min), Some(max)) = (statistics.min_bytes_opt(), statistics.max_bytes_opt()) else { return keys };
    let start = keys.partition_point(|k| k.as_bytes() < min);
    let end = keys.partition_point(|k| k.as_bytes() <= max);
    keys.get(start..end).unwrap_or_default()
}

fn text(batch: &RecordBatch, index: usize) -> Result<StringArray> {
    let column = batch.columns().get(index).ok_or_else(|| Error::internal("a column that was asked for"))?;
    // Old writers left the annotation of text away.
    let column = match column.data_type() {
        DataType::Utf8 => column.clone(),
        _ => cast(column, &DataType::Utf8).map_err(|e| Error::corrupt(format!("keys are no text: {e}")))?,
    };
    column.as_any().downcast_ref::<StringArray>().cloned().ok_or_else(|| Error::corrupt("keys are no text"))
}
