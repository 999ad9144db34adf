//! The file information block, and the little of Protocol Buffers that HFile uses.
//!
//! ```text
//! "PBUF" | varint length | InfoProto { repeated BytesBytesPair map_entry = 1 { bytes first = 1; bytes second = 2 } }
//! ```

use crate::error::{Error, Result};
use crate::format::input::Input;
use bytes::Bytes;
use std::collections::HashMap;

const MAGIC: &[u8; 4] = b"PBUF";

/// Keys and values about the file.
#[derive(Debug)]
pub struct FileInfo {
    entries: HashMap<Bytes, Bytes>,
    /// Says that each cell is followed by an MVCC version.
    pub cells_have_versions: bool,
}

impl FileInfo {
    /// Parses the block's payload.
    pub fn parse(payload: &Bytes) -> Result<FileInfo> {
        let mut input = Input::new(payload);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(Error::unsupported("written before HFile version 3 settled on PBUF"));
        }
        let len = input.varint()?;
        let body = input.take_signed(i64::try_from(len).unwrap_or(-1))?;
        let mut entries = HashMap::new();
        for field in proto_fields(body) {
            if let (1, ProtoField::Bytes(pair)) = field? {
                let (mut first, mut second): (&[u8], &[u8]) = (&[], &[]);
                for part in proto_fields(pair) {
                    match part? {
                        (1, ProtoField::Bytes(bytes)) => first = bytes,
                        (2, ProtoField::Bytes(bytes)) => second = bytes,
                        _ => {}
                    }
                }
                entries.insert(Bytes::copy_from_slice(first), Bytes::copy_from_slice(second));
            }
        }
        if entries.contains_key(b"hfile.MAX_TAGS_LEN".as_slice()) {
            return Err(Error::unsupported("cells with tags, which Hudi does not write"));
        }
        let version = entries.get(b"KEY_VALUE_VERSION".as_slice());
        let cells_have_versions = version.is_some_and(|v| v.as_ref() == [0, 0, 0, 1]);
        Ok(FileInfo { entries, cells_have_versions })
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.entries.get(key)
    }
}

/// A field of a message, as far as its wire type tells.
#[derive(Debug, PartialEq)]
pub enum ProtoField<'a> {
    /// A varint, or eight or four little-endian bytes.
    Number(u64),
    /// Bytes, text or a message.
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers. Ends after the first failure.
pub fn proto_fields(message: &[u8]) -> impl Iterator<Item = Result<(u64, ProtoField<'_>)>> {
    let mut input = Some(Input::new(message));
    std::iter::from_fn(move || {
        let at = input.as_mut().filter(|i| !i.is_empty())?;
        let field = proto_field(at);
        if field.is_err() {
            input = None;
        }
        Some(field)
    })
}

fn proto_field<'a>(input: &mut Input<'a>) -> Result<(u64, ProtoField<'a>)> {
    let tag = input.varint()?;
    let field = match tag & 7 {
        0 => ProtoField::Number(input.varint()?),
        1 => ProtoField::Number(u64::from_le_bytes(input.array()?)),
        2 => {
            let len = input.varint()?;
            ProtoField::Bytes(input.take_signed(i64::try_from(len).unwrap_or(-1))?)
        }
        5 => ProtoField::Number(u64::from(u32::from_le_bytes(input.array()?))),
        other => return Err(Error::corrupt(format!("protobuf wire type {other}"))),
    };
    Ok((tag >> 3, field))
}
