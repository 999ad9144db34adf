//! From [`Changes`] to records: what a delta commit puts into each partition of the metadata table.
//!
//! Listings and statistics are encoded at once. A commit may bring a place for each row of the table, so those are kept as
//! pairs of a borrowed key and a number, and encoded when their file is written.

use super::changes::{Changes, KeysOfGroup, PartitionChanges};
use super::keys::{StatsKeys, identifier};
use super::record::{Encoder, RecordType};
use super::setup::Setup;
use crate::error::{Error, Result};
use crate::format::instant::{InstantTime, Zone};
use crate::metadata::placement::Placement;
use crate::metadata::stats::Stats;
use crate::metadata::{ALL_PARTITIONS, COLUMN_STATS, FILES, RECORD_INDEX};

/// A key and its value; `None` deletes it.
pub(super) type Row = (String, Option<Vec<u8>>);

/// What goes into one partition of the metadata table.
pub(super) struct PartitionRows<'a> {
    /// The partition.
    pub partition: &'static str,
    /// Its records, in no order.
    pub rows: Rows<'a>,
}

/// Records in no order, one a key.
pub(super) enum Rows<'a> {
    Encoded(Vec<Row>),
    Placed(Placed<'a>),
}

/// Places of keys.
#[derive(Default)]
pub(super) struct Placed<'a> {
    pub placements: Vec<Placement<'a>>,
    /// Keys, each with the number of its place; [`REMOVED`] for one that is nowhere.
    pub keys: Vec<(&'a str, u32)>,
}

/// The place of a key that is removed.
pub(super) const REMOVED: u32 = u32::MAX;

/// The listing's records: the partitions touched, and the files of each.
pub(super) fn files(changes: &Changes, encoder: Encoder) -> Result<PartitionRows<'static>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut partitions: Vec<(&str, Option<u64>)> = Vec::new();
    for (path, changed) in &changes.partitions {
        let name = identifier(path);
        if changed.is_deleted {
            partitions.push((name, None));
            // The record as a whole goes, and whatever it lists.
            rows.push((name.to_owned(), None));
            continue;
        }
        if is_listed(changed) {
            partitions.push((name, Some(0)));
        }
        let added = changed.added.iter().map(|(file, added)| (file.as_str(), Some(added.size)));
        let deleted = changed.deleted.iter().map(|file| (file.as_str(), None));
        let entries: Vec<(&str, Option<u64>)> = added.chain(deleted).collect();
        if !entries.is_empty() {
            rows.push((name.to_owned(), Some(encoder.files(RecordType::Files, entries.into_iter())?)));
        }
    }
    // Even a commit that changes no file leaves a record, by which readers see that it was not passed over.
    if !partitions.is_empty() || rows.is_empty() {
        let value = encoder.files(RecordType::Partitions, partitions.into_iter())?;
        rows.push((ALL_PARTITIONS.to_owned(), Some(value)));
    }
    Ok(PartitionRows { partition: FILES, rows: Rows::Encoded(rows) })
}

/// True if the partition is to be named among the table's: not one that files only go from.
fn is_listed(changed: &PartitionChanges) -> bool {
    !changed.added.is_empty() || (changed.deleted.is_empty() && changed.replaced.is_empty())
}

/// Ranges of the columns of new files, and the deletion of those of files that are gone. `columns` are all that have any.
pub(super) fn column_stats(
    changes: &Changes,
    setup: &Setup,
    columns: &[String],
    encoder: Encoder,
) -> PartitionRows<'static> {
    let mut rows: Vec<Row> = Vec::new();
    for (path, changed) in &changes.partitions {
        let keys = StatsKeys::new(path);
        let mut put = |stats: &Stats| {
            let value = encoder.stats(RecordType::ColumnStats, stats);
            rows.push((keys.of_file(&stats.column, &stats.file), Some(value)));
        };
        for (file, added) in &changed.added {
            let indexed = added.columns.iter().filter(|range| columns.contains(&range.column));
            indexed.filter_map(|range| Stats::of_file(file, range, setup.stats)).for_each(|s| put(&s));
        }
        for file in &changed.deleted {
            columns.iter().for_each(|column| put(&Stats::deleted(file, column, setup.stats)));
        }
    }
    PartitionRows { partition: COLUMN_STATS, rows: Rows::Encoded(rows) }
}

/// Places of keys that are new or moved, and keys that are nowhere any more.
pub(super) fn record_index<'a>(changes: &'a Changes, instant: InstantTime, zone: Zone) -> Result<PartitionRows<'a>> {
    let mut placed = Placed::default();
    placed.keys.extend(changes.removed.iter().map(|key| (key.as_str(), REMOVED)));
    for group in &changes.placed {
        placed.add(group, group.instant.unwrap_or(instant), zone)?;
    }
    Ok(PartitionRows { partition: RECORD_INDEX, rows: Rows::Placed(placed) })
}

impl<'a> Placed<'a> {
    /// Adds the keys of a file group, which came there at an instant.
    pub fn add(&mut self, group: &'a KeysOfGroup, at: InstantTime, zone: Zone) -> Result<()> {
        let ms = at.epoch_ms(zone).ok_or_else(|| Error::invalid(format!("{at} is no moment in time")))?;
        let number = u32::try_from(self.placements.len()).ok().filter(|n| *n != REMOVED);
        let number = number.ok_or_else(|| Error::unsupported("more file groups than a record index can name"))?;
        self.placements.push(Placement::new(&group.partition, &group.file_id, ms));
        self.keys.extend(group.keys.iter().map(|key| (key.as_str(), number)));
        Ok(())
    }
}
