//! The trailer: the last 4096 bytes of an HFile.
//!
//! ```text
//! "TRABLK\"$" | varint length | TrailerProto | zeros | u8 minor version, u24 major version (3)
//! ```

use super::block::Codec;
use super::info::{ProtoField, proto_fields};
use crate::error::{Error, Result};
use crate::format::input::Input;

/// Length in bytes.
pub const LEN: u64 = 4096;
pub const MAGIC: &[u8; 8] = b"TRABLK\"$";
const MAJOR: u32 = 3;
/// HBase's index grows a level for each factor of some thousands; beyond this a file is not one of Hudi's.
const LEVELS_MAX: u32 = 8;

/// The trailer's fields that a reader needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Trailer {
    /// Start of the file information block.
    pub file_info_offset: u64,
    /// Start of the root index, at which the load-on-open section begins.
    pub load_on_open_offset: u64,
    /// Entries of the root index.
    pub data_index_count: u32,
    /// Cells of the file.
    pub entry_count: u64,
    /// Levels of the data index, at least 1.
    pub levels: u32,
    /// How payloads are compressed.
    pub codec: Codec,
    /// 0 of Hudi's own writer, 3 of HBase's.
    pub minor_version: u8,
}

impl Trailer {
    /// Parses the trailer's 4096 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Trailer> {
        let mut input = Input::new(bytes);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(Error::corrupt("no trailer: the magic is not TRABLK\"$"));
        }
        let len = input.varint()?;
        let body = input.take_signed(i64::try_from(len).unwrap_or(-1))?;
        let version = bytes.last_chunk::<4>().map(|v| u32::from_be_bytes(*v)).unwrap_or_default();
        let [minor_version, ..] = version.to_be_bytes();
        if version & 0x00ff_ffff != MAJOR {
            return Err(Error::unsupported(format!("major version {} is not {MAJOR}", version & 0x00ff_ffff)));
        }
        let mut fields = [0u64; 13];
        for field in proto_fields(body) {
            if let (number, ProtoField::Number(value)) = field?
                && let Some(slot) = usize::try_from(number).ok().and_then(|n| fields.get_mut(n))
            {
                *slot = value;
            }
        }
        let [_, file_info_offset, load_on_open_offset, _, _, index_count, _, entry_count, levels, _, _, _, codec] =
            fields;
        let levels = levels.max(1) as u32;
        if levels > LEVELS_MAX {
            return Err(Error::corrupt(format!("{levels} index levels")));
        }
        let data_index_count =
            u32::try_from(index_count).map_err(|_| Error::corrupt(format!("{index_count} index entries")))?;
        let codec = Codec::from_id(codec)?;
        Ok(Trailer {
            file_info_offset,
            load_on_open_offset,
            data_index_count,
            entry_count,
            levels,
            codec,
            minor_version,
        })
    }
}
