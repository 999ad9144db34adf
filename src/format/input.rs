//! A cursor over bytes in memory that cannot run past their end: the base of every decoder in `format`.
//!
//! Nothing here allocates. What is missing is `Corrupt`, with the offset at which it was missed.

use crate::error::{Error, Result};

/// Bytes and a place in them. Integers are big-endian unless a name says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Input<'a> {
    /// The bytes from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, pos: 0 }
    }

    /// Bytes consumed so far.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Bytes not consumed yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.pos)
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.pos.checked_add(len);
        match end.and_then(|end| self.bytes.get(self.pos..end)) {
            Some(found) => {
                self.pos += len;
                Ok(found)
            }
            None => Err(Error::corrupt(format!(
                "{len} bytes are announced at byte {}, {} are left",
                self.pos,
                self.remaining()
            ))),
        }
    }

    /// The next `len` bytes, where `len` was read as a signed number.
    pub fn take_signed(&mut self, len: i64) -> Result<&'a [u8]> {
        match usize::try_from(len) {
            Ok(len) => self.take(len),
            Err(_) => Err(Error::corrupt(format!("length {len} at byte {}", self.pos))),
        }
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        self.pos = self.bytes.len();
        rest
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Two bytes, signed.
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// Four bytes, signed.
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A base-128 number, low groups first, of at most ten bytes: Protocol Buffers' `varint`, and Avro's before zigzag.
    pub fn varint(&mut self) -> Result<u64> {
        let start = self.pos;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                break;
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::corrupt(format!("a number at byte {start} does not fit 64 bits")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_big_endian_and_stops_at_the_end() {
        let mut input = Input::new(&[0, 1, 0xff, 0xff, 0xff, 0xfe, 7]);
        assert_eq!(input.i16().unwrap(), 1);
        assert_eq!(input.i32().unwrap(), -2);
        assert!(input.i16().is_err());
        assert_eq!(input.position(), 6, "a failed read consumes nothing");
        assert_eq!(input.rest(), [7]);
        assert!(input.is_empty());
    }

    #[test]
    fn lengths_that_overflow_are_refused() {
        let mut input = Input::new(&[0; 8]);
        assert!(input.take(usize::MAX).is_err());
        assert!(input.take_signed(-1).is_err());
        assert!(input.take_signed(i64::MAX).is_err());
    }

    #[test]
    fn varints_take_at_most_ten_bytes() {
        let mut max = vec![0xff; 9];
        max.push(1);
        assert_eq!(Input::new(&max).varint().unwrap(), u64::MAX);
        assert_eq!(Input::new(&[0x82, 0x01]).varint().unwrap(), 130);
        assert!(Input::new(&[0xff; 11]).varint().is_err());
        assert!(Input::new(&[0x80]).varint().is_err());
    }
}
