//! [`Changes`]: the records of a slice's log files, by key, unopened.
//!
//! Values stay where they were decompressed to, so that a key costs some tens of bytes beside its value. They are decoded
//! when somebody asks for the key.

use super::slice::LogFile;
use super::source::FileSource;
use super::valid::ValidInstants;
use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Schema};
use crate::format::hfile::HFile;
use crate::format::instant::InstantTime;
use crate::format::log::{BlockHead, BlockKind, HeaderKey, LogBlock, LogReader, avro_records, delete_keys, select};
use crate::format::source::ByteSource;
use crate::storage::{Storage, TablePath};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Largest log block accepted, bytes: Java keeps lengths in 32 bits.
const CONTENT_LEN_MAX: u64 = 2 << 30;

/// Log files up to this size are read whole, bytes: they mostly hold one commit's names.
const SMALL_LEN_MAX: u64 = 4 << 20;
/// Bytes of whole log files that are held at once; what is beyond is read by range.
const KEPT_LEN_MAX: u64 = 128 << 20;

/// Bytes of records that are held, at most: a log file of some megabytes can be made to inflate to gigabytes.
const HELD_LEN_MAX: usize = 4 << 30;

pub(super) type Source = Box<dyn ByteSource + Send + Sync>;

/// What log files say about the keys that they name.
#[derive(Debug, Default)]
pub(super) struct Changes {
    by_key: HashMap<Box<[u8]>, Vec<Change>>,
    schemas: Schemas,
    bytes: usize,
    /// Blocks that a dying writer left, a line each.
    pub warnings: Vec<String>,
    /// The instants that blocks are of, or stand in for, whether they count or not.
    pub instants: HashSet<InstantTime>,
}

/// One change of one key.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A record and the schema that it was written with.
    Put(Bytes, Arc<Schema>),
    /// The record is deleted.
    Delete,
}

/// Schemas by their text: a slice's blocks nearly always share one.
#[derive(Debug, Default)]
struct Schemas(Vec<(String, Arc<Schema>)>);

/// A log file of the slice.
pub(super) struct File<'p> {
    pub path: &'p TablePath,
    size: u64,
    /// The whole file, where it is small enough to be kept until its blocks are selected.
    bytes: Option<Bytes>,
}

impl Changes {
    /// Reads log files, given in the order of their slice.
    pub fn read(storage: &dyn Storage, logs: &[LogFile], valid: &ValidInstants<'_>) -> Result<Changes> {
        let selected = Selected::read(storage, logs, valid)?;
        let mut changes = Changes { instants: selected.instants, warnings: selected.warnings, ..Changes::default() };
        // Selected blocks come file by file nearly always, so that one open file at a time is enough.
        let mut open: Option<(&TablePath, LogReader<Source>)> = None;
        for (i, block) in &selected.blocks {
            let Some(file) = selected.files.get(*i) else { continue };
            let reader = match open.take().filter(|(path, _)| *path == file.path) {
                Some((_, reader)) => reader,
                None => file.reader(storage)?,
            };
            let (_, reader) = open.insert((file.path, reader));
            let applied = changes.apply(reader, block);
            applied.map_err(|e| e.context(format!("{}: block at byte {}", file.path, block.offset)))?;
        }
        Ok(changes)
    }

    /// The keys that are changed, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().map(|k| &**k)
    }

    /// The changes of a key, oldest first.
    pub fn of(&self, key: &[u8]) -> &[Change] {
        self.by_key.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Number of keys.
    pub fn keys_len(&self) -> usize {
        self.by_key.len()
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    fn apply(&mut self, reader: &mut LogReader<Source>, block: &LogBlock) -> Result<()> {
        if block.content_len > CONTENT_LEN_MAX {
            return Err(Error::corrupt(format!("content of {} bytes", block.content_len)));
        }
        match block.kind {
            BlockKind::HFile => {
                let file = HFile::open(reader.content(block)?)?;
                let text = file.info("schema").map(|t| std::str::from_utf8(t)).transpose();
                let text = text.map_err(|_| Error::corrupt("schema is not UTF-8"))?;
                let text = text.or_else(|| block.header(HeaderKey::Schema));
                let schema = self.schemas.parse(text.ok_or_else(|| Error::corrupt("HFile without a schema"))?)?;
                file.scan(|key, value| self.push(key, Change::Put(value, schema.clone())))
            }
            BlockKind::Delete => {
                delete_keys(&reader.content(block)?, |key, _| self.push(key.as_bytes(), Change::Delete))
            }
            // A metadata table without base HFiles may have been told to write Avro logs; their keys are in the records.
            BlockKind::Avro => {
                let content = reader.content(block)?;
                let text = block.header(HeaderKey::Schema).ok_or_else(|| Error::corrupt("block without a schema"))?;
                let schema = self.schemas.parse(text)?;
                for record in avro_records(&content)? {
                    let record = record?;
                    let key = key_of(&schema, record)?;
                    self.push(key.as_bytes(), Change::Put(content.slice_ref(record), schema.clone()))?;
                }
                Ok(())
            }
            kind => Err(Error::unsupported(format!("{kind:?} block in the metadata table"))),
        }
    }

    fn push(&mut self, key: &[u8], change: Change) -> Result<()> {
        self.bytes += std::mem::size_of::<Change>();
        if let Change::Put(value, _) = &change {
            self.bytes += value.len();
        }
        if self.bytes > HELD_LEN_MAX {
            return Err(Error::unsupported(format!("log files hold more than {HELD_LEN_MAX} bytes of records"))
                .with_hint("let Hudi compact the metadata table"));
        }
        match self.by_key.get_mut(key) {
            Some(changes) => changes.push(change),
            None => {
                self.bytes += key.len() + std::mem::size_of::<(Box<[u8]>, Vec<Change>)>();
                self.by_key.insert(key.into(), vec![change]);
            }
        }
        Ok(())
    }
}

impl Schemas {
    fn parse(&mut self, text: &str) -> Result<Arc<Schema>> {
        if let Some((_, known)) = self.0.iter().find(|(t, _)| t == text) {
            return Ok(known.clone());
        }
        let schema = Arc::new(Schema::parse(text)?);
        self.0.push((text.to_owned(), schema.clone()));
        Ok(schema)
    }
}

/// The blocks of a slice's log files that count.
pub(super) struct Selected<'p> {
    /// The log files.
    pub files: Vec<File<'p>>,
    /// The blocks that count, oldest first, each with the place of its file.
    pub blocks: Vec<(usize, LogBlock)>,
    /// The instants that blocks are of, or stand in for, whether they count or not.
    pub instants: HashSet<InstantTime>,
    /// Blocks that a dying writer left, a line each.
    pub warnings: Vec<String>,
}

