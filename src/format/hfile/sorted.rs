//! Looking up many rows at once: each data block is read and scanned once, and blocks that lie close to each other are read
//! together.

use super::block::{Kind, read_block};
use super::index::BlockRef;
use super::{DataBlock, HFile};
use crate::error::{Error, Result};
use crate::format::source::ByteSource;
use std::cmp::Ordering;
use std::ops::Range;

/// Blocks that are read together, bytes.
const READ_LEN_MAX: u64 = 1 << 20;
/// Bytes between two blocks that are read and thrown away rather than read apart.
const GAP_LEN_MAX: u64 = 32 << 10;

/// A block and which of the rows may lie in it.
struct Wanted {
    at: BlockRef,
    rows: Range<usize>,
}

impl<S: ByteSource> HFile<S> {
    /// Looks rows up that are sorted and unequal, and tells the place in `rows` and the value of each that is there.
    pub fn find_sorted(&self, rows: &[&[u8]], mut found: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let wanted = self.wanted(rows)?;
        let mut rest = wanted.as_slice();
        while let Some(first) = rest.first() {
            let start = first.at.offset;
            let mut end = start + u64::from(first.at.len);
            let near = |next: &&Wanted| {
                let next_end = next.at.offset + u64::from(next.at.len);
                let joins = next.at.offset <= end + GAP_LEN_MAX && next_end >= end && next_end - start <= READ_LEN_MAX;
                let is_first = next.at == first.at;
                if joins {
                    end = next_end;
                }
                joins || is_first
            };
            let count = rest.iter().take_while(near).count();
            let (together, after) = rest.split_at(count);
            rest = after;
            self.check_place(start, end)?;
            let bytes = self.source.read(start, end - start)?;
            for block in together {
                let from = (block.at.offset - start) as usize;
                let bytes = bytes.slice(from..from + block.at.len as usize);
                let payload = read_block(&bytes, Kind::Data, self.trailer.codec)
                    .map_err(|e| e.context(format!("HFile {}", block.at)))?;
                let some = rows.get(block.rows.clone()).unwrap_or_default();
                let data = self.data_block(payload);
                data.find_sorted(some, |i, value| found(block.rows.start + i, value))?;
            }
        }
        Ok(())
    }

    /// The blocks that rows may lie in, in the order of rows and so of the file.
    fn wanted(&self, rows: &[&[u8]]) -> Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let Some(at) = self.locate(row)? else { continue };
            match wanted.last_mut() {
                Some(last) if last.at == at => last.rows.end = i + 1,
                Some(last) if last.at.offset > at.offset => {
                    return Err(Error::corrupt(format!("HFile index goes back to {at}")));
                }
                _ => wanted.push(Wanted { at, rows: i..i + 1 }),
            }
        }
        Ok(wanted)
    }
}

impl DataBlock {
    /// As [`HFile::find_sorted`], in one block.
    fn find_sorted(&self, rows: &[&[u8]], mut found: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let mut at = 0;
        for cell in self.cells() {
            let cell = cell?;
            loop {
                let Some(row) = rows.get(at) else { return Ok(()) };
                match cell.row.cmp(row) {
                    Ordering::Less => break,
                    Ordering::Equal => {
                        found(at, cell.value)?;
                        at += 1;
                        break;
                    }
                    Ordering::Greater => at += 1,
                }
            }
        }
        Ok(())
    }
}
