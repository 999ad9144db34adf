//! [`HFileWriter`]: an HFile that readers of both generations take.
//!
//! It is what HBase's writer makes, in one level: CRC32C, whole cell keys in the cells and in the index, gzip. The file is
//! written front to back, with one block and the index in memory.
//!
//! Hudi's own reader looks for cells up to the payload's length less that of the checksums, which lie elsewhere: it would pass
//! over a last cell that begins in there. So a block is divided until its last cell is longer than its checksums.

use super::encode::{
    block, bytes_field, cell_key, checksums_len, codec_id, compress, delimited, index_entry, number_field,
};
use super::trailer;
use crate::error::{Error, Result};
use crate::format::bloom::BloomFilter;
use std::io::Write;
use std::ops::Range;

pub use super::block::Codec;

/// `hoodie.hfile.block.size`: bytes of cells in a block.
pub const BLOCK_LEN_DEFAULT: usize = 1 << 20;
/// The class that 0.x loads to compare keys.
const COMPARATOR: &[u8] = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator";
/// Version 3, with checksums as HBase has them since its minor version 1.
const VERSION: [u8; 4] = [3, 0, 0, 3];
/// Lengths of a row are written as signed 16-bit numbers.
const ROW_LEN_MAX: usize = i16::MAX as usize;

/// What an HFile is to be.
#[derive(Clone, Debug)]
pub struct HFileSettings {
    /// How blocks are compressed.
    pub codec: Codec,
    /// Bytes of cells after which a block ends.
    pub block_len: usize,
    /// Avro schema of the values, JSON text.
    pub schema: String,
    /// Of a base file: the empty filter that takes the rows. A log block's HFile has none.
    pub bloom: Option<BloomFilter>,
}

impl HFileSettings {
    /// The content of a log block: no filter.
    pub fn log_block(schema: impl Into<String>) -> HFileSettings {
        HFileSettings { codec: Codec::Gz, block_len: BLOCK_LEN_DEFAULT, schema: schema.into(), bloom: None }
    }

    /// A base file, with a filter over its rows.
    pub fn base_file(schema: impl Into<String>, bloom: BloomFilter) -> HFileSettings {
        HFileSettings { bloom: Some(bloom), ..Self::log_block(schema) }
    }
}

/// Writes an HFile to `W`.
pub struct HFileWriter<W> {
    out: W,
    settings: HFileSettings,
    /// Bytes written to `out`.
    at: u64,
    /// The open block's cells, end to end, and where each begins.
    cells: Vec<u8>,
    starts: Vec<usize>,
    /// Payload of the root index.
    index: Vec<u8>,
    index_count: u64,
    first_block: Option<u64>,
    last_block: Option<u64>,
    plain_bytes: u64,
    totals: Totals,
    first_row: Vec<u8>,
    last_row: Vec<u8>,
}

/// What the file information averages.
#[derive(Default)]
struct Totals {
    cells: u64,
    key_bytes: u64,
    value_bytes: u64,
}

impl<W: Write> HFileWriter<W> {
    /// A file of which nothing is written yet.
    pub fn new(out: W, settings: HFileSettings) -> Self {
        HFileWriter {
            out,
            settings,
            at: 0,
            cells: Vec::new(),
            starts: Vec::new(),
            index: Vec::new(),
            index_count: 0,
            first_block: None,
            last_block: None,
            plain_bytes: 0,
            totals: Totals::default(),
            first_row: Vec::new(),
            last_row: Vec::new(),
        }
    }

