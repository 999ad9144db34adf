//! HFile, version 3: the sorted key-value file of HBase, in which the metadata table keeps its records
//! (docs/format.md, "HFile").
//!
//! ```text
//! data blocks | meta blocks | root data index | meta index | file info | trailer (4096 bytes)
//!                            ^ load-on-open section
//! ```
//!
//! Two generations of writers are read: HBase's own (CRC32C, whole cell keys in the index, an index of several levels), and
//! Hudi's since 1.1 (no checksums, row keys in the index, one level). Opening reads the load-on-open section and keeps the
//! root index; a lookup then reads one data block, and one index block for each further level.
//!
//! [`HFileWriter`] writes files that both take.
//!
//! Every size and offset in a file is checked against the file before it is followed, checksums are verified where they are
//! present, and a scan refuses to go backwards, so that no file can make it loop.

mod block;
mod cells;
mod checksum;
mod encode;
mod index;
mod info;
mod sorted;
mod trailer;
mod writer;

#[cfg(test)]
mod tests;

pub use cells::{Cell, Cells, DataBlock};
pub use index::BlockRef;
pub use writer::{BLOCK_LEN_DEFAULT, Codec, HFileSettings, HFileWriter};

use crate::error::{Error, Result};
use crate::format::source::ByteSource;
use block::{Kind, read_block};
use bytes::Bytes;
use index::{Entry, RootIndex};
use info::FileInfo;
use trailer::Trailer;

/// An open HFile: its trailer, root index and file information.
#[derive(Debug)]
pub struct HFile<S> {
    source: S,
    trailer: Trailer,
    root: RootIndex,
    info: FileInfo,
}

/// Read together with the trailer: small files, such as those in log blocks, then take one read.
const TAIL_LEN: u64 = 64 << 10;
/// Largest load-on-open section accepted, bytes: an index of this size is one of a file of a terabyte.
const LOAD_ON_OPEN_MAX: u64 = 256 << 20;

impl<S: ByteSource> HFile<S> {
    /// Reads trailer, index and file information.
    pub fn open(source: S) -> Result<Self> {
        Self::open_inner(source).map_err(|e| e.context("HFile"))
    }

    fn open_inner(source: S) -> Result<Self> {
        let size = source.size();
        let body_len = size.checked_sub(trailer::LEN);
        let body_len = body_len.ok_or_else(|| Error::corrupt(format!("{size} bytes are less than its trailer")))?;
        let tail_len = TAIL_LEN.min(size);
        let tail = source.read(size - tail_len, tail_len)?;
        let trailer = Trailer::parse(tail.slice((tail_len - trailer::LEN) as usize..).as_ref())?;
        let (start, info_at) = (trailer.load_on_open_offset, trailer.file_info_offset);
        if start > info_at || info_at >= body_len || body_len - start > LOAD_ON_OPEN_MAX {
            return Err(Error::corrupt(format!(
                "load-on-open section at {start}, file info at {info_at} of {body_len}"
            )));
        }
        let section = if body_len - start <= tail_len - trailer::LEN {
            let from = tail_len - trailer::LEN - (body_len - start);
            tail.slice(from as usize..(tail_len - trailer::LEN) as usize)
        } else {
            source.read(start, body_len - start)?
        };
        let root = read_block(&section, Kind::RootIndex, trailer.codec).map_err(|e| e.context("root index"))?;
        let root = RootIndex::parse(&root, trailer.data_index_count)?;
        let info = section.slice((info_at - start) as usize..);
        let info = FileInfo::parse(&read_block(&info, Kind::FileInfo, trailer.codec)?);
        let info = info.map_err(|e| e.context("file info"))?;
        Ok(HFile { source, trailer, root, info })
    }

    /// Number of cells, as the trailer says.
    pub fn entry_count(&self) -> u64 {
        self.trailer.entry_count
    }

    /// Levels of the data index: 1 in all files that Hudi itself writes.
    pub fn index_levels(&self) -> u32 {
        self.trailer.levels
    }

    /// A value of the file information block, such as `schema`.
    pub fn info(&self, key: &str) -> Option<&Bytes> {
        self.info.get(key.as_bytes())
    }

    /// The value of the first cell with that row.
    pub fn get(&self, row: &[u8]) -> Result<Option<Bytes>> {
        match self.locate(row)? {
            Some(block) => self.read_data(block)?.get(row),
            None => Ok(None),
        }
    }