impl<'p> Selected<'p> {
    /// Scans log files, given in the order of their slice.
    pub fn read(storage: &dyn Storage, logs: &'p [LogFile], valid: &ValidInstants<'_>) -> Result<Selected<'p>> {
        let (mut instants, mut warnings) = (HashSet::new(), Vec::new());
        let files = prefetch(storage, logs)?;
        let (mut blocks, mut heads) = (Vec::new(), Vec::new());
        for (i, file) in files.iter().enumerate() {
            let found = file.scan(storage, &mut warnings).map_err(|e| e.context(file.path))?;
            for (block, head) in found {
                instants.extend(head.compacted.iter().chain([&head.instant]));
                blocks.push(Some((i, block)));
                heads.push(head);
            }
        }
        let known = answers(&heads, valid)?;
        let order = select(&heads, |instant| known.contains(instant))?;
        let blocks = order.into_iter().filter_map(|i| blocks.get_mut(i)?.take()).collect();
        Ok(Selected { files, blocks, instants, warnings })
    }
}

/// The instants among the blocks' whose records count.
fn answers(heads: &[BlockHead], valid: &ValidInstants<'_>) -> Result<HashSet<InstantTime>> {
    let asked: HashSet<InstantTime> = heads.iter().map(|h| h.instant).collect();
    let mut known = HashSet::new();
    for instant in asked {
        if valid.contains(&instant)? {
            known.insert(instant);
        }
    }
    Ok(known)
}

/// Sizes of all files, and the bytes of small ones, with few requests to the store.
fn prefetch<'p>(storage: &dyn Storage, logs: &'p [LogFile]) -> Result<Vec<File<'p>>> {
    let unknown: Vec<&str> = logs.iter().filter(|l| l.size.is_none()).map(|l| l.path.file_name()).collect();
    let mut stats = match logs.first() {
        Some(first) if !unknown.is_empty() => storage.stat_many(&first.path.parent(), &unknown).into_iter(),
        _ => Vec::new().into_iter(),
    };
    let mut files = Vec::new();
    for LogFile { path, size } in logs {
        let size = match size {
            Some(size) => *size,
            None => match stats.next() {
                Some(meta) => meta.map_err(|e| e.context(path))?.size,
                None => return Err(Error::internal("storage answered fewer stats than were asked for")),
            },
        };
        files.push(File { path, size, bytes: None });
    }
    let mut budget = KEPT_LEN_MAX;
    let small = |file: &&mut File<'p>| {
        let fits = file.size <= SMALL_LEN_MAX && file.size <= budget;
        budget -= if fits { file.size } else { 0 };
        fits
    };
    let small: Vec<&mut File<'p>> = files.iter_mut().filter(small).collect();
    let paths: Vec<TablePath> = small.iter().map(|f| f.path.clone()).collect();
    for (file, bytes) in small.into_iter().zip(storage.read_many(&paths, 2 * SMALL_LEN_MAX)) {
        file.bytes = Some(bytes.map_err(|e| e.context(file.path))?);
    }
    Ok(files)
}

impl File<'_> {
    /// Its bytes, from memory where they are kept.
    pub fn source(&self, storage: &dyn Storage) -> Result<Source> {
        Ok(match &self.bytes {
            Some(bytes) => Box::new(bytes.clone()),
            None => Box::new(FileSource(storage.open(self.path, Some(self.size))?)),
        })
    }

    fn reader(&self, storage: &dyn Storage) -> Result<LogReader<Source>> {
        Ok(LogReader::new(self.source(storage)?))
    }

    /// All blocks, without their contents.
    fn scan(&self, storage: &dyn Storage, warnings: &mut Vec<String>) -> Result<Vec<(LogBlock, BlockHead)>> {
        let mut reader = self.reader(storage)?;
        let mut found = Vec::new();
        while let Some(block) = reader.next_block()? {
            if block.kind == BlockKind::Corrupt {
                warnings.push(format!("{}: {} bytes at byte {} are no block", self.path, block.len, block.offset));
            }
            let head = block.head()?;
            found.push((block, head));
        }
        Ok(found)
    }
}

fn key_of<'a>(schema: &Schema, record: &'a [u8]) -> Result<&'a str> {
    let mut key = None;
    Cursor::new(schema, record).record(|field, cursor| {
        if field == "key" {
            key = cursor.str()?;
        }
        Ok(())
    })?;
    key.filter(|k| !k.is_empty()).ok_or_else(|| Error::corrupt("record without a key"))
}
