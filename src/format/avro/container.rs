//! [`Container`]: Avro's object container file.
//!
//! ```text
//! "Obj" 01 | map<bytes> metadata: avro.schema, avro.codec | 16-byte sync marker
//! then blocks: long records | long bytes | the records, compressed together | sync marker
//! ```

use super::cursor::Cursor;
use super::encoder::Encoder;
use super::schema::Schema;
use super::value::Value;
use crate::error::{Error, Result};
use crate::format::input::Input;
use md5::Digest;
use std::borrow::Cow;
use std::io::Read;

const MAGIC: &[u8; 4] = b"Obj\x01";
const SYNC_LEN: usize = 16;
/// Largest decompressed block accepted, bytes. Hudi writes one record to a file; a commit of a million files is about this.
const BLOCK_LEN_MAX: u64 = 1 << 30;

/// A container file whose header has been read.
#[derive(Debug)]
pub struct Container<'a> {
    schema: Schema,
    text: &'a str,
    deflate: bool,
    sync: &'a [u8],
    blocks: Input<'a>,
}

impl<'a> Container<'a> {
    /// True if `bytes` begin as a container file does; Hudi's timeline mixes them with JSON.
    pub fn is_container(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads the header.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Input::new(bytes);
        if input.take(MAGIC.len()).ok() != Some(MAGIC) {
            return Err(Error::corrupt("not an avro container file: it does not begin with \"Obj\" 01"));
        }
        let (mut schema, mut codec) = (None, None);
        let header = Schema::parse(r#"{"type": "map", "values": "bytes"}"#)?;
        let mut cursor = Cursor::new(&header, input.rest());
        cursor
            .map(|key, value| {
                match key {
                    "avro.schema" => schema = value.bytes()?,
                    "avro.codec" => codec = value.bytes()?,
                    _ => {}
                }
                Ok(())
            })
            .map_err(|e| e.context("avro container header"))?;
        let header_len = MAGIC.len() + cursor.position();
        let schema = schema.ok_or_else(|| Error::corrupt("avro container without a schema"))?;
        let schema = std::str::from_utf8(schema).map_err(|_| Error::corrupt("avro schema is not UTF-8"))?;
        let mut blocks = Input::new(bytes);
        blocks.take(header_len)?;
        let sync = blocks.take(SYNC_LEN)?;
        Ok(Container { schema: Schema::parse(schema)?, text: schema, deflate: is_deflate(codec)?, sync, blocks })
    }

    /// The schema that the records were written with.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The schema's JSON text, as it stands in the file.
    pub fn schema_text(&self) -> &'a str {
        self.text
    }

    /// Visits every record in order.
    pub fn records(&self, mut visit: impl for<'b> FnMut(&mut Cursor<'_, 'b>) -> Result<()>) -> Result<()> {
        let mut blocks = self.blocks;
        while !blocks.is_empty() {
            let start = blocks.position();
            self.block(&mut blocks, &mut visit).map_err(|e| e.context(format!("avro block at byte {start}")))?;
        }
        Ok(())
    }

    /// The first record as a tree; `None` in a file without records.
    pub fn first_value(&self) -> Result<Option<Value>> {
        let mut first = None;
        self.records(|cursor| {
            if first.is_none() {
                first = Some(cursor.value()?);
            }
            Ok(())
        })?;
        Ok(first)
    }

    fn block(
        &self,
        blocks: &mut Input<'a>,
        visit: &mut impl for<'b> FnMut(&mut Cursor<'_, 'b>) -> Result<()>,
    ) -> Result<()> {
        let (count, size) = (zigzag(blocks)?, zigzag(blocks)?);
        let written = blocks.take_signed(size)?;
        if blocks.take(SYNC_LEN)? != self.sync {
            return Err(Error::corrupt("the sync marker after the block is not the header's"));
        }
        let plain = if self.deflate { Cow::Owned(inflate(written)?) } else { Cow::Borrowed(written) };
        if count < 0 {
            return Err(Error::corrupt(format!("{count} records")));
        }
        let mut cursor = Cursor::at_end(&self.schema, &plain);
        for _ in 0..count {
            cursor.next_root()?;
            visit(&mut cursor)?;
        }
        cursor.finish()
    }
}

/// A container file of records that are encoded already by the schema of that text, uncompressed and in one block.
pub fn container_file(schema_text: &str, records: &[Vec<u8>]) -> Vec<u8> {
    of_records(schema_text, records.len(), &records.concat())
}

/// [`container_file`] of `count` records that lie end to end.
pub(super) fn of_records(schema_text: &str, count: usize, records: &[u8]) -> Vec<u8> {
    // The marker must not occur in the data by chance: a digest of them is as good as a random number, and repeatable.
    let sync = md5::Md5::new().chain_update(schema_text).chain_update(records).finalize();
    let mut out = Encoder::new();
    out.raw(MAGIC);
    out.block(1);
    out.str("avro.schema");
    out.str(schema_text);
    out.end_blocks();
    out.raw(&sync);
    if count > 0 {
        out.long(count as i64);
        out.bytes(records);
        out.raw(&sync);
    }
    out.into_bytes()
}

fn zigzag(input: &mut Input<'_>) -> Result<i64> {
    let raw = input.varint()?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn is_deflate(codec: Option<&[u8]>) -> Result<bool> {
    match codec.map(String::from_utf8_lossy).as_deref() {
        None | Some("null") => Ok(false),
        Some("deflate") => Ok(true),
        Some(other) => Err(Error::unsupported(format!("avro codec {other:?}"))
            .with_hint("Hudi writes its timeline without compression; this build reads null and deflate")),
    }
}

/// Raw deflate. The output grows as it comes, so that a length is never believed.
fn inflate(written: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    let read = flate2::read::DeflateDecoder::new(written).take(BLOCK_LEN_MAX + 1).read_to_end(&mut plain);
    read.map_err(|e| Error::corrupt(format!("deflate: {e}")).with_source(e))?;
    if plain.len() as u64 > BLOCK_LEN_MAX {
        return Err(Error::corrupt(format!("a block inflates to more than {BLOCK_LEN_MAX} bytes")));
    }
    Ok(plain)
}
