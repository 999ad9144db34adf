//! Making a metadata table: of what a table holds, partition by partition.
//!
//! Each partition is one delta commit under an instant that no data table instant has: zeros and a number, or up to table
//! version 6 the newest instant with a number behind it. Its file groups are made first, each by a log file that deletes
//! nothing, so that those without records are found too; then base files with what is there. `files` comes first, and each
//! partition is named in the table's properties only when it is complete.

use super::base_file::write_base;
use super::changes::{Changes, KeysOfGroup};
use super::create::{create_table, define};
use super::delta::TOKEN;
use super::drop::{INFLIGHT, READY, delete_leftover};
use super::inventory::Inventory;
use super::log_file::{Shard, write_log};
use super::plan::{self, Placed, Row, Rows};
use super::record::{Encoder, RecordType};
use super::schema::RecordFormat;
use super::setup::{META_COLUMNS, Setup};
use super::target::Target;
use super::{DataFiles, MetadataKinds, MetadataOptions, RecordIndexShape};
use crate::error::{Error, Result};
use crate::format::commit::{CommitMetadata, WriteStat};
use crate::format::file_name::{WriteToken, base_file_name, log_file_name};
use crate::format::instant::{Action, InstantTime};
use crate::format::partition_path::PartitionMetadata;
use crate::format::properties::{Properties, TableConfig};
use crate::metadata::stats::StatsVersion;
use crate::metadata::{ALL_PARTITIONS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX, parallel};
use crate::storage::{ObjectWriter, Removal, Storage, TablePath};
use crate::timeline::{Timeline, update_config};
use std::sync::Arc;

/// The token of the log files that make file groups.
const INIT_TOKEN: WriteToken = WriteToken { partition: 0, stage: 0, attempt: 0 };
/// Bytes that a key of the record index is assumed to take, and that a file group of it may have.
const INDEX_ROW_LEN: u64 = 48;
const INDEX_GROUP_LEN_MAX: u64 = 1 << 30;
/// The first number behind an instant, up to table version 6.
const SUFFIX_FIRST: u32 = 10;
/// Partitions that one instant can make, by their numbers.
const SUFFIXES_MAX: u32 = 990;

/// See [`super::MetadataWriter::bootstrap`].
pub(super) fn bootstrap(
    storage: &Arc<dyn Storage>,
    data: &Timeline,
    kinds: &MetadataKinds,
    inflight: Option<InstantTime>,
    files: &dyn DataFiles,
    options: &MetadataOptions,
) -> Result<TableConfig> {
    let setup = Setup::load(&**storage, data.config())?;
    if setup.format == RecordFormat::V6 {
        refuse_pending(data, inflight)?;
    }
    if !setup.has(FILES) {
        delete_leftover(&**storage)?;
        create_table(storage, data.config())?;
    }
    let target = Target::new(storage, data, &setup, options.threads)?;
    let inventory = Inventory::list(storage, data)?;
    let maker = Maker { target, setup: &setup, inventory: &inventory, files, inflight };
    let is_partitioned = !data.config().partition_fields().is_empty();
    let columns = with_meta(&kinds.column_stats, data.config());
    if !setup.has(FILES) {
        maker.make(FILES, "files", maker.files()?, 1)?;
    }
    if !kinds.column_stats.is_empty() && !setup.has(COLUMN_STATS) {
        define(storage, data.config(), COLUMN_STATS, &columns)?;
        maker.make(COLUMN_STATS, "col-stats", maker.column_stats(&columns)?, 2)?;
    }
    if let Some(shape) = kinds.record_index.filter(|_| !setup.has(RECORD_INDEX)) {
        let keys = maker.keys()?;
        let count = keys.iter().map(|group| group.keys.len() as u64).sum();
        define(storage, data.config(), RECORD_INDEX, &[])?;
        maker.make(RECORD_INDEX, "record-index", maker.placed(&keys)?, shape.groups(count))?;
    }
    let has_partition_stats = is_partitioned && setup.format >= RecordFormat::V8;
    if !kinds.column_stats.is_empty() && has_partition_stats && !setup.has(PARTITION_STATS) {
        maker.make(PARTITION_STATS, "partition-stats", maker.partition_stats(&columns)?, 1)?;
    }
    update_config(&**storage, |_| {})
}

impl RecordIndexShape {
    /// The number of file groups for so many keys.
    fn groups(self, keys: u64) -> u32 {
        if self.min_groups == self.max_groups && self.min_groups > 0 {
            return self.min_groups;
        }
        let wanted = keys.saturating_mul(2) / (INDEX_GROUP_LEN_MAX / INDEX_ROW_LEN);
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.max_groups).max(self.min_groups).max(1)
    }
}

