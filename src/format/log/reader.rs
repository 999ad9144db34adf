//! [`LogReader`]: from block to block, and past what a dying writer left.
//!
//! A block is whole if its length leads to an equal length at its end and the next block or the end of the file follows.
//! What is not whole is reported as one [`BlockKind::Corrupt`] block up to the next magic. A block that is whole and yet
//! cannot be understood is an error, for nobody knows what it would have changed.

use super::{BlockKind, HeaderKey, LogBlock, MAGIC};
use crate::error::{Error, ErrorKind, Result};
use crate::format::input::Input;
use crate::format::source::ByteSource;
use bytes::Bytes;

const MAGIC_LEN: u64 = MAGIC.len() as u64;
/// The least that L can count: version, kind, two empty maps, C and T.
const BLOCK_LEN_MIN: u64 = 4 + 4 + 4 + 8 + 4 + 8;
/// Bytes read at a time. The metadata table's log files mostly fit in one.
const WINDOW_LEN: u64 = 128 << 10;
/// Bytes read at a time to find the next magic, as Java does.
const SCAN_LEN: u64 = 1 << 20;
/// Largest header accepted, bytes: it holds a schema, and positions of the block's records.
const HEADER_LEN_MAX: u64 = 64 << 20;

/// Corrupt blocks of one file that are passed over. Each stands for a writer that died; a file made of nothing else could
/// cost a search each.
const CORRUPT_MAX: u32 = 1000;

/// Walks over the blocks of a log file.
#[derive(Debug)]
pub struct LogReader<S> {
    source: S,
    at: u64,
    window: Bytes,
    window_at: u64,
    corrupt: u32,
}

impl<S: ByteSource> LogReader<S> {
    /// At the start of the file.
    pub fn new(source: S) -> Self {
        LogReader { source, at: 0, window: Bytes::new(), window_at: 0, corrupt: 0 }
    }

