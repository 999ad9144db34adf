//! Log files: blocks of changes to a file group, one after another (docs/format.md, "Log files").
//!
//! ```text
//! "#HUDI#" | i64 L | i32 version | i32 kind | header map | i64 C | content (C bytes) | footer map | i64 T
//!                   \_______________ L bytes, up to the end of the block ________________________/
//! T = L + 6
//! map: i32 entries, each: i32 key | i32 length | text
//! ```
//!
//! [`LogReader`] walks a file block by block without reading their contents, which may be hundreds of megabytes.
//! [`select`] says which of a file slice's blocks count, and in which order. The `*_records` functions open contents.

mod content;
mod reader;
mod select;
mod write;

#[cfg(test)]
mod tests;

pub use content::{avro_records, delete_keys, deletes};
pub use reader::LogReader;
pub use select::{BlockHead, select};
pub use write::{AvroContent, DeleteContent, DeleteOrder, rollback_block, write_block};

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;

/// What every block begins with.
const MAGIC: &[u8; 6] = b"#HUDI#";

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// An order, such as to roll back an instant.
    Command,
    /// Keys that are deleted.
    Delete,
    /// Not a block: bytes that a writer left when it died, found by the reader.
    Corrupt,
    /// Avro records.
    Avro,
    /// An HFile of Avro records.
    HFile,
    /// A Parquet file.
    Parquet,
    /// Avro records of change capture, never part of a merge.
    Cdc,
}

impl BlockKind {
    fn ordinal(self) -> i32 {
        self as i32
    }

    fn from_ordinal(ordinal: i32) -> Result<BlockKind> {
        Ok(match ordinal {
            0 => BlockKind::Command,
            1 => BlockKind::Delete,
            2 => BlockKind::Corrupt,
            3 => BlockKind::Avro,
            4 => BlockKind::HFile,
            5 => BlockKind::Parquet,
            6 => BlockKind::Cdc,
            other => return Err(Error::unsupported(format!("log block of kind {other}"))),
        })
    }
}

/// What a block's header map says, by the key's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderKey {
    /// The instant that wrote the block.
    InstantTime = 0,
    /// In a command: the instant that it is about.
    TargetInstantTime = 1,
    /// The records' Avro schema.
    Schema = 2,
    /// In a command: which; `0` rolls back.
    CommandBlockType = 3,
    /// The instants whose blocks this one replaces.
    CompactedBlockTimes = 4,
    /// Positions of the records in the base file.
    RecordPositions = 5,
    /// A sequence number that 0.14.0 wrote.
    BlockIdentifier = 6,
    /// The records hold some of the columns only.
    IsPartial = 7,
    /// The base file that the positions are about.
    BaseFileInstantTimeOfRecordPositions = 8,
}

impl HeaderKey {
    const ALL: [HeaderKey; 9] = [
        HeaderKey::InstantTime,
        HeaderKey::TargetInstantTime,
        HeaderKey::Schema,
        HeaderKey::CommandBlockType,
        HeaderKey::CompactedBlockTimes,
        HeaderKey::RecordPositions,
        HeaderKey::BlockIdentifier,
        HeaderKey::IsPartial,
        HeaderKey::BaseFileInstantTimeOfRecordPositions,
    ];

    fn from_ordinal(ordinal: i32) -> Result<HeaderKey> {
        let found = usize::try_from(ordinal).ok().and_then(|o| HeaderKey::ALL.get(o));
        found.copied().ok_or_else(|| Error::unsupported(format!("log block header key {ordinal}")))
    }
}

/// A block, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBlock {
    /// What it holds.
    pub kind: BlockKind,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes, from its magic to the next block.
    pub len: u64,
    /// The content's first byte in the file.
    pub content_offset: u64,
    /// The content's bytes.
    pub content_len: u64,
    header: Vec<(HeaderKey, String)>,
}

impl LogBlock {
    /// A value of the header map.
    pub fn header(&self, key: HeaderKey) -> Option<&str> {
        self.header.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| v.as_str())
    }

    /// The instant that wrote the block. Every block but a corrupt one has it.
    pub fn instant(&self) -> Result<InstantTime> {
        self.instant_of(HeaderKey::InstantTime)
    }

    /// What [`select`] needs to know.
    pub fn head(&self) -> Result<BlockHead> {
        let (mut instant, mut target, mut compacted) = (InstantTime::zero(), None, Vec::new());
        if self.kind != BlockKind::Corrupt {
            instant = self.instant()?;
        }
        if self.kind == BlockKind::Command {
            match self.header(HeaderKey::CommandBlockType) {
                Some("0") => target = Some(self.instant_of(HeaderKey::TargetInstantTime)?),
                other => return Err(Error::unsupported(format!("log command {other:?}"))),
            }
        }
        if let Some(times) = self.header(HeaderKey::CompactedBlockTimes) {
            compacted = times.split(',').map(|t| t.trim().parse()).collect::<Result<_>>()?;
        }
        Ok(BlockHead { kind: self.kind, instant, target, compacted })
    }

    fn instant_of(&self, key: HeaderKey) -> Result<InstantTime> {
        let text = self.header(key).unwrap_or_default();
        InstantTime::parse(text)
            .ok_or_else(|| Error::corrupt(format!("{text:?} is the {key:?} of the log block at byte {}", self.offset)))
    }
}
