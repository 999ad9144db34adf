//! Base files of the metadata table.

use super::log_file::settings;
use super::target::Target;
use crate::error::{Error, Result};
use crate::format::bloom::{BloomFilter, BloomKind};
use crate::format::hfile::{HFileSettings, HFileWriter};
use crate::metadata::RECORD_INDEX;
use crate::storage::{ObjectWriter, TablePath};
use std::io::BufWriter;

/// The filter of a record index is of no use to anybody, since keys are looked up by their shard, and would cost more than all
/// else of a large one. Readers expect one to be there: this one has a single hash, and is full soon.
const INDEX_FILTER: (u32, f64) = (60_000, 0.5);
/// Bytes that are written at a time.
const BUFFER_LEN: usize = 256 << 10;

/// Takes a record: key and value, keys ascending.
pub(super) type Put<'p> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'p;

/// Writes a base file of the records that `fill` puts, in the order of their keys; answers their number and the file's bytes.
pub(super) fn write_base(
    target: &Target<'_>,
    partition: &str,
    path: &TablePath,
    fill: impl FnOnce(&mut Put<'_>) -> Result<()>,
) -> Result<(u64, u64)> {
    let bloom = match partition {
        RECORD_INDEX => BloomFilter::new(BloomKind::Simple, INDEX_FILTER.0, INDEX_FILTER.1, 0)?,
        _ => BloomFilter::with_defaults()?,
    };
    let settings = HFileSettings { bloom: Some(bloom), ..settings(partition, target.format) };
    let out: Box<dyn ObjectWriter> = target.files.create_writer(path)?;
    let mut file = HFileWriter::new(BufWriter::with_capacity(BUFFER_LEN, out), settings);
    fill(&mut |key, value| file.append(key, value))?;
    let rows = file.cells();
    let (out, size) = file.finish()?;
    let out = out.into_inner().map_err(|e| Error::io(path, e.into_error()))?;
    let meta = out.finish()?;
    if meta.size != size {
        return Err(Error::internal(format!("{path} has {} bytes, {size} were written", meta.size)));
    }
    Ok((rows, size))
}
