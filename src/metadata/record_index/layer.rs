//! [`Layer`]: one source of answers of a shard: the base file, or one block of a log file.

use crate::error::{Error, Result};
use crate::format::avro::Schema;
use crate::format::hfile::HFile;
use crate::format::log::{BlockKind, HeaderKey, LogBlock, LogReader, delete_keys};
use crate::format::source::Part;
use crate::metadata::changes::{Selected, Source};
use crate::metadata::placement::Placement;
use crate::metadata::slice::Slice;
use crate::metadata::source::FileSource;
use crate::metadata::valid::ValidInstants;
use crate::storage::Storage;
use std::collections::HashSet;

/// Answers for keys: their place, or that they are deleted.
pub(super) enum Layer {
    /// Places of keys.
    Table(HFile<Source>, Schema),
    /// Keys that are deleted.
    Deletes(HashSet<Box<[u8]>>),
}

impl Layer {
    /// Opens all of a slice, newest first.
    pub fn open_all(storage: &dyn Storage, slice: &Slice, valid: &ValidInstants<'_>) -> Result<Vec<Layer>> {
        let selected = Selected::read(storage, &slice.logs, valid)?;
        let mut layers = Vec::with_capacity(selected.blocks.len() + 1);
        for (i, block) in selected.blocks.iter().rev() {
            let Some(file) = selected.files.get(*i) else { continue };
            let layer = file.source(storage).and_then(|source| Layer::of_block(source, block));
            layers.push(layer.map_err(|e| e.context(format!("{}: block at byte {}", file.path, block.offset)))?);
        }
        if let Some(path) = &slice.base {
            let source: Source = Box::new(FileSource(storage.open(path, None)?));
            layers.push(Layer::of_table(source, None).map_err(|e| e.context(path))?);
        }
        Ok(layers)
    }

    fn of_block(source: Source, block: &LogBlock) -> Result<Layer> {
        match block.kind {
            BlockKind::HFile => {
                let part = Part::new(source, block.content_offset, block.content_len)?;
                Layer::of_table(Box::new(part), block.header(HeaderKey::Schema))
            }
            BlockKind::Delete => {
                let mut keys = HashSet::new();
                let content = LogReader::new(source).content(block)?;
                delete_keys(&content, |key, _| {
                    keys.insert(key.as_bytes().into());
                    Ok(())
                })?;
                Ok(Layer::Deletes(keys))
            }
            kind => Err(Error::unsupported(format!("{kind:?} block in the record index"))
                .with_hint("let Hudi compact the metadata table")),
        }
    }

    fn of_table(source: Source, schema: Option<&str>) -> Result<Layer> {
        let file = HFile::open(source)?;
        let own = file.info("schema").map(|t| std::str::from_utf8(t)).transpose();
        let own = own.map_err(|_| Error::corrupt("schema is not UTF-8"))?;
        let text = own.or(schema).ok_or_else(|| Error::corrupt("HFile without a schema"))?;
        let schema = Schema::parse(text)?;
        Ok(Layer::Table(file, schema))
    }

    /// Looks up rows that are sorted and unequal: the place in `rows`, and what is said of it, `None` if it is deleted.
    pub fn find(
        &self,
        rows: &[&[u8]],
        mut found: impl FnMut(usize, Option<Placement<'_>>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Layer::Table(file, schema) => {
                file.find_sorted(rows, |i, value| found(i, Some(Placement::decode(schema, value)?)))
            }
            Layer::Deletes(keys) => {
                for (i, row) in rows.iter().enumerate() {
                    if keys.contains(*row) {
                        found(i, None)?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Layer::Table(file, _) => write!(f, "{} keys", file.entry_count()),
            Layer::Deletes(keys) => write!(f, "{} deleted keys", keys.len()),
        }
    }
}
