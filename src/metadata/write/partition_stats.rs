//! Ranges of partitions: made anew from the ranges of all files that a snapshot reads, for each partition that a commit
//! touches, so that they are exact and readers may replace what they knew.
//!
//! Where the range of one file is not known, nothing is said of the column: its record is deleted. That may be because the file
//! is older than the column, or because its values have no order; nobody can tell.

use super::changes::{Changes, PartitionChanges};
use super::keys::{StatsKeys, identifier, shard_of};
use super::plan::{PartitionRows, Row, Rows};
use super::record::{Encoder, RecordType};
use super::setup::Setup;
use crate::error::Result;
use crate::format::instant::InstantTime;
use crate::metadata::changes::Change;
use crate::metadata::lister::MetadataLister;
use crate::metadata::reader::{GroupReader, Versions};
use crate::metadata::slice::groups;
use crate::metadata::stats::Stats;
use crate::metadata::valid::{Committed, ValidInstants};
use crate::metadata::{COLUMN_STATS, PARTITION_STATS};
use crate::storage::{Storage, TablePath};
use crate::timeline::Timeline;
use crate::view::{ListedFile, Lister, ViewContext, merged_slices};
use std::collections::{BTreeMap, HashMap};

/// The ranges that are known of the files of one partition: by file, then by column.
pub(super) type Known = HashMap<String, HashMap<String, Stats>>;

/// What the ranges of partitions are made from.
pub(super) struct Sources<'a> {
    pub storage: &'a dyn Storage,
    pub data: &'a Timeline,
    pub metadata: &'a Timeline,
    pub setup: &'a Setup,
    /// All columns that have ranges.
    pub columns: &'a [String],
}

/// The ranges of the partitions that an instant touches, as they are once it has completed.
pub(super) fn partition_stats(
    sources: &Sources<'_>,
    instant: InstantTime,
    changes: &Changes,
    encoder: Encoder,
) -> Result<PartitionRows<'static>> {
    let mut rows: Vec<Row> = Vec::new();
    let touched: Vec<(&String, &PartitionChanges)> = changes
        .partitions
        .iter()
        .filter(|(_, c)| c.is_deleted || !c.added.is_empty() || !c.replaced.is_empty())
        .collect();
    if !touched.is_empty() {
        let lister = MetadataLister::open(sources.storage, sources.data)?;
        let context = ViewContext::load(sources.storage, sources.data, sources.data.config(), None)?
            .with_plans(sources.storage)?
            .as_if_completed(instant);
        let reader = StatsReader::open(sources)?;
        for (path, changed) in touched {
            let files = if changed.is_deleted { Vec::new() } else { read(sources, &lister, &context, path, changed)? };
            let mut known =
                reader.known(path, sources.columns, files.iter().filter(|f| !changed.added.contains_key(*f)))?;
            add_new(&mut known, changed, sources.setup);
            put(path, sources.columns, &files, &known, sources.setup, encoder, &mut rows);
        }
    }
    Ok(PartitionRows { partition: PARTITION_STATS, rows: Rows::Encoded(rows) })
}

/// The ranges of a partition, all of whose live files' ranges are in `changed`.
pub(super) fn whole(
    path: &str,
    columns: &[String],
    live: &[String],
    changed: &PartitionChanges,
    setup: &Setup,
    encoder: Encoder,
    rows: &mut Vec<Row>,
) {
    let mut known = Known::new();
    add_new(&mut known, changed, setup);
    put(path, columns, live, &known, setup, encoder, rows);
}

fn put(
    path: &str,
    columns: &[String],
    files: &[String],
    known: &Known,
    setup: &Setup,
    encoder: Encoder,
    rows: &mut Vec<Row>,
) {
    let keys = StatsKeys::new(path);
    for column in columns {
        let stats = combine(path, column, files, known);
        let stats = stats.unwrap_or_else(|| Stats::deleted(identifier(path), column, setup.stats));
        let value = encoder.stats(RecordType::PartitionStats, &Stats { is_tight: true, ..stats });
        rows.push((keys.of_partition(column), Some(value)));
    }
}

