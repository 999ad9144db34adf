//! [`ByteSource`]: bytes that are read by range, for formats whose files need not be read whole.
//!
//! `format` does not know storage; whoever opens an HFile or a log file brings one of these. [`Bytes`] in memory is one.

use crate::error::{Error, Result};
use bytes::Bytes;

/// One file's bytes, which do not change while they are read.
pub trait ByteSource {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Exactly `len` bytes at `offset`; `Corrupt` if they are not all there.
    fn read(&self, offset: u64, len: u64) -> Result<Bytes>;
}

impl ByteSource for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size());
        match end {
            // Both fit `usize`, being at most the length of a slice.
            Some(end) => Ok(self.slice(offset as usize..end as usize)),
            None => Err(Error::corrupt(format!("{len} bytes at byte {offset} of {}", self.len()))),
        }
    }
}

impl<S: ByteSource + ?Sized> ByteSource for &S {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        (**self).read(offset, len)
    }
}

impl<S: ByteSource + ?Sized> ByteSource for Box<S> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        (**self).read(offset, len)
    }
}

/// A part of a source, as a source of its own: a file that lies in a log block.
#[derive(Debug)]
pub struct Part<S> {
    source: S,
    offset: u64,
    len: u64,
}

impl<S: ByteSource> Part<S> {
    /// `len` bytes at `offset`; `Corrupt` if they are not all there.
    pub fn new(source: S, offset: u64, len: u64) -> Result<Part<S>> {
        match offset.checked_add(len).filter(|end| *end <= source.size()) {
            Some(_) => Ok(Part { source, offset, len }),
            None => Err(Error::corrupt(format!("{len} bytes at byte {offset} of {}", source.size()))),
        }
    }
}

impl<S: ByteSource> ByteSource for Part<S> {
    fn size(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        match offset.checked_add(len).filter(|end| *end <= self.len) {
            Some(_) => self.source.read(self.offset + offset, len),
            None => Err(Error::corrupt(format!("{len} bytes at byte {offset} of {}", self.len))),
        }
    }
}