    /// The next block; `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<LogBlock>> {
        let offset = self.at;
        if self.left(offset) < MAGIC_LEN {
            return Ok(None);
        }
        if self.read(offset, MAGIC_LEN)?.as_ref() != MAGIC {
            return Err(Error::corrupt(format!("no log block begins at byte {offset}")));
        }
        let block = match self.whole_len(offset)? {
            Some(len) => self.block(offset, len).map_err(|e| e.context(format!("log block at byte {offset}")))?,
            None => self.corrupt_block(offset)?,
        };
        self.at = offset + block.len;
        Ok(Some(block))
    }

    /// All blocks to the end.
    pub fn blocks(&mut self) -> Result<Vec<LogBlock>> {
        let mut blocks = Vec::new();
        while let Some(block) = self.next_block()? {
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// The content of a block of this file.
    pub fn content(&mut self, block: &LogBlock) -> Result<Bytes> {
        self.read(block.content_offset, block.content_len)
    }

    /// The length of the block at `offset`, magic included, if it is whole.
    fn whole_len(&mut self, offset: u64) -> Result<Option<u64>> {
        let after_len = offset + MAGIC_LEN + 8;
        if self.left(offset + MAGIC_LEN) < 8 {
            return Ok(None);
        }
        let len = self.number(offset + MAGIC_LEN)?;
        if len < BLOCK_LEN_MIN || len > self.left(after_len) {
            return Ok(None);
        }
        let end = after_len + len;
        if self.number(end - 8)? != len + MAGIC_LEN {
            return Ok(None);
        }
        // A tail too short for a magic counts as the end.
        let whole = self.left(end) < MAGIC_LEN || self.read(end, MAGIC_LEN)?.as_ref() == MAGIC;
        Ok(whole.then_some(end - offset))
    }

    fn block(&mut self, offset: u64, len: u64) -> Result<LogBlock> {
        let (start, end) = (offset + MAGIC_LEN + 8, offset + len);
        // The header is not known to be short, so that it is read in growing pieces.
        let mut piece = WINDOW_LEN.min(end - start);
        let (kind, header, header_len) = loop {
            let bytes = self.read(start, piece)?;
            match block_head(&bytes) {
                Err(e) if e.kind() == ErrorKind::Corrupt && piece < end - start && piece < HEADER_LEN_MAX => {
                    piece = (piece * 8).min(end - start);
                }
                other => break other?,
            }
        };
        let content_offset = start + header_len + 8;
        let content_len = self.number(content_offset - 8)?;
        let footer_at = content_offset.checked_add(content_len).filter(|at| *at <= end - 8);
        let footer_at = footer_at.ok_or_else(|| Error::corrupt(format!("content of {content_len} bytes")))?;
        let footer_len = end - 8 - footer_at;
        if footer_len != 4 || self.read(footer_at, 4)?.as_ref() != [0; 4] {
            return Err(Error::corrupt(format!("a footer of {footer_len} bytes, which no version of Hudi writes")));
        }
        Ok(LogBlock { kind, offset, len, content_offset, content_len, header })
    }

    /// Everything from the magic at `offset` up to the next one.
    fn corrupt_block(&mut self, offset: u64) -> Result<LogBlock> {
        self.corrupt += 1;
        if self.corrupt > CORRUPT_MAX {
            return Err(Error::corrupt(format!(
                "more than {CORRUPT_MAX} damaged log blocks, the next at byte {offset}"
            )));
        }
        let content_offset = offset + MAGIC_LEN;
        let mut at = content_offset;
        let end = loop {
            let len = SCAN_LEN.min(self.left(at));
            let bytes = self.source.read(at, len)?;
            if let Some(found) = find(&bytes, MAGIC) {
                break at + found as u64;
            }
            if len < SCAN_LEN {
                break self.source.size();
            }
            // A magic may lie across two pieces.
            at += len - (MAGIC_LEN - 1);
        };
        let (len, content_len) = (end - offset, end - content_offset);
        Ok(LogBlock { kind: BlockKind::Corrupt, offset, len, content_offset, content_len, header: Vec::new() })
    }

    fn left(&self, at: u64) -> u64 {
        self.source.size().saturating_sub(at)
    }

    fn number(&mut self, at: u64) -> Result<u64> {
        let number = Input::new(&self.read(at, 8)?).i64()?;
        // A negative length is longer than any file, which is how it is refused.
        Ok(u64::try_from(number).unwrap_or(u64::MAX))
    }

    /// Bytes through a window, so that a small file is read once.
    fn read(&mut self, at: u64, len: u64) -> Result<Bytes> {
        if let Some(start) = at.checked_sub(self.window_at)
            && start.checked_add(len).is_some_and(|end| end <= self.window.len() as u64)
        {
            return Ok(self.window.slice(start as usize..(start + len) as usize));
        }
        if len > WINDOW_LEN {
            return self.source.read(at, len);
        }
        self.window = self.source.read(at, WINDOW_LEN.min(self.left(at)).max(len))?;
        self.window_at = at;
        Ok(self.window.slice(..len as usize))
    }
}

/// Kind, header map, and the length of both and the version before them.
type Head = (BlockKind, Vec<(HeaderKey, String)>, u64);

fn block_head(bytes: &[u8]) -> Result<Head> {
    let mut input = Input::new(bytes);
    match input.i32()? {
        1 => {}
        0 => {
            return Err(Error::unsupported("log format version 0")
                .with_hint("compact the table with the version of Hudi that wrote it"));
        }
        other => return Err(Error::unsupported(format!("log format version {other}"))),
    }
    let kind = BlockKind::from_ordinal(input.i32()?)?;
    let count = input.i32()?;
    let mut header = Vec::new();
    for _ in 0..count {
        let (key, len) = (input.i32()?, input.i32()?);
        let value = std::str::from_utf8(input.take_signed(i64::from(len))?);
        let value = value.map_err(|_| Error::corrupt(format!("header value {key} is not UTF-8")))?;
        header.push((HeaderKey::from_ordinal(key)?, value.to_owned()));
    }
    Ok((kind, header, input.position() as u64))
}

fn find(bytes: &[u8], needle: &[u8; 6]) -> Option<usize> {
    let (first, rest) = needle.split_first()?;
    let mut from = 0;
    loop {
        let here = bytes.get(from..)?;
        let at = from + here.iter().position(|b| b == first)?;
        if bytes.get(at + 1..)?.starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}