    /// Adds a cell. Rows must ascend bytewise, none twice.
    pub fn append(&mut self, row: &[u8], value: &[u8]) -> Result<()> {
        if row.is_empty() || row.len() > ROW_LEN_MAX {
            return Err(Error::invalid(format!("an HFile row of {} bytes; 1 to {ROW_LEN_MAX} fit", row.len())));
        }
        if self.totals.cells > 0 && *self.last_row >= *row {
            return Err(Error::internal(format!("HFile row {} is out of order", String::from_utf8_lossy(row))));
        }
        let value_len = i32::try_from(value.len())
            .map_err(|_| Error::invalid(format!("an HFile value of {} bytes", value.len())))?;
        if !self.cells.is_empty() && self.cells.len() + row.len() + value.len() + 21 > self.settings.block_len {
            self.flush()?;
        }
        if self.totals.cells == 0 {
            self.first_row.extend_from_slice(row);
        }
        self.starts.push(self.cells.len());
        self.cells.extend_from_slice(&(row.len() as i32 + 12).to_be_bytes());
        self.cells.extend_from_slice(&value_len.to_be_bytes());
        self.cells.extend_from_slice(&cell_key(row));
        self.cells.extend_from_slice(value);
        // The version of the cell; Hudi has no use for it.
        self.cells.push(0);
        self.totals.cells += 1;
        self.totals.key_bytes += row.len() as u64 + 12;
        self.totals.value_bytes += value.len() as u64;
        self.last_row.clear();
        self.last_row.extend_from_slice(row);
        if let (Some(bloom), Ok(row)) = (&mut self.settings.bloom, std::str::from_utf8(row)) {
            bloom.add(row);
        }
        Ok(())
    }

    /// Number of cells so far.
    pub fn cells(&self) -> u64 {
        self.totals.cells
    }