/// Up to table version 6, what a pending instant has written cannot be told apart in log files.
fn refuse_pending(data: &Timeline, own: Option<InstantTime>) -> Result<()> {
    let other = data.pending().find(|i| Some(i.requested) != own && i.action != Action::Indexing);
    match other {
        None => Ok(()),
        Some(other) => Err(Error::new(
            crate::error::ErrorKind::Conflict,
            format!("the metadata table cannot be made while {other} is pending"),
        )
        .at_instant(other.requested)
        .with_hint("let it complete, or roll it back")),
    }
}

fn with_meta(columns: &[String], config: &TableConfig) -> Vec<String> {
    let meta = META_COLUMNS.iter().filter(|_| config.populate_meta_fields()).map(|c| (*c).to_owned());
    let mut all: Vec<String> = meta.collect();
    for column in columns {
        if !all.contains(column) {
            all.push(column.clone());
        }
    }
    all
}

/// Makes partitions of the metadata table.
struct Maker<'a> {
    target: Target<'a>,
    setup: &'a Setup,
    inventory: &'a Inventory,
    files: &'a dyn DataFiles,
    inflight: Option<InstantTime>,
}

impl Maker<'_> {
    /// One partition, from its first file to its name in the properties.
    fn make(&self, partition: &'static str, prefix: &str, rows: Rows<'_>, groups: u32) -> Result<()> {
        let made = self.write(partition, prefix, &rows, groups);
        made.map_err(|e| e.context(format!("making {partition} of the metadata table")))?;
        update_config(&**self.target.storage, |properties| {
            let add = |properties: &mut Properties, key: &str, with: bool| {
                let list = properties.get(key).unwrap_or_default();
                let mut names: Vec<&str> =
                    list.split(',').map(str::trim).filter(|p| !p.is_empty() && *p != partition).collect();
                if with {
                    names.push(partition);
                }
                names.sort_unstable();
                let names = names.join(",");
                properties.set(key, names);
            };
            add(properties, READY, true);
            add(properties, INFLIGHT, false);
        })?;
        Ok(())
    }

    fn write(&self, partition: &'static str, prefix: &str, rows: &Rows<'_>, groups: u32) -> Result<()> {
        let target = &self.target;
        target.storage.delete(&Removal::metadata_partition(partition)?)?;
        let timeline = target.timeline()?;
        let instant = self.instant(&timeline)?;
        let instants = target.instants(&timeline)?;
        let layout = timeline.config().layout();
        let requested = instants.request(instant, Action::DeltaCommit, Vec::new())?;
        let inflight = instants.start(&requested, Vec::new())?;
        let dir = TablePath::parse(partition)?;
        let mark = PartitionMetadata::of(partition, instant).encode();
        target.files.put(&dir.join(".hoodie_partition_metadata")?, mark.into())?;
        let ids: Vec<String> = (0..groups).map(|i| format!("{prefix}-{i:04}-0")).collect();
        let jobs: Vec<(String, Shard<'_>)> = ids.into_iter().zip(Shard::divide(rows, groups as usize)).collect();
        let stats = parallel::each(&jobs, target.threads, |(id, shard)| self.group(partition, id, shard, instant))?;
        let operation = Some("BULK_INSERT_PREPPED".to_owned());
        let mut metadata = CommitMetadata { operation, ..CommitMetadata::default() };
        metadata.extra.insert("schema".to_owned(), target.format.commit_text().to_owned());
        stats.into_iter().flatten().for_each(|stat| metadata.add(partition, stat));
        instants.complete(&inflight, &timeline, metadata.encode(layout, Action::DeltaCommit)?)?;
        Ok(())
    }

    /// A file group: its first log file, and a base file if there is anything to put in.
    fn group(&self, partition: &str, id: &str, shard: &Shard<'_>, instant: InstantTime) -> Result<Option<WriteStat>> {
        let (target, dir) = (&self.target, TablePath::parse(partition)?);
        let log = log_file_name(id, instant, 1, INIT_TOKEN);
        let mut out: Box<dyn ObjectWriter> = target.files.create_writer(&dir.join(&log)?)?;
        write_log(&mut out, partition, instant, target.format, &Shard::Encoded(Vec::new()))?;
        out.finish()?;
        if shard.is_empty() {
            return Ok(None);
        }
        let name = base_file_name(id, TOKEN, instant, ".hfile");
        let encoder = Encoder::new(target.format);
        let (rows, size) = write_base(target, partition, &dir.join(&name)?, |put| {
            shard.visit(encoder, |key, value| value.map_or(Ok(()), |value| put(key.as_bytes(), value)))
        })?;
        Ok(Some(WriteStat {
            file_id: id.to_owned(),
            path: Some(format!("{partition}/{name}")),
            size: Some(size),
            records: Some(rows),
            num_inserts: rows,
            total_write_bytes: size,
            partition_path: Some(partition.to_owned()),
            ..WriteStat::default()
        }))
    }

    /// The first instant of its kind that the metadata table does not have.
    fn instant(&self, timeline: &Timeline) -> Result<InstantTime> {
        let completed = self.target.data.completed().map(|i| i.requested).max();
        let free = |text: String| {
            let time = InstantTime::parse(&text)?;
            (!timeline.instants().iter().any(|i| i.requested == time)).then_some(time)
        };
        let found = match self.target.format {
            RecordFormat::V6 => {
                let stem = completed.map_or_else(|| "00000000000000".to_owned(), |t| t.to_string());
                (SUFFIX_FIRST..SUFFIX_FIRST + SUFFIXES_MAX).find_map(|i| free(format!("{stem}{i:03}")))
            }
            RecordFormat::V8 | RecordFormat::V9 => (0..SUFFIXES_MAX).find_map(|i| free(format!("{i:017}"))),
        };
        found.ok_or_else(|| Error::unsupported("the metadata table has been made too often under one instant"))
    }

    fn encoder(&self) -> Encoder {
        Encoder::new(self.target.format)
    }

    /// The version that column statistics are made in.
    fn stats(&self) -> StatsVersion {
        match self.setup.definitions.get(COLUMN_STATS) {
            Some(_) => self.setup.stats,
            None if self.target.format >= RecordFormat::V9 => StatsVersion::V2,
            None => StatsVersion::V1,
        }
    }

    fn files(&self) -> Result<Rows<'static>> {
        let mut rows: Vec<Row> = Vec::new();
        let named: Vec<(&str, Option<u64>)> =
            self.inventory.partitions().map(|path| (super::keys::identifier(path), Some(0))).collect();
        let list = self.encoder().files(RecordType::Partitions, named.into_iter())?;
        rows.push((ALL_PARTITIONS.to_owned(), Some(list)));
        for path in self.inventory.partitions() {
            let entries: Vec<(&str, Option<u64>)> =
                self.inventory.files(path).map(|(name, size)| (name, Some(size))).collect();
            let value = self.encoder().files(RecordType::Files, entries.into_iter())?;
            rows.push((super::keys::identifier(path).to_owned(), Some(value)));
        }
        Ok(Rows::Encoded(rows))
    }

    /// Changes as if one instant had written all files, with their ranges.
    fn ranges(&self, columns: &[String]) -> Result<Changes> {
        let mut jobs: Vec<(&str, &str, u64)> = Vec::new();
        for path in self.inventory.partitions() {
            jobs.extend(self.inventory.files(path).map(|(name, size)| (path, name, size)));
        }
        let ranges = parallel::each(&jobs, self.target.threads, |(path, name, size)| {
            self.files.columns(path, name, *size, columns).map_err(|e| e.context(format!("{path}/{name}")))
        })?;
        let mut changes = Changes::default();
        for ((path, name, size), columns) in jobs.into_iter().zip(ranges) {
            let added = super::AddedFile { size, columns };
            changes.partition(path).added.insert(name.to_owned(), added);
        }
        Ok(changes)
    }

    fn column_stats(&self, columns: &[String]) -> Result<Rows<'static>> {
        let setup = Setup { stats: self.stats(), ..self.setup.clone() };
        Ok(plan::column_stats(&self.ranges(columns)?, &setup, columns, self.encoder()).rows)
    }

    fn partition_stats(&self, columns: &[String]) -> Result<Rows<'static>> {
        let setup = Setup { stats: self.stats(), ..self.setup.clone() };
        let changes = self.ranges(columns)?;
        let mut rows: Vec<Row> = Vec::new();
        for (path, changed) in &changes.partitions {
            let live: Vec<String> =
                self.inventory.live(path).flat_map(|slice| slice.names().map(str::to_owned)).collect();
            super::partition_stats::whole(path, columns, &live, changed, &setup, self.encoder(), &mut rows);
        }
        Ok(Rows::Encoded(rows))
    }

    /// The keys of all file groups.
    fn keys(&self) -> Result<Vec<KeysOfGroup>> {
        let mut jobs = Vec::new();
        for path in self.inventory.partitions() {
            jobs.extend(self.inventory.live(path).map(|slice| (path, slice)));
        }
        parallel::each(&jobs, self.target.threads, |(path, slice)| {
            let keys = self.files.keys(path, &slice.file_id, slice.base.as_deref(), &slice.logs);
            let keys = keys.map_err(|e| e.context(format!("{path}: file group {}", slice.file_id)))?;
            Ok(KeysOfGroup {
                partition: (*path).to_owned(),
                file_id: slice.file_id.clone(),
                instant: Some(slice.instant),
                keys,
            })
        })
    }

    fn placed<'k>(&self, keys: &'k [KeysOfGroup]) -> Result<Rows<'k>> {
        let zone = self.target.data.config().zone();
        let mut placed = Placed::default();
        for group in keys {
            let at = group.instant.or(self.inflight).unwrap_or_else(InstantTime::zero);
            placed.add(group, at, zone)?;
        }
        Ok(Rows::Placed(placed))
    }
}
