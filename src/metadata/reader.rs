//! [`GroupReader`]: one file group of a partition, as of the committed state: base records with what log files say of them.
//!
//! How records of one key are combined differs between partitions and is the caller's; here they are only brought together.

use super::changes::{Change, Changes};
use super::slice::Group;
use super::source::FileSource;
use super::valid::ValidInstants;
use crate::error::{Error, Result};
use crate::format::avro::Schema;
use crate::format::hfile::HFile;
use crate::storage::Storage;
use std::sync::Arc;

/// A file group whose log files have been read.
pub(super) struct GroupReader {
    base: Option<(HFile<FileSource>, Arc<Schema>)>,
    changes: Changes,
}

/// All that is stored under one key.
pub(super) struct Versions<'a> {
    /// The base file's record and its schema.
    pub base: Option<(&'a Arc<Schema>, &'a [u8])>,
    /// What log files say, oldest first.
    pub changes: &'a [Change],
}

impl GroupReader {
    /// Opens the newest slice of a group.
    pub fn open(storage: &dyn Storage, group: &Group, valid: &ValidInstants<'_>) -> Result<GroupReader> {
        let changes = Changes::read(storage, &group.slice.logs, valid)?;
        let base = match &group.slice.base {
            None => None,
            Some(path) => {
                let file = HFile::open(FileSource(storage.open(path, None)?)).map_err(|e| e.context(path))?;
                let text = file.info("schema").and_then(|t| std::str::from_utf8(t).ok());
                let text = text.ok_or_else(|| Error::corrupt("file information without a schema").context(path))?;
                let schema = Schema::parse(text).map_err(|e| e.context(path))?;
                Some((file, Arc::new(schema)))
            }
        };
        Ok(GroupReader { base, changes })
    }

    /// Number of records in the base file, and of keys that log files change.
    pub fn counts(&self) -> (u64, usize) {
        (self.base.as_ref().map_or(0, |(file, _)| file.entry_count()), self.changes.keys_len())
    }

    /// Looks up keys that are sorted and unequal, and tells the place in `keys` of each that anything is stored under.
    pub fn lookup(&self, keys: &[&[u8]], mut found: impl FnMut(usize, &Versions<'_>) -> Result<()>) -> Result<()> {
        let mut next = 0;
        let mut changed_before = |end: usize, found: &mut dyn FnMut(usize, &Versions<'_>) -> Result<()>| {
            for (i, key) in keys.iter().enumerate().take(end).skip(next) {
                let changes = self.changes.of(key);
                if !changes.is_empty() {
                    found(i, &Versions { base: None, changes })?;
                }
            }
            next = end + 1;
            Ok(())
        };
        if let Some((file, schema)) = &self.base {
            file.find_sorted(keys, |i, value| {
                changed_before(i, &mut found)?;
                let changes = keys.get(i).map(|key| self.changes.of(key)).unwrap_or_default();
                found(i, &Versions { base: Some((schema, value)), changes })
            })?;
        }
        changed_before(keys.len(), &mut found)
    }

    /// Visits all keys in their order.
    pub fn scan(&self, mut visit: impl FnMut(&[u8], &Versions<'_>) -> Result<()>) -> Result<()> {
        let mut changed: Vec<&[u8]> = self.changes.keys().collect();
        changed.sort_unstable();
        let mut changed = changed.into_iter().peekable();
        if let Some((file, schema)) = &self.base {
            file.scan(|row, value| {
                while let Some(key) = changed.next_if(|key| *key < row) {
                    visit(key, &Versions { base: None, changes: self.changes.of(key) })?;
                }
                changed.next_if(|key| *key == row);
                visit(row, &Versions { base: Some((schema, &value)), changes: self.changes.of(row) })
            })?;
        }
        changed.try_for_each(|key| visit(key, &Versions { base: None, changes: self.changes.of(key) }))
    }
}
