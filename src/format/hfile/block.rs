//! One block: header, payload, checksums.
//!
//! ```text
//!  0  8  magic, names the kind
//!  8  4  bytes on disk without this header: payload and checksums
//! 12  4  bytes of the payload before compression
//! 16  8  offset of the previous block of the kind
//! 24  1  checksum type: 0 none, 1 CRC32, 2 CRC32C
//! 25  4  bytes covered by each checksum
//! 29  4  bytes on disk with this header, without checksums
//! 33     payload, compressed; then a checksum for each chunk of header and payload
//! ```

use super::checksum::crc32c;
use crate::error::{Error, Result};
use crate::format::input::Input;
use bytes::Bytes;
use std::io::Read;

const HEADER_LEN: usize = 33;
/// Largest payload accepted, bytes. Blocks are a megabyte, or one cell: the listing of a partition of millions of files.
const PAYLOAD_LEN_MAX: usize = 1 << 30;
/// Deflate cannot do better than this, so more is a lie that is found before memory is spent on it.
const DEFLATE_RATIO_MAX: usize = 1032;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data,
    RootIndex,
    IntermediateIndex,
    LeafIndex,
    FileInfo,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Kind::Data => b"DATABLK*",
            Kind::RootIndex => b"IDXROOT2",
            Kind::IntermediateIndex => b"IDXINTE2",
            Kind::LeafIndex => b"IDXLEAF2",
            Kind::FileInfo => b"FILEINF2",
        }
    }
}

/// How payloads are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// Each as a gzip member.
    Gz,
}

impl Codec {
    /// The codec of that number in a trailer.
    pub fn from_id(id: u64) -> Result<Codec> {
        let name = match id {
            1 => return Ok(Codec::Gz),
            2 => return Ok(Codec::None),
            0 => "LZO",
            3 => "SNAPPY",
            4 => "LZ4",
            5 => "BZIP2",
            6 => "ZSTD",
            other => return Err(Error::corrupt(format!("compression codec {other}"))),
        };
        Err(Error::unsupported(format!("compression codec {name}"))
            .with_hint("Hudi's own reader takes GZ and NONE only; set hoodie.hfile.compression.algorithm"))
    }
}

/// The payload of the block at the start of `bytes`, which may go on after it.
pub fn read_block(bytes: &Bytes, kind: Kind, codec: Codec) -> Result<Bytes> {
    let mut header = Input::new(bytes);
    let magic = header.take(8)?;
    let (on_disk, plain_len) = (header.i32()?, header.i32()?);
    header.take(8)?;
    let (checksum, per_checksum, with_header) = (header.u8()?, header.i32()?, header.i32()?);
    if magic != kind.magic() {
        return Err(Error::corrupt(format!("magic {} is not that of {kind:?}", String::from_utf8_lossy(magic))));
    }
    let sizes = (usize::try_from(on_disk), usize::try_from(plain_len), usize::try_from(with_header));
    let (Ok(on_disk), Ok(plain_len), Ok(with_header)) = sizes else {
        return Err(Error::corrupt(format!("sizes {on_disk}, {plain_len}, {with_header} in its header")));
    };
    let end = HEADER_LEN.saturating_add(on_disk);
    if end > bytes.len() || with_header < HEADER_LEN || with_header > end || plain_len > PAYLOAD_LEN_MAX {
        return Err(Error::corrupt(format!(
            "sizes {on_disk}, {plain_len}, {with_header} do not fit its {} bytes",
            bytes.len()
        )));
    }
    let covered = bytes.slice(..with_header);
    verify(&covered, &bytes.slice(with_header..end), checksum, per_checksum)?;
    let payload = covered.slice(HEADER_LEN..);
    match codec {
        Codec::None if payload.len() == plain_len => Ok(payload),
        Codec::None => Err(Error::corrupt(format!("{} payload bytes, the header says {plain_len}", payload.len()))),
        Codec::Gz => gunzip(&payload, plain_len),
    }
}

fn gunzip(payload: &[u8], plain_len: usize) -> Result<Bytes> {
    if plain_len / DEFLATE_RATIO_MAX > payload.len() {
        return Err(Error::corrupt(format!("{} bytes cannot inflate to {plain_len}", payload.len())));
    }
    // The metadata table's records compress five- to tenfold; what compresses better makes the buffer grow.
    let mut plain = Vec::with_capacity(plain_len.min(payload.len().saturating_mul(16)));
    let read = flate2::read::GzDecoder::new(payload).take(plain_len as u64 + 1).read_to_end(&mut plain);
    read.map_err(|e| Error::corrupt(format!("gzip: {e}")).with_source(e))?;
    if plain.len() != plain_len {
        return Err(Error::corrupt(format!("inflates to {} bytes, the header says {plain_len}", plain.len())));
    }
    Ok(plain.into())
}

fn verify(covered: &[u8], sums: &[u8], kind: u8, per_checksum: i32) -> Result<()> {
    let sum: fn(&[u8]) -> u32 = match kind {
        0 => return Ok(()),
        1 => crc32fast::hash,
        2 => crc32c,
        other => return Err(Error::corrupt(format!("checksum type {other}"))),
    };
    let per_checksum = usize::try_from(per_checksum).ok().filter(|p| *p > 0);
    let per_checksum = per_checksum.ok_or_else(|| Error::corrupt("a checksum for every 0 bytes"))?;
    let mut sums = Input::new(sums);
    for (i, chunk) in covered.chunks(per_checksum).enumerate() {
        let (found, written) = (sum(chunk), u32::from_be_bytes(sums.array()?));
        if found != written {
            return Err(Error::corrupt(format!("checksum of chunk {i} is {found:08x}, written is {written:08x}")));
        }
    }
    Ok(())
}
