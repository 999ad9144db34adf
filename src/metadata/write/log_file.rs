//! Log files of the metadata table: HFile blocks of records in the order of their keys, and one block of deleted keys.
//!
//! A first load may bring as many records as the table has rows, so they are cut into several blocks, each of which is built in
//! memory and written as a whole, because a block's frame states its length first.

use super::plan::{Placed, REMOVED, Row, Rows};
use super::record::Encoder;
use super::schema::RecordFormat;
use crate::error::{Error, Result};
use crate::format::hfile::{Codec, HFileSettings, HFileWriter};
use crate::format::instant::InstantTime;
use crate::format::log::{BlockKind, DeleteContent, DeleteOrder, HeaderKey, write_block};
use crate::metadata::RECORD_INDEX;
use crate::metadata::write::keys::shard_of;
use std::io::Write;

/// Bytes of keys and values after which a block ends.
const BLOCK_LEN: usize = 32 << 20;
/// Bytes of cells in a block of an HFile of the record index. Lookups are of keys that are spread over all of it, and inflating
/// blocks would cost most of their time: small ones, and not compressed.
const INDEX_BLOCK_LEN: usize = 8 << 10;

/// How HFiles of a partition are made.
pub(super) fn settings(partition: &str, format: RecordFormat) -> HFileSettings {
    let settings = HFileSettings::log_block(format.text());
    match partition {
        RECORD_INDEX => HFileSettings { codec: Codec::None, block_len: INDEX_BLOCK_LEN, ..settings },
        _ => settings,
    }
}

/// The records of one file group, sorted, one a key.
pub(super) enum Shard<'a> {
    Encoded(Vec<&'a Row>),
    Placed(&'a Placed<'a>, Vec<(&'a str, u32)>),
}

impl<'a> Shard<'a> {
    /// Divides records among the file groups that their keys belong to.
    pub fn divide(rows: &'a Rows<'a>, shards: usize) -> Vec<Shard<'a>> {
        match rows {
            Rows::Encoded(rows) => {
                let mut divided: Vec<Vec<&Row>> = vec![Vec::new(); shards];
                for row in rows {
                    divided.get_mut(shard_of(&row.0, shards)).into_iter().for_each(|shard| shard.push(row));
                }
                let sorted = |mut rows: Vec<&'a Row>| {
                    // Stable: of two records of one key the later counts.
                    rows.sort_by(|a, b| a.0.cmp(&b.0));
                    rows.dedup_by(|later, kept| {
                        let same = later.0 == kept.0;
                        if same {
                            *kept = *later;
                        }
                        same
                    });
                    Shard::Encoded(rows)
                };
                divided.into_iter().map(sorted).collect()
            }
            Rows::Placed(placed) => {
                let mut divided: Vec<Vec<(&str, u32)>> = vec![Vec::new(); shards];
                for key in &placed.keys {
                    divided.get_mut(shard_of(key.0, shards)).into_iter().for_each(|shard| shard.push(*key));
                }
                let sorted = |mut keys: Vec<(&'a str, u32)>| {
                    keys.sort_unstable();
                    // A removal sorts after all places, and does not count where there is one.
                    keys.dedup_by(|later, kept| {
                        let same = later.0 == kept.0;
                        if same && later.1 != REMOVED {
                            *kept = *later;
                        }
                        same
                    });
                    Shard::Placed(placed, keys)
                };
                divided.into_iter().map(sorted).collect()
            }
        }
    }

    /// True without records.
    pub fn is_empty(&self) -> bool {
        match self {
            Shard::Encoded(rows) => rows.is_empty(),
            Shard::Placed(_, keys) => keys.is_empty(),
        }
    }

    /// Numbers of records that are put and that are deleted.
    pub fn counts(&self) -> (u64, u64) {
        let deletes = match self {
            Shard::Encoded(rows) => rows.iter().filter(|row| row.1.is_none()).count(),
            Shard::Placed(_, keys) => keys.iter().filter(|key| key.1 == REMOVED).count(),
        };
        let all = match self {
            Shard::Encoded(rows) => rows.len(),
            Shard::Placed(_, keys) => keys.len(),
        };
        ((all - deletes) as u64, deletes as u64)
    }

    /// Visits the records in order; `None` for those that are deleted.
    pub fn visit(&self, encoder: Encoder, mut visit: impl FnMut(&str, Option<&[u8]>) -> Result<()>) -> Result<()> {
        match self {
            Shard::Encoded(rows) => rows.iter().try_for_each(|row| visit(&row.0, row.1.as_deref())),
            Shard::Placed(placed, keys) => keys.iter().try_for_each(|(key, number)| match number {
                &REMOVED => visit(key, None),
                number => {
                    let placement = placed.placements.get(*number as usize);
                    let placement = placement.ok_or_else(|| Error::internal("a key without a place"))?;
                    visit(key, Some(&encoder.placement(placement)))
                }
            }),
        }
    }
}

/// Writes a log file's blocks; answers its bytes. Without records it is one block that deletes nothing.
pub(super) fn write_log(
    out: &mut dyn Write,
    partition: &str,
    instant: InstantTime,
    format: RecordFormat,
    shard: &Shard<'_>,
) -> Result<u64> {
    let header = [(HeaderKey::InstantTime, instant.as_str()), (HeaderKey::Schema, format.text())];
    let mut written = 0;
    let mut block = HFileWriter::new(Vec::new(), settings(partition, format));
    let (mut held, mut deletes) = (0, DeleteContent::default());
    shard.visit(Encoder::new(format), |key, value| {
        let Some(value) = value else {
            deletes.push(key, partition, &DeleteOrder::Int(0));
            return Ok(());
        };
        block.append(key.as_bytes(), value)?;
        held += key.len() + value.len();
        if held >= BLOCK_LEN {
            let full = std::mem::replace(&mut block, HFileWriter::new(Vec::new(), settings(partition, format)));
            written += write_block(out, BlockKind::HFile, &header, &full.finish()?.0)?;
            held = 0;
        }
        Ok(())
    })?;
    if block.cells() > 0 {
        written += write_block(out, BlockKind::HFile, &header, &block.finish()?.0)?;
    }
    if !deletes.is_empty() {
        written += write_block(out, BlockKind::Delete, &header, &deletes.finish()?)?;
    } else if written == 0 {
        let header = [(HeaderKey::InstantTime, instant.as_str())];
        written += write_block(out, BlockKind::Delete, &header, &deletes.finish()?)?;
    }
    Ok(written)
}
