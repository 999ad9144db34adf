//! The cells of a data block.
//!
//! ```text
//! i32 key length | i32 value length | key | value | Hadoop VInt MVCC version, where the file information says so
//! key: i16 row length | row | u8 family length | family | qualifier | i64 timestamp | u8 type; or up to the row only
//! ```

use super::index::{hadoop_vlong, row_of};
use crate::error::{Error, Result};
use crate::format::input::Input;
use bytes::Bytes;
use std::cmp::Ordering;

/// The type of a cell that sets a value; the metadata table deletes with values of its own, never with HBase's tombstones.
const PUT: u8 = 4;

/// A decompressed data block.
#[derive(Clone, Debug)]
pub struct DataBlock {
    payload: Bytes,
    versions: bool,
}

/// A row and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The key.
    pub row: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl DataBlock {
    pub(super) fn new(payload: Bytes, versions: bool) -> Self {
        DataBlock { payload, versions }
    }

    /// The cells in order. Ends after the first failure.
    pub fn cells(&self) -> Cells<'_> {
        Cells { input: Some(Input::new(&self.payload)), versions: self.versions }
    }

    /// The value of the first cell with that row.
    pub fn get(&self, row: &[u8]) -> Result<Option<Bytes>> {
        for cell in self.cells() {
            let cell = cell?;
            match cell.row.cmp(row) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Some(self.share(cell.value))),
                Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    /// A part of this block that keeps the block's memory alive instead of being copied.
    pub fn share(&self, part: &[u8]) -> Bytes {
        let start = (part.as_ptr() as usize).wrapping_sub(self.payload.as_ptr() as usize);
        match start.checked_add(part.len()) {
            Some(end) if end <= self.payload.len() => self.payload.slice(start..end),
            _ => Bytes::copy_from_slice(part),
        }
    }

    /// Bytes of memory.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// True without cells.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }
}

/// Iterates over the cells of a [`DataBlock`].
pub struct Cells<'a> {
    input: Option<Input<'a>>,
    versions: bool,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Result<Cell<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let input = self.input.as_mut().filter(|i| !i.is_empty())?;
        let at = input.position();
        let cell = cell(input, self.versions);
        if cell.is_err() {
            self.input = None;
        }
        Some(cell.map_err(|e| e.context(format!("cell at byte {at}"))))
    }
}

fn cell<'a>(input: &mut Input<'a>, versions: bool) -> Result<Cell<'a>> {
    let (key_len, value_len) = (input.i32()?, input.i32()?);
    let key = input.take_signed(i64::from(key_len))?;
    let value = input.take_signed(i64::from(value_len))?;
    if versions {
        hadoop_vlong(input)?;
    }
    let row = row_of(key)?;
    match key.last() {
        // The first releases of Hudi's own writer left out all but the row.
        _ if key.len() == row.len() + 2 => Ok(Cell { row, value }),
        Some(&PUT) if key.len() >= row.len() + 12 => Ok(Cell { row, value }),
        kind => {
            Err(Error::corrupt(format!("key of {} bytes and type {kind:?} is not one that Hudi writes", key.len())))
        }
    }
}
