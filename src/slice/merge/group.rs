//! Row groups made anew: their columns decoded, merged and encoded, one column at a time.
//!
//! Of a row group that only has updates, a column whose values are the same before and after is not encoded again.

use super::super::encode::Encoder;
use super::super::read::adapt;
use super::columns::Columns;
use super::matches::{Change, OldFile};
use crate::error::{Error, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{DataType, Schema};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter};
use std::sync::Arc;

/// Where the meta columns stand.
const KEY: usize = 2;
const PARTITION: usize = 3;
const FILE_NAME: usize = 4;
const META: usize = 5;

/// A row group that is ready to be put into the file.
pub(super) struct EncodedGroup {
    pub rows: usize,
    pub columns: Vec<Piece>,
}

/// One column of it.
pub(super) enum Piece {
    /// The name of the new file.
    FileName,
    /// The column's chunks in this row group of the old file.
    Copied(usize),
    Encoded(Vec<ArrowColumnChunk>),
}

/// What makes row groups.
pub(super) struct Groups<'m> {
    pub old: &'m OldFile,
    pub columns: &'m Columns,
    pub encoder: &'m Encoder,
}

/// The rows of a new row group: of the old one (0) and of the incoming ones (1).
type Picks = Vec<(usize, usize)>;

/// Writers of the leaf columns of one row group: the library makes all at once, so that it is asked once a row group, and not
/// at all where nothing is encoded.
type Writers = Vec<Option<ArrowColumnWriter>>;

