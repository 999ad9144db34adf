//! The parts of an HFile as bytes: blocks with their checksums, keys, Hadoop's numbers and Protocol Buffers'.

use super::block::Codec;
use super::checksum::crc32c;
use crate::error::{Error, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Bytes of a block's header.
pub const HEADER_LEN: usize = 33;
/// Bytes that one checksum covers.
pub const PER_CHECKSUM: usize = 16_384;
/// CRC32C, as HBase's writer has it: every reader of either generation knows it.
const CHECKSUM_CRC32C: u8 = 2;
/// A cell that sets a value.
const PUT: u8 = 4;

/// The codec's number in a trailer.
pub fn codec_id(codec: Codec) -> u64 {
    match codec {
        Codec::Gz => 1,
        Codec::None => 2,
    }
}

/// A payload as it is stored.
pub fn compress(payload: &[u8], codec: Codec) -> Result<Vec<u8>> {
    if codec == Codec::None {
        return Ok(payload.to_vec());
    }
    let mut gzip = GzEncoder::new(Vec::with_capacity(payload.len() / 4 + 32), Compression::default());
    let done = gzip.write_all(payload).and_then(|()| gzip.finish());
    done.map_err(|e| Error::internal(format!("gzip: {e}")).with_source(e))
}

/// Bytes of the checksums after a payload of `stored` bytes.
pub fn checksums_len(stored: usize) -> usize {
    (HEADER_LEN + stored).div_ceil(PER_CHECKSUM) * 4
}

/// A whole block: header, stored payload, checksums. `previous` is the offset of the block of that kind before it.
pub fn block(magic: &[u8; 8], stored: &[u8], plain_len: usize, previous: Option<u64>) -> Result<Vec<u8>> {
    let number = |len: usize| i32::try_from(len).map_err(|_| Error::invalid(format!("an HFile block of {len} bytes")));
    let sums = checksums_len(stored.len());
    let mut out = Vec::with_capacity(HEADER_LEN + stored.len() + sums);
    out.extend_from_slice(magic);
    out.extend_from_slice(&number(stored.len() + sums)?.to_be_bytes());
    out.extend_from_slice(&number(plain_len)?.to_be_bytes());
    out.extend_from_slice(&previous.map_or(-1, |at| at as i64).to_be_bytes());
    out.push(CHECKSUM_CRC32C);
    out.extend_from_slice(&(PER_CHECKSUM as i32).to_be_bytes());
    out.extend_from_slice(&number(HEADER_LEN + stored.len())?.to_be_bytes());
    out.extend_from_slice(stored);
    let checksums: Vec<u8> = out.chunks(PER_CHECKSUM).flat_map(|chunk| crc32c(chunk).to_be_bytes()).collect();
    out.extend_from_slice(&checksums);
    Ok(out)
}

/// The whole key of a cell: row, no family, the latest time, put.
pub fn cell_key(row: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(row.len() + 12);
    key.extend_from_slice(&(row.len() as i16).to_be_bytes());
    key.extend_from_slice(row);
    key.push(0);
    key.extend_from_slice(&i64::MAX.to_be_bytes());
    key.push(PUT);
    key
}

/// One entry of a root index.
pub fn index_entry(out: &mut Vec<u8>, offset: u64, len: u32, key: &[u8]) {
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    hadoop_vint(out, key.len());
    out.extend_from_slice(key);
}

/// Hadoop's number of variable length, of those that are not negative.
fn hadoop_vint(out: &mut Vec<u8>, value: usize) {
    if value <= 127 {
        return out.push(value as u8);
    }
    let bytes = (value as u64).to_be_bytes();
    let digits: Vec<u8> = bytes.into_iter().skip_while(|b| *b == 0).collect();
    out.push((-112 - digits.len() as i8) as u8);
    out.extend_from_slice(&digits);
}

/// Protocol Buffers' number of variable length.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A message after its length.
pub fn delimited(out: &mut Vec<u8>, message: &[u8]) {
    varint(out, message.len() as u64);
    out.extend_from_slice(message);
}

/// A numeric field of a message.
pub fn number_field(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A field of bytes, text or another message.
pub fn bytes_field(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    delimited(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length() {
        for (value, bytes) in
            [(0, &[0u8][..]), (127, &[127]), (128, &[0x8f, 0x80]), (130, &[0x8f, 0x82]), (300, &[0x8e, 1, 0x2c])]
        {
            let mut out = Vec::new();
            hadoop_vint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
        let mut out = Vec::new();
        varint(&mut out, 130);
        assert_eq!(out, [0x82, 0x01]);
    }
}
