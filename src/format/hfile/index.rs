//! The data index: which block may hold a row.
//!
//! ```text
//! root entry:  i64 offset | i32 bytes on disk | Hadoop VInt key length | key
//! other node:  i32 n | n+1 i32 positions | entries: i64 offset | i32 bytes on disk | key up to the next position
//! key:         i16 row length | row | (HBase) family length, timestamp, type
//! ```
//!
//! Only the row of a key matters. A first key may be made up (shortened to what separates two blocks), so it is compared with
//! and never looked for.

use crate::error::{Error, Result};
use crate::format::input::Input;
use bytes::Bytes;
use std::fmt;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    /// Its first byte.
    pub offset: u64,
    /// Bytes on disk with header and checksums.
    pub len: u32,
}

impl fmt::Display for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block of {} bytes at byte {}", self.len, self.offset)
    }
}

/// A block and the least row that it may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub row: Bytes,
    pub at: BlockRef,
}

/// The root's entries, by row.
#[derive(Debug)]
pub struct RootIndex {
    entries: Vec<Entry>,
}

impl RootIndex {
    /// Parses `count` entries; HBase lets data about the middle key follow.
    pub fn parse(payload: &Bytes, count: u32) -> Result<RootIndex> {
        let mut input = Input::new(payload);
        let mut entries = Vec::new();
        for i in 0..count {
            let entry = root_entry(payload, &mut input);
            entries.push(entry.map_err(|e| e.context(format!("root index entry {i} of {count}")))?);
        }
        if !entries.is_sorted_by(|a: &Entry, b| a.row <= b.row) {
            return Err(Error::corrupt("root index is out of order"));
        }
        Ok(RootIndex { entries })
    }

    /// All entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The block to descend into for a row.
    pub fn find(&self, row: &[u8]) -> Option<BlockRef> {
        let after = self.entries.partition_point(|e| *e.row <= *row);
        Some(self.entries.get(after.checked_sub(1)?)?.at)
    }
}

fn root_entry(payload: &Bytes, input: &mut Input<'_>) -> Result<Entry> {
    let at = block_ref(input)?;
    let key_len = hadoop_vlong(input)?;
    Ok(Entry { row: payload.slice_ref(row_of(input.take_signed(key_len)?)?), at })
}

/// The entries of a node below the root.
pub fn node_entries(payload: &Bytes) -> Result<Vec<Entry>> {
    let node = Node::parse(payload)?;
    (0..node.count()).map(|i| Ok(Entry { row: payload.slice_ref(node.row(i)?), at: node.at(i)? })).collect()
}

/// The block to descend into for a row, in a node below the root.
pub fn find_in_node(payload: &Bytes, row: &[u8]) -> Result<Option<BlockRef>> {
    let node = Node::parse(payload)?;
    let (mut low, mut high) = (0, node.count());
    while low < high {
        let middle = low + (high - low) / 2;
        if node.row(middle)? <= row { low = middle + 1 } else { high = middle }
    }
    low.checked_sub(1).map(|i| node.at(i)).transpose()
}

/// A node below the root: entries of unequal length with their positions before them.
struct Node<'a> {
    positions: &'a [[u8; 4]],
    entries: &'a [u8],
}

impl<'a> Node<'a> {
    fn parse(payload: &'a [u8]) -> Result<Node<'a>> {
        let mut input = Input::new(payload);
        let count = i64::from(input.i32()?);
        // One more than entries: the last says where they end.
        let positions =
            input.take_signed(count.saturating_add(1).saturating_mul(4)).map_err(|e| e.context("index node"))?;
        Ok(Node { positions: positions.as_chunks().0, entries: input.rest() })
    }

    fn count(&self) -> usize {
        self.positions.len().saturating_sub(1)
    }

    fn entry(&self, i: usize) -> Result<Input<'a>> {
        let position = |i: usize| {
            let found = self.positions.get(i).map(|p| i32::from_be_bytes(*p));
            found.and_then(|p| usize::try_from(p).ok()).ok_or_else(|| Error::corrupt("index node position"))
        };
        let range = position(i)?..position(i + 1)?;
        let bytes = self.entries.get(range.clone());
        Ok(Input::new(bytes.ok_or_else(|| Error::corrupt(format!("index node entry {i} at bytes {range:?}")))?))
    }

    fn at(&self, i: usize) -> Result<BlockRef> {
        block_ref(&mut self.entry(i)?)
    }

    fn row(&self, i: usize) -> Result<&'a [u8]> {
        let mut entry = self.entry(i)?;
        block_ref(&mut entry)?;
        row_of(entry.rest())
    }
}

fn block_ref(input: &mut Input<'_>) -> Result<BlockRef> {
    let (offset, len) = (input.i64()?, input.i32()?);
    match (u64::try_from(offset), u32::try_from(len)) {
        (Ok(offset), Ok(len)) => Ok(BlockRef { offset, len }),
        _ => Err(Error::corrupt(format!("a block of {len} bytes at byte {offset}"))),
    }
}

/// The row of a cell key.
pub fn row_of(key: &[u8]) -> Result<&[u8]> {
    let mut input = Input::new(key);
    let len = input.i16()?;
    input.take_signed(i64::from(len))
}

/// Hadoop's variable-length number: a small one is its own byte; else the first byte tells sign and length.
pub fn hadoop_vlong(input: &mut Input<'_>) -> Result<i64> {
    let first = i8::from_be_bytes([input.u8()?]);
    if first >= -112 {
        return Ok(i64::from(first));
    }
    let (negative, len) = if first < -120 { (true, -120 - i32::from(first)) } else { (false, -112 - i32::from(first)) };
    let mut value = 0i64;
    for _ in 0..len {
        value = (value << 8) | i64::from(input.u8()?);
    }
    Ok(if negative { !value } else { value })
}