impl Groups<'_> {
    /// A row group with its changes, and rows that are added at its end.
    pub fn rewrite(&self, group: usize, rows: usize, changes: &[Change], added: &[u32]) -> Result<EncodedGroup> {
        let picks = picks(0..rows, changes, added);
        let only_updates = added.is_empty() && !changes.iter().any(|c| c.deletes);
        let columns = self.each(|writers, column, source_kept| {
            if only_updates && source_kept && (column == KEY || column == PARTITION) {
                return Ok(Piece::Copied(group));
            }
            let old = self.old_column(group, column, rows)?;
            if only_updates && source_kept && column >= META && self.is_same(&old, column, changes)? {
                return Ok(Piece::Copied(group));
            }
            self.encode(writers, column, &old, &picks)
        })?;
        Ok(EncodedGroup { rows: picks.len(), columns })
    }

    /// A row group of which nothing changes but columns that have a new form.
    pub fn reform(&self, group: usize, rows: usize) -> Result<EncodedGroup> {
        let columns = self.each(|writers, column, is_kept| match is_kept {
            true => Ok(Piece::Copied(group)),
            false => {
                let old = self.old_column(group, column, rows)?;
                self.encoded(writers, column, &old)
            }
        })?;
        Ok(EncodedGroup { rows, columns })
    }

    /// Part of a row group that was decoded: rows from `first` on.
    pub fn window(&self, batch: &RecordBatch, first: usize, changes: &[Change], added: &[u32]) -> Result<EncodedGroup> {
        let picks = picks(first..first + batch.num_rows(), changes, added);
        let columns =
            self.each(|writers, column, _| self.encode(writers, column, &self.of_batch(batch, column)?, &picks))?;
        Ok(EncodedGroup { rows: picks.len(), columns })
    }

    /// A row group of incoming rows only.
    pub fn added(&self, rows: &[u32]) -> Result<EncodedGroup> {
        let places = UInt32Array::from(rows.to_vec());
        let columns = self.each(|writers, column, _| {
            let values = take(self.incoming_column(column)?, &places, None).map_err(joined)?;
            self.encoded(writers, column, &values)
        })?;
        Ok(EncodedGroup { rows: rows.len(), columns })
    }

    /// The old file's columns that are needed when whole rows are decoded.
    pub fn roots(&self) -> Vec<usize> {
        let needed = self.columns.sources.iter().enumerate().filter(|(column, _)| *column != FILE_NAME);
        needed.filter_map(|(_, source)| source.old).collect()
    }

    fn each(&self, mut make: impl FnMut(&mut Writers, usize, bool) -> Result<Piece>) -> Result<Vec<Piece>> {
        let mut writers = Writers::new();
        let sources = self.columns.sources.iter().enumerate();
        sources
            .map(
                |(column, source)| {
                    if column == FILE_NAME { Ok(Piece::FileName) } else { make(&mut writers, column, source.is_kept) }
                },
            )
            .collect()
    }

    fn encode(&self, writers: &mut Writers, column: usize, old: &ArrayRef, picks: &Picks) -> Result<Piece> {
        let values = interleave(&[old, self.incoming_column(column)?], picks).map_err(joined)?;
        self.encoded(writers, column, &values)
    }

    fn encoded(&self, writers: &mut Writers, column: usize, values: &ArrayRef) -> Result<Piece> {
        if writers.is_empty() {
            *writers = self.encoder.start()?;
        }
        Ok(Piece::Encoded(self.encoder.column(writers, column, values)?))
    }

    fn incoming_column(&self, column: usize) -> Result<&ArrayRef> {
        self.columns.incoming.get(column).ok_or_else(|| Error::internal("a column out of range"))
    }

    /// A column of a row group in the new file's form.
    fn old_column(&self, group: usize, column: usize, rows: usize) -> Result<ArrayRef> {
        let source = self.columns.sources.get(column).and_then(|s| s.old);
        let Some(root) = source else { return Ok(new_null_array(self.form(column)?, rows)) };
        let mut parts = Vec::new();
        for batch in self.old.rows(group, vec![root], rows.max(1))? {
            parts.push(self.of_batch(&batch.map_err(|e| self.old.failed(e))?, column)?);
        }
        let found: usize = parts.iter().map(|p| p.len()).sum();
        if found != rows {
            let name = self.old.file.name();
            return Err(Error::corrupt(format!("{name}: row group {group} has {found} of {rows} rows in a column")));
        }
        match parts.as_slice() {
            [one] => Ok(one.clone()),
            [] => Ok(new_null_array(self.form(column)?, 0)),
            several => concat(&several.iter().map(|p| p.as_ref()).collect::<Vec<_>>()).map_err(joined),
        }
    }

    /// A column of decoded rows in the new file's form.
    fn of_batch(&self, batch: &RecordBatch, column: usize) -> Result<ArrayRef> {
        let field = self.columns.arrow.fields().get(column).ok_or_else(|| Error::internal("a column out of range"))?;
        match batch.column_by_name(field.name()) {
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            Some(values) if values.data_type() == field.data_type() => Ok(values.clone()),
            Some(_) => {
                let one = Arc::new(Schema::new(vec![field.clone()]));
                let adapted = adapt(batch, &one).map_err(|e| e.context(self.old.file.name()))?;
                adapted.columns().first().cloned().ok_or_else(|| Error::internal("a column that was adapted"))
            }
        }
    }

    fn form(&self, column: usize) -> Result<&DataType> {
        let field = self.columns.arrow.fields().get(column).ok_or_else(|| Error::internal("a column out of range"))?;
        Ok(field.data_type())
    }

    /// True if updated rows have the same value as before.
    fn is_same(&self, old: &ArrayRef, column: usize, changes: &[Change]) -> Result<bool> {
        let before = UInt32Array::from_iter_values(changes.iter().map(|c| c.row));
        let after = UInt32Array::from_iter_values(changes.iter().map(|c| c.incoming));
        let before = take(old, &before, None).map_err(joined)?;
        let after = take(self.incoming_column(column)?, &after, None).map_err(joined)?;
        Ok(before == after)
    }
}

/// Which rows a new row group has: `range` of the old one with its changes, then the added ones.
fn picks(range: std::ops::Range<usize>, changes: &[Change], added: &[u32]) -> Picks {
    let mut picks = Vec::with_capacity(range.len() + added.len());
    let first = range.start;
    let mut next = changes.iter().peekable();
    for row in range {
        match next.next_if(|c| c.row as usize == row) {
            None => picks.push((0, row - first)),
            Some(change) if change.deletes => {}
            Some(change) => picks.push((1, change.incoming as usize)),
        }
    }
    picks.extend(added.iter().map(|row| (1, *row as usize)));
    picks
}

fn joined(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("merged rows could not be joined: {error}")).with_source(error)
}
