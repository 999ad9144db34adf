//! [`Reader`]: Avro's primitives off a slice, with a budget of steps, so that values without bytes cannot multiply.

use crate::error::{Error, Result};
use crate::format::input::Input;

/// Steps (values read or passed over) allowed for each byte of input.
const STEPS_PER_BYTE: u64 = 4;
/// Steps allowed whatever the length, beside those that the schema's own fields take.
const STEPS_MIN: u64 = 1024;

/// A place in one encoded row.
pub(super) struct Reader<'a> {
    input: Input<'a>,
    steps: u64,
}

impl<'a> Reader<'a> {
    /// `types` are the types of the row's schema: each may be visited once without a byte of its own.
    pub fn new(bytes: &'a [u8], types: u64) -> Self {
        let steps = (bytes.len() as u64).saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_MIN + types);
        Reader { input: Input::new(bytes), steps }
    }

    /// Counts a value; every value goes through here once.
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        match self.steps.checked_sub(1) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Error::corrupt("avro value of far more parts than bytes")),
        }
    }

    pub fn remaining(&self) -> usize {
        self.input.remaining()
    }

    #[inline]
    pub fn long(&mut self) -> Result<i64> {
        let raw = self.input.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    pub fn int(&mut self) -> Result<i32> {
        let long = self.long()?;
        i32::try_from(long).map_err(|_| Error::corrupt(format!("{long} where an int of 32 bits is expected")))
    }

    pub fn boolean(&mut self) -> Result<bool> {
        match self.input.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::corrupt(format!("{other} where a boolean is expected"))),
        }
    }

    pub fn float(&mut self) -> Result<f32> {
        Ok(f32::from_le_bytes(self.input.array()?))
    }

    pub fn double(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.input.array()?))
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        self.input.take(len)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.long()?;
        self.input.take_signed(len)
    }

    /// Bytes of a fixed length, or of a written one.
    pub fn bytes_of(&mut self, size: Option<usize>) -> Result<&'a [u8]> {
        match size {
            Some(size) => self.take(size),
            None => self.bytes(),
        }
    }

    pub fn str(&mut self) -> Result<&'a str> {
        let start = self.input.position();
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::corrupt(format!("string at byte {start} is not UTF-8")))
    }

    /// The index of a union's branch or of an enum's symbol.
    #[inline]
    pub fn index(&mut self, of: usize) -> Result<usize> {
        let index = self.long()?;
        let found = usize::try_from(index).ok().filter(|i| *i < of);
        found.ok_or_else(|| Error::corrupt(format!("branch or symbol {index} of {of}")))
    }

    /// Items in the next block of an array or map; `None` at the end.
    pub fn block(&mut self) -> Result<Option<u64>> {
        match self.long()? {
            0 => Ok(None),
            count if count > 0 => Ok(Some(count.unsigned_abs())),
            count => {
                // Followed by the block's bytes, which only a reader that skips needs.
                self.long()?;
                Ok(Some(count.unsigned_abs()))
            }
        }
    }
}
