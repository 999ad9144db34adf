//! Rows set aside in buckets: in memory while they fit, in temporary files when they do not.
//!
//! A request of any size works within the memory target: its rows are divided by a hash into [`BUCKETS`] files as soon as they
//! outgrow their share, and each bucket is then taken back on its own. The files are unlinked Arrow IPC streams, so that
//! nothing is left of them however the process ends.

use crate::error::{Error, Result};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};

/// Buckets that rows are divided into once they do not fit into memory.
pub(super) const BUCKETS: usize = 64;

/// Rows of one schema, by bucket.
pub(super) struct Spool {
    /// Bytes that may stay in memory.
    budget: usize,
    held: usize,
    rows: usize,
    memory: Vec<RecordBatch>,
    /// Beside each batch in memory, the bucket of each of its rows.
    places: Vec<Vec<u8>>,
    files: Vec<Option<StreamWriter<BufWriter<File>>>>,
}

impl Spool {
    /// Keeps up to `budget` bytes in memory.
    pub fn new(budget: u64) -> Spool {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        Spool { budget, held: 0, rows: 0, memory: Vec::new(), places: Vec::new(), files: Vec::new() }
    }

    /// Adds rows; `places` has the bucket of each, below [`BUCKETS`].
    pub fn push(&mut self, batch: RecordBatch, places: Vec<u8>) -> Result<()> {
        self.held += batch.get_array_memory_size();
        self.rows += batch.num_rows();
        self.memory.push(batch);
        self.places.push(places);
        if self.held > self.budget { self.spill() } else { Ok(()) }
    }

    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The buckets, one after the other, each as one batch; rows keep the order in which they came. While nothing was spilled
    /// there is one bucket with all rows.
    pub fn into_buckets(mut self) -> Result<Vec<Bucket>> {
        if self.files.is_empty() {
            return Ok(if self.memory.is_empty() { Vec::new() } else { vec![Bucket::Memory(self.memory)] });
        }
        self.spill()?;
        let files = std::mem::take(&mut self.files).into_iter().flatten();
        files
            .map(|mut writer| {
                writer.finish().map_err(failed)?;
                let mut file = writer.into_inner().map_err(failed)?.into_inner().map_err(|e| failed(e.into_error()))?;
                file.rewind().map_err(failed)?;
                Ok(Bucket::File(file))
            })
            .collect()
    }

    fn spill(&mut self) -> Result<()> {
        if self.files.is_empty() {
            self.files.resize_with(BUCKETS, || None);
        }
        let places = std::mem::take(&mut self.places);
        for (batch, places) in std::mem::take(&mut self.memory).iter().zip(places) {
            let mut rows: Vec<Vec<u32>> = vec![Vec::new(); BUCKETS];
            for (row, place) in (0_u32..).zip(&places) {
                rows.get_mut(usize::from(*place)).ok_or_else(|| Error::internal("bucket out of range"))?.push(row);
            }
            for (rows, slot) in rows.into_iter().zip(&mut self.files).filter(|(r, _)| !r.is_empty()) {
                let part = take_record_batch(batch, &UInt32Array::from(rows)).map_err(failed)?;
                if slot.is_none() {
                    let file = tempfile::tempfile().map_err(failed)?;
                    *slot = Some(StreamWriter::try_new_buffered(file, &part.schema()).map_err(failed)?);
                }
                if let Some(writer) = slot {
                    writer.write(&part).map_err(failed)?;
                }
            }
        }
        self.held = 0;
        Ok(())
    }
}

/// The rows of one bucket.
#[derive(Debug)]
pub(super) enum Bucket {
    Memory(Vec<RecordBatch>),
    File(File),
}

impl Bucket {
    /// All its rows as one batch.
    pub fn load(self) -> Result<RecordBatch> {
        let batches = match self {
            Bucket::Memory(batches) => batches,
            Bucket::File(file) => StreamReader::try_new(BufReader::new(file), None)
                .and_then(|reader| reader.collect::<Result<Vec<_>, _>>())
                .map_err(failed)?,
        };
        match batches.as_slice() {
            [] => Err(Error::internal("a bucket without a batch")),
            [one] => Ok(one.clone()),
            [first, ..] => concat_batches(&first.schema(), &batches).map_err(failed),
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = format!("rows could not be set aside in a temporary file: {error}");
    Error::new(crate::ErrorKind::Unavailable, text)
        .with_source(error)
        .with_hint("free space in the temporary directory (TMPDIR), or raise --memory-target")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    fn batch(numbers: std::ops::Range<i64>) -> (RecordBatch, Vec<u8>) {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let places = numbers.clone().map(|n| (n % 7) as u8).collect();
        (RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(numbers))]).unwrap(), places)
    }

    fn numbers(bucket: Bucket) -> Vec<i64> {
        let batch = bucket.load().unwrap();
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(column.null_count(), 0);
        column.values().to_vec()
    }

    #[test]
    fn what_fits_stays_one_bucket_in_order() {
        let mut spool = Spool::new(1 << 20);
        for start in [0, 10] {
            let (batch, places) = batch(start..start + 10);
            spool.push(batch, places).unwrap();
        }
        assert_eq!(spool.rows(), 20);
        let buckets = spool.into_buckets().unwrap();
        assert_eq!(buckets.into_iter().map(numbers).collect::<Vec<_>>(), [(0..20).collect::<Vec<_>>()]);
        assert!(Spool::new(0).into_buckets().unwrap().is_empty());
    }

    #[test]
    fn what_does_not_fit_is_divided_in_order() {
        let mut spool = Spool::new(1000);
        for start in (0..1000).step_by(100) {
            let (batch, places) = batch(start..start + 100);
            spool.push(batch, places).unwrap();
        }
        let mut buckets: Vec<Vec<i64>> = spool.into_buckets().unwrap().into_iter().map(numbers).collect();
        buckets.sort();
        let wanted: Vec<Vec<i64>> = (0..7).map(|b| (0..1000).filter(|n| n % 7 == b).collect()).collect();
        assert_eq!(buckets, wanted);
    }
}