/// The files that a snapshot of the partition reads once the instant has completed.
fn read(
    sources: &Sources<'_>,
    lister: &MetadataLister,
    context: &ViewContext,
    path: &str,
    changed: &PartitionChanges,
) -> Result<Vec<String>> {
    let mut files = lister.files(&TablePath::parse(path)?)?;
    files.retain(|file| !changed.deleted.contains(&file.name) && !changed.added.contains_key(&file.name));
    files.extend(changed.added.iter().map(|(name, file)| ListedFile { name: name.clone(), size: Some(file.size) }));
    // Of the instant itself no completion is known: its log files are in the newest slice.
    let mut completed = |time| sources.data.completion_time(sources.storage, time);
    let slices = merged_slices(context, path, &files, &mut completed)?;
    let live = slices.iter().filter(|slice| !changed.replaced.contains(slice.file_id));
    Ok(live.flat_map(|s| s.base_file.iter().chain(&s.log_files)).map(|name| (*name).to_owned()).collect())
}

fn add_new(known: &mut Known, changed: &PartitionChanges, setup: &Setup) {
    for (file, added) in &changed.added {
        let stats = added.columns.iter().filter_map(|range| Stats::of_file(file, range, setup.stats));
        let by_column: HashMap<String, Stats> = stats.map(|s| (s.column.clone(), s)).collect();
        if !by_column.is_empty() {
            known.insert(file.clone(), by_column);
        }
    }
}

/// The range of a column over files; `None` if it is not known.
fn combine(path: &str, column: &str, files: &[String], known: &Known) -> Option<Stats> {
    let mut ranges = files.iter().map(|file| known.get(file)?.get(column));
    let mut whole = ranges.next()??.clone();
    for range in ranges {
        whole.widen(range?).then_some(())?;
    }
    Some(Stats { file: identifier(path).to_owned(), ..whole })
}

/// The column statistics that are stored.
pub(super) struct StatsReader {
    shards: Vec<GroupReader>,
}

impl StatsReader {
    pub fn open(sources: &Sources<'_>) -> Result<StatsReader> {
        let committed = Committed::new(sources.storage, sources.metadata);
        let valid = ValidInstants::new(sources.data, &committed);
        let groups = groups(sources.storage, &committed, COLUMN_STATS)?;
        let shards = groups.iter().map(|group| GroupReader::open(sources.storage, group, &valid));
        Ok(StatsReader { shards: shards.collect::<Result<_>>()? })
    }

    /// What is known of columns of files of one partition.
    pub fn known<'f>(&self, path: &str, columns: &[String], files: impl Iterator<Item = &'f String>) -> Result<Known> {
        let keys = StatsKeys::new(path);
        let mut asked: Vec<BTreeMap<String, (&str, &str)>> = vec![BTreeMap::new(); self.shards.len()];
        for file in files {
            for column in columns {
                let key = keys.of_file(column, file);
                if let Some(shard) = asked.get_mut(shard_of(&key, self.shards.len())) {
                    shard.insert(key, (file, column));
                }
            }
        }
        let mut known = Known::new();
        for (shard, asked) in self.shards.iter().zip(&asked) {
            let rows: Vec<&[u8]> = asked.keys().map(|k| k.as_bytes()).collect();
            let of: Vec<&(&str, &str)> = asked.values().collect();
            shard.lookup(&rows, |i, versions| {
                if let (Some((file, column)), Some(stats)) = (of.get(i), merged(versions)?) {
                    known.entry((*file).to_owned()).or_default().insert((*column).to_owned(), stats);
                }
                Ok(())
            })?;
        }
        Ok(known)
    }
}

/// The one record that versions amount to; `None` if it is deleted.
pub(in crate::metadata) fn merged(versions: &Versions<'_>) -> Result<Option<Stats>> {
    let mut merged = versions.base.map(|(schema, value)| Stats::decode(schema, value)).transpose()?;
    for change in versions.changes {
        merged = match (change, merged) {
            (Change::Delete, _) => None,
            (Change::Put(value, schema), None) => Some(Stats::decode(schema, value)?),
            (Change::Put(value, schema), Some(older)) => Some(Stats::decode(schema, value)?.over(&older)),
        };
    }
    Ok(merged.filter(|stats| !stats.is_deleted))
}