    /// The data block that holds the row if any does.
    pub fn locate(&self, row: &[u8]) -> Result<Option<BlockRef>> {
        let Some(mut at) = self.root.find(row) else { return Ok(None) };
        for level in 1..self.trailer.levels {
            let payload = self.read_index(at, level)?;
            match index::find_in_node(&payload, row)? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Reads a data block that [`HFile::locate`] named.
    pub fn read_data(&self, at: BlockRef) -> Result<DataBlock> {
        let payload = self.read_at(at, Kind::Data)?;
        Ok(self.data_block(payload))
    }

    fn data_block(&self, payload: Bytes) -> DataBlock {
        // Hudi's own writer always writes versions; its first releases did not say so.
        DataBlock::new(payload, self.info.cells_have_versions || self.trailer.minor_version == 0)
    }

    /// Visits all cells in order of their rows, and checks that they are in order and as many as the trailer says.
    pub fn scan(&self, mut visit: impl FnMut(&[u8], Bytes) -> Result<()>) -> Result<()> {
        let mut order = Order { offsets: vec![None; self.trailer.levels as usize], last_row: Vec::new(), cells: 0 };
        for entry in self.root.entries() {
            self.scan_node(entry, 1, &mut order, &mut visit)?;
        }
        if order.cells != self.trailer.entry_count {
            return Err(Error::corrupt(format!(
                "HFile of {} cells, the trailer says {}",
                order.cells,
                self.entry_count()
            )));
        }
        Ok(())
    }

    /// Visits what is below one index entry; `level` counts from 1 at the root's entries.
    fn scan_node(
        &self,
        entry: &Entry,
        level: u32,
        order: &mut Order,
        visit: &mut impl FnMut(&[u8], Bytes) -> Result<()>,
    ) -> Result<()> {
        order.forward(level, entry.at)?;
        if level < self.trailer.levels {
            for entry in index::node_entries(&self.read_index(entry.at, level)?)? {
                self.scan_node(&entry, level + 1, order, visit)?;
            }
            return Ok(());
        }
        let block = self.read_data(entry.at)?;
        for cell in block.cells() {
            let cell = cell.map_err(|e| e.context(entry.at))?;
            order.next_row(cell.row)?;
            visit(cell.row, block.share(cell.value))?;
        }
        Ok(())
    }

    fn read_index(&self, at: BlockRef, level: u32) -> Result<Bytes> {
        // The last level before the data is a leaf's.
        let kind = if level + 1 == self.trailer.levels { Kind::LeafIndex } else { Kind::IntermediateIndex };
        self.read_at(at, kind)
    }

    fn read_at(&self, at: BlockRef, kind: Kind) -> Result<Bytes> {
        let end = at.offset.checked_add(u64::from(at.len));
        self.check_place(at.offset, end.unwrap_or(u64::MAX))?;
        let bytes = self.source.read(at.offset, u64::from(at.len))?;
        read_block(&bytes, kind, self.trailer.codec).map_err(|e| e.context(format!("HFile {at}")))
    }
}

impl<S> HFile<S> {
    /// Nothing that an index points at lies in the load-on-open section.
    fn check_place(&self, start: u64, end: u64) -> Result<()> {
        if end > self.trailer.load_on_open_offset || start >= end {
            return Err(Error::corrupt(format!("HFile blocks at bytes {start} to {end} lie beyond their section")));
        }
        Ok(())
    }
}

/// What a scan has passed: blocks of one level, and rows, must ascend.
struct Order {
    offsets: Vec<Option<u64>>,
    last_row: Vec<u8>,
    cells: u64,
}

impl Order {
    fn forward(&mut self, level: u32, at: BlockRef) -> Result<()> {
        let last = self.offsets.get_mut(level as usize - 1).ok_or_else(|| Error::internal("HFile index level"))?;
        if last.is_some_and(|last| last >= at.offset) {
            return Err(Error::corrupt(format!("HFile index goes back to {at}")));
        }
        *last = Some(at.offset);
        Ok(())
    }

    fn next_row(&mut self, row: &[u8]) -> Result<()> {
        if self.cells > 0 && *self.last_row > *row {
            return Err(Error::corrupt(format!("HFile row {} is out of order", String::from_utf8_lossy(row))));
        }
        self.last_row.clear();
        self.last_row.extend_from_slice(row);
        self.cells += 1;
        Ok(())
    }
}