    /// Writes what is left; gives back the sink and the file's length in bytes.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.flush()?;
        let meta = self.write_bloom()?;
        let load_on_open = self.at;
        let index = std::mem::take(&mut self.index);
        self.write_block(b"IDXROOT2", &index, None)?;
        let mut meta_index = Vec::new();
        if let Some((offset, len)) = meta {
            index_entry(&mut meta_index, offset, len, b"bloomFilter");
        }
        self.write_block(b"IDXROOT2", &meta_index, Some(load_on_open))?;
        let info_at = self.at;
        let info = self.file_info();
        self.write_block(b"FILEINF2", &info, None)?;
        let trailer = self.trailer(info_at, load_on_open, index.len(), u64::from(meta.is_some()));
        self.write(&trailer)?;
        Ok((self.out, self.at))
    }

    /// Ends the open block.
    fn flush(&mut self) -> Result<()> {
        let cells = std::mem::take(&mut self.cells);
        let starts = std::mem::take(&mut self.starts);
        let mut ranges: Vec<Range<usize>> = std::iter::once(0..starts.len()).collect();
        while let Some(range) = ranges.pop() {
            if range.is_empty() {
                continue;
            }
            if let Some(middle) = self.write_cells(&cells, &starts, range.clone())? {
                // What did not fit now will not fit the next time either.
                self.settings.block_len = (self.settings.block_len / 2).max(64 << 10);
                ranges.push(middle..range.end);
                ranges.push(range.start..middle);
            }
        }
        self.cells = cells;
        self.cells.clear();
        self.starts = starts;
        self.starts.clear();
        Ok(())
    }

    /// Writes a block of some cells, unless it must be divided: then the cell to divide at.
    fn write_cells(&mut self, cells: &[u8], starts: &[usize], range: Range<usize>) -> Result<Option<usize>> {
        let start_of = |place: usize| starts.get(place).copied().unwrap_or(cells.len());
        let (start, end) = (start_of(range.start), start_of(range.end));
        let payload = cells.get(start..end).unwrap_or_default();
        let stored = compress(payload, self.settings.codec)?;
        let last_cell = end - start_of(range.end - 1);
        if range.len() > 1 && last_cell <= checksums_len(stored.len()) {
            return Ok(Some(range.start + range.len() / 2));
        }
        let bytes = block(b"DATABLK*", &stored, payload.len(), self.last_block)?;
        // The key comes first in a cell, after the two lengths.
        let row_len = payload.get(8..10).and_then(|b| b.try_into().ok()).map_or(0, u16::from_be_bytes);
        let key = payload.get(8..8 + usize::from(row_len) + 12).unwrap_or_default();
        index_entry(&mut self.index, self.at, bytes.len() as u32, key);
        self.index_count += 1;
        self.first_block.get_or_insert(self.at);
        self.last_block = Some(self.at);
        self.plain_bytes += payload.len() as u64 + 33;
        self.write(&bytes)?;
        Ok(None)
    }

    /// Writes the filter's block; its place and length.
    fn write_bloom(&mut self) -> Result<Option<(u64, u32)>> {
        let Some(bloom) = &self.settings.bloom else { return Ok(None) };
        let text = bloom.to_text();
        let at = self.at;
        self.write_block(b"METABLKc", text.as_bytes(), None)?;
        Ok(Some((at, (self.at - at) as u32)))
    }

    fn file_info(&self) -> Vec<u8> {
        let average = |total: u64| (total.checked_div(self.totals.cells).unwrap_or_default() as u32).to_be_bytes();
        let (keys, values) = (average(self.totals.key_bytes), average(self.totals.value_bytes));
        let last_key = cell_key(&self.last_row);
        let mut pairs: Vec<(&str, &[u8])> =
            vec![("KEY_VALUE_VERSION", &[0, 0, 0, 1]), ("MAX_MEMSTORE_TS_KEY", &[0; 8])];
        if let Some(bloom) = &self.settings.bloom {
            pairs.push(("bloomFilterTypeCode", bloom.kind().code().as_bytes()));
        }
        // No time of creation: the same cells give the same bytes.
        pairs.extend([("hfile.AVG_KEY_LEN", &keys[..]), ("hfile.AVG_VALUE_LEN", &values)]);
        pairs.push(("hfile.CREATE_TIME_TS", &[0; 8]));
        if self.totals.cells > 0 {
            pairs.push(("hfile.LASTKEY", &last_key));
        }
        if self.settings.bloom.is_some() {
            pairs.extend([("maxRecordKey", &self.last_row[..]), ("minRecordKey", &self.first_row)]);
        }
        pairs.push(("schema", self.settings.schema.as_bytes()));
        let mut message = Vec::new();
        for (key, value) in pairs {
            let mut pair = Vec::new();
            bytes_field(&mut pair, 1, key.as_bytes());
            bytes_field(&mut pair, 2, value);
            bytes_field(&mut message, 1, &pair);
        }
        let mut payload = b"PBUF".to_vec();
        delimited(&mut payload, &message);
        payload
    }

    fn trailer(&self, info_at: u64, load_on_open: u64, index_len: usize, meta_count: u64) -> Vec<u8> {
        let mut message = Vec::new();
        // A file without cells states the offset -1.
        let offset = |at: Option<u64>| at.unwrap_or(u64::MAX);
        for (field, value) in [
            (1, info_at),
            (2, load_on_open),
            (3, index_len as u64),
            (4, self.plain_bytes),
            (5, self.index_count),
            (6, meta_count),
            (7, self.totals.cells),
            (8, 1),
            (9, offset(self.first_block)),
            (10, offset(self.last_block)),
        ] {
            number_field(&mut message, field, value);
        }
        bytes_field(&mut message, 11, COMPARATOR);
        number_field(&mut message, 12, codec_id(self.settings.codec));
        let mut out = trailer::MAGIC.to_vec();
        delimited(&mut out, &message);
        out.resize(trailer::LEN as usize - VERSION.len(), 0);
        out.extend_from_slice(&VERSION);
        out
    }

    fn write_block(&mut self, magic: &[u8; 8], payload: &[u8], previous: Option<u64>) -> Result<()> {
        let stored = compress(payload, self.settings.codec)?;
        self.plain_bytes += payload.len() as u64 + 33;
        let bytes = block(magic, &stored, payload.len(), previous)?;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io("HFile", e))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
