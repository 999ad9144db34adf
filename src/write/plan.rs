//! [`WritePlan`]: what a table, its newest snapshot and the settings say about how a request is carried out.

use super::assign::FileSizes;
use super::options::WriterOptions;
use super::request::Operation;
use super::route::Moving;
use super::supported;
use crate::error::{Error, ErrorKind, Result};
use crate::format::properties::TableType;
use crate::index::{self, Index, IndexKind};
use crate::record::{KeyGenerator, MergeRules, TableSchema, schema};
use crate::slice::BaseOptions;
use crate::slice::keys::KeyFile;
use crate::slice::sizing::Sizing;
use crate::storage::TablePath;
use crate::table::Snapshot;
use std::sync::Arc;

/// Commits looked at for the average size of a record.
const COMMITS_MAX: usize = 20;

/// How a request is carried out on one snapshot.
pub(super) struct WritePlan {
    pub snapshot: Arc<Snapshot>,
    /// The table's schema; `None` before the first commit of a table that was created without one.
    pub schema: Option<TableSchema>,
    pub keys: KeyGenerator,
    pub rules: MergeRules,
    pub kind: IndexKind,
    pub index: Arc<dyn Index>,
    pub sizes: FileSizes,
    pub base: BaseOptions,
    pub moving: Moving,
    pub merge_on_read: bool,
}

impl WritePlan {
    /// Works it out. `Unsupported` and `Invalid` name what cannot be kept right; nothing is touched.
    pub fn new(snapshot: Arc<Snapshot>, options: &WriterOptions) -> Result<WritePlan> {
        let config = snapshot.config();
        supported::check(config)?;
        let kind = IndexKind::of_table(config, options.index, &options.settings)?;
        let index = index::open(kind, config, &options.settings, options.threads)?;
        let existing = existing_key(&snapshot)?;
        let merge_on_read = config.table_type() == TableType::MergeOnRead;
        let mut base = BaseOptions::new(&options.settings)?;
        let metadata = config.metadata_partitions();
        base.column_ranges = metadata.contains(&"column_stats");
        base.tell_keys = metadata.contains(&"record_index");
        Ok(WritePlan {
            schema: schema::of_snapshot(&snapshot)?,
            keys: KeyGenerator::new(config, &options.settings, existing.as_deref())?,
            rules: MergeRules::new(config)?,
            sizes: sizes(&snapshot, options, merge_on_read && index.sees_logs())?,
            moving: moving(kind, options)?,
            snapshot,
            kind,
            index,
            base,
            merge_on_read,
        })
    }

    /// `Invalid` for an operation that the table's index cannot carry out.
    pub fn check(&self, operation: Operation) -> Result<()> {
        let looks_up = matches!(operation, Operation::Upsert | Operation::Delete);
        if looks_up && self.kind == IndexKind::None {
            return Err(Error::invalid(format!("{} into a table that is written without an index", operation.name()))
                .with_hint("use insert or bulk_insert"));
        }
        Ok(())
    }

    /// Rows of this operation are looked up before they are written.
    pub fn tags(&self, operation: Operation) -> bool {
        match operation {
            Operation::Upsert | Operation::Delete => true,
            // A bucket index places rows by their keys: two rows of one key are one.
            Operation::Insert | Operation::BulkInsert => self.kind == IndexKind::Bucket,
            _ => false,
        }
    }
}

fn sizes(snapshot: &Snapshot, options: &WriterOptions, fill_logs: bool) -> Result<FileSizes> {
    let sizing = Sizing::new(&options.settings)?;
    let timeline = snapshot.timeline();
    let mut commits = Vec::new();
    for instant in timeline.writes().rev().take(COMMITS_MAX) {
        match timeline.commit_metadata(&**snapshot.storage(), instant) {
            Ok(metadata) => commits.push(metadata),
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {}
            Err(e) => return Err(e),
        }
    }
    let record = sizing.record_size(commits.iter().map(|c| &**c));
    Ok(FileSizes { max: sizing.file_max, small: sizing.small_file, record, fill_logs })
}

/// Where a key that changes its partition goes, by the settings of its kind of index.
fn moving(kind: IndexKind, options: &WriterOptions) -> Result<Moving> {
    let (key, default) = match kind {
        IndexKind::GlobalBloom => ("hoodie.bloom.index.update.partition.path", true),
        IndexKind::GlobalSimple => ("hoodie.simple.index.update.partition.path", true),
        IndexKind::RecordLevel => ("hoodie.record.index.update.partition.path", false),
        _ => return Ok(Moving::Follow),
    };
    Ok(if options.parsed(key, default)? { Moving::Follow } else { Moving::Stay })
}

/// A record key that the table holds, where the key generator must know what keys look like.
fn existing_key(snapshot: &Snapshot) -> Result<Option<String>> {
    if !KeyGenerator::follows_existing(snapshot.config()) {
        return Ok(None);
    }
    for partition in snapshot.partitions()?.iter() {
        if let Some(key) = key_in(snapshot, partition)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn key_in(snapshot: &Snapshot, partition: &TablePath) -> Result<Option<String>> {
    let view = snapshot.partition(partition)?;
    for file in view.listed() {
        let path = snapshot.stored_path(partition, &file)?;
        let keys = KeyFile::open(&**snapshot.storage(), &path, file.size())?;
        if let Some((smallest, _)) = keys.key_range() {
            return Ok(Some(smallest.to_owned()));
        }
        let mut first = None;
        let mut visit = |key: &str, _| {
            first.get_or_insert_with(|| key.to_owned());
            Ok(())
        };
        keys.visit(&mut visit)?;
        if first.is_some() {
            return Ok(first);
        }
    }
    Ok(None)
}
