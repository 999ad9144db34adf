//! Compaction: the base and log files of a group become one base file, so that readers of base files see what was appended.
//!
//! A plan is requested first, ours or one that Java made ([`schedule`]); it names the files of each group, and what is appended
//! from then on lies on top of the file that comes. Carrying it out merges the slices as a reader would, keeps the meta columns
//! of every row, and completes as a commit. One that failed goes back to being requested and is done again, from its beginning.
//! Format: docs/format.md, "Compaction".

mod choose;
mod schedule;

use super::markers::MarkerKind;
use super::metadata;
use super::outcome::{self, Groups};
use super::report::ServiceReport;
use super::rollback;
use super::session::{FailedWrites, Session};
use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::format::commit::RuntimeStats;
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::format::plan::{CompactionOperation, CompactionPlan};
use crate::metadata::write::MetadataWriter;
use crate::record::{MergeRules, TableSchema, schema};
use crate::slice::read::{ReadOptions, SliceReader};
use crate::slice::{BaseOptions, BaseWriter, NewBase, WrittenFile, pool};
use crate::storage::TablePath;
use crate::table::{FileSlice, Snapshot, StoredFile, Table};
use crate::timeline::Timeline;
use std::sync::Arc;
use std::time::{Duration, Instant as Moment};

/// Pending compactions that are carried out at a time: others may add more meanwhile.
const RUNS_MAX: usize = 100;
/// Seconds after which no further compaction is begun; 0: no bound.
const BUDGET: &str = "hudifs.compaction.max.seconds";

/// Compacts one table.
pub(super) struct Compactor<'w> {
    pub session: &'w Arc<Session>,
    pub table: &'w Table,
}

impl Compactor<'_> {
    /// Carries out pending compactions, then requests one and carries it out: if it is due, or `forced`. Begins nothing more
    /// once the time that the settings allow is over.
    pub fn run(&self, forced: bool) -> Result<Vec<ServiceReport>> {
        let seconds = self.session.options().parsed(BUDGET, 0)?;
        let (began, budget) = (Moment::now(), Duration::from_secs(seconds));
        let in_time = || budget.is_zero() || began.elapsed() < budget;
        let mut reports = Vec::new();
        for instant in self.pending()?.into_iter().take(RUNS_MAX) {
            if !in_time() {
                return Ok(reports);
            }
            reports.extend(self.carry_out(&instant)?);
        }
        if in_time()
            && let Some(requested) = schedule::schedule(self.session, self.table, forced)?
        {
            reports.extend(self.carry_out(&requested)?);
        }
        Ok(reports)
    }

    fn pending(&self) -> Result<Vec<Instant>> {
        self.table.refresh()?;
        let snapshot = self.table.snapshot();
        Ok(snapshot.timeline().pending().filter(|i| i.action == Action::Compaction).copied().collect())
    }

    /// Carries one out; `None` if somebody else is at it.
    fn carry_out(&self, instant: &Instant) -> Result<Option<ServiceReport>> {
        let at = instant.requested;
        let work = || {
            let Some(requested) = self.take_up(instant)? else { return Ok(None) };
            let transaction = Transaction::resume(self.session.clone(), &requested)?;
            self.table.refresh()?;
            let snapshot = self.table.snapshot();
            let bytes = transaction.timeline().read(&**self.session.storage(), &requested)?;
            let plan = CompactionPlan::parse(&bytes).map_err(|e| e.context("compaction plan"))?;
            self.execute(transaction, &snapshot, &plan).map(Some)
        };
        work().map_err(|e: Error| e.at_instant(at))
    }

    /// The instant as a requested one: one that failed is rolled back to that.
    fn take_up(&self, instant: &Instant) -> Result<Option<Instant>> {
        let mut critical = self.session.critical()?;
        let same = |i: &&Instant| i.requested == instant.requested && i.action == Action::Compaction;
        let there = critical.timeline().pending().find(same).copied();
        let Some(there) = there else { return Ok(None) };
        if there.state == State::Inflight {
            let dead = match self.session.failed_writes() {
                FailedWrites::Eager => true,
                FailedWrites::Lazy => rollback::is_dead(self.session, &critical, &there)?,
                FailedWrites::Never => false,
            };
            if !dead {
                return Ok(None);
            }
            rollback::pending(self.session, &mut critical, &there)?;
        }
        Ok(Some(Instant { state: State::Requested, completion: None, ..there }))
    }

    fn execute(&self, transaction: Transaction, snapshot: &Snapshot, plan: &CompactionPlan) -> Result<ServiceReport> {
        let files = match plan.operations.is_empty() {
            true => Vec::new(),
            false => Group::new(&transaction, snapshot)?.write_all(&plan.operations)?,
        };
        let mut extra = plan.extra.clone();
        if let Some(schema) = schema::of_snapshot(snapshot)? {
            extra.insert("schema".to_owned(), schema.avro().to_owned());
        }
        let mut metadata = outcome::metadata("COMPACT", &files, &Groups::new(), extra);
        metadata.compacted = true;
        let changes = outcome::changes(&files, &Groups::new(), Vec::new());
        let options = metadata::options(self.session.options())?;
        let (storage, instant) = (self.session.storage().clone(), transaction.instant());
        transaction.commit(metadata, &[], |critical| {
            match MetadataWriter::open(storage, critical.timeline(), options)? {
                Some(writer) => writer.update(instant, &changes),
                None => Ok(()),
            }
        })?;
        self.table.refresh()?;
        let logs: u64 = files.iter().map(|f| f.stat.total_log_files_compacted).sum();
        Ok(ServiceReport {
            service: "compact".to_owned(),
            instant: Some(instant.to_string()),
            items: files.len() as u64,
            detail: format!("{logs} log files merged"),
        })
    }
}

/// What is needed to compact the groups of one plan.
struct Group<'t> {
    transaction: &'t Transaction,
    snapshot: &'t Snapshot,
    schema: TableSchema,
    rules: MergeRules,
    base: BaseOptions,
    read: ReadOptions,
}

impl<'t> Group<'t> {
    fn new(transaction: &'t Transaction, snapshot: &'t Snapshot) -> Result<Group<'t>> {
        let options = transaction.session().options();
        let config = snapshot.config();
        let schema = schema::of_snapshot(snapshot)?;
        let schema = schema.ok_or_else(|| Error::corrupt("a table with file groups and without a schema"))?;
        let mut base = BaseOptions::new(&options.settings)?;
        base.column_ranges = config.metadata_partitions().contains(&"column_stats");
        base.threads = 1;
        let threads = options.threads.max(1) as u64;
        let memory = usize::try_from(options.memory_target / 2 / threads).unwrap_or(usize::MAX);
        let read = ReadOptions { memory, wanted: wanted(transaction.timeline(), transaction.instant()) };
        Ok(Group { transaction, snapshot, schema, rules: MergeRules::new(config)?, base, read })
    }

    fn write_all(&self, operations: &[CompactionOperation]) -> Result<Vec<WrittenFile>> {
        let slices = operations.iter().map(|o| self.slice(o)).collect::<Result<Vec<_>>>()?;
        let tasks: Vec<(u32, FileSlice)> = (0u32..).zip(slices).collect();
        let threads = self.transaction.session().options().threads;
        pool::run(threads, tasks, |(task, slice)| {
            let place = |e: Error| e.in_partition(&slice.partition).context(format!("file group {}", slice.file_id));
            self.write(task, &slice).map_err(place)
        })
    }

    /// The files that the plan names, with their sizes.
    fn slice(&self, operation: &CompactionOperation) -> Result<FileSlice> {
        let partition = TablePath::parse(&operation.partition)?;
        let names: Vec<&str> = operation.base_file.iter().chain(&operation.log_files).map(String::as_str).collect();
        let metas = self.transaction.session().storage().stat_many(&partition, &names);
        let mut files = Vec::with_capacity(names.len());
        for (name, meta) in names.iter().zip(metas) {
            let size = meta.map_err(|e| e.context("a file of the compaction plan").in_file(*name))?.size;
            files.push(StoredFile { name: (*name).to_owned(), size });
        }
        let log_files = files.split_off(usize::from(operation.base_file.is_some()));
        let base_instant = operation.base_instant.ok_or_else(|| {
            Error::corrupt(format!("the compaction plan has no base instant for file group {}", operation.file_id))
        })?;
        Ok(FileSlice {
            partition: operation.partition.clone(),
            file_id: operation.file_id.clone(),
            base_instant,
            base_file: files.pop(),
            log_files,
            compaction: None,
        })
    }

    fn write(&self, task: u32, slice: &FileSlice) -> Result<WrittenFile> {
        let began = Moment::now();
        let storage = &**self.transaction.session().storage();
        let target = NewBase {
            partition: slice.partition.clone(),
            file_id: slice.file_id.clone(),
            write_token: format!("{task}-1-0"),
            instant: self.transaction.instant(),
            task,
        };
        let kind = if slice.base_file.is_some() { MarkerKind::Merge } else { MarkerKind::Create };
        self.transaction.marker_for(&target.partition, &target.file_name(), kind)?;
        let config = self.snapshot.config();
        let mut rows = SliceReader::open(storage, config, slice, &self.schema, &self.rules, &self.read)?;
        let scanned = began.elapsed();
        let mut writer = BaseWriter::create(storage, &target, &self.schema, &self.base)?;
        for batch in rows.by_ref() {
            writer.write_with_meta(&batch?)?;
        }
        let mut file = writer.finish()?;
        let (logs, merged, stat) = (rows.log_counts(), rows.merged(), &mut file.stat);
        stat.previous = Some(slice.base_instant.to_string());
        stat.prev_base_file = slice.base_file.as_ref().map(|f| f.name.clone());
        (stat.num_inserts, stat.num_updates, stat.num_deletes) = (merged.inserted, merged.updated, merged.deleted);
        stat.total_log_records = logs.records;
        stat.total_log_files = logs.files;
        stat.total_log_files_compacted = logs.files;
        stat.total_log_size_compacted = logs.bytes;
        stat.total_updated_records_compacted = merged.updated;
        stat.total_log_blocks = logs.blocks;
        stat.total_corrupt_log_blocks = logs.corrupt_blocks;
        stat.total_rollback_blocks = logs.rollback_blocks;
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let total = ms(began.elapsed());
        stat.runtime = Some(RuntimeStats { scan_ms: ms(scanned), upsert_ms: total, create_ms: 0 });
        // Where keys live does not change.
        (file.keys_added, file.keys_removed) = (Vec::new(), Vec::new());
        Ok(file)
    }
}

/// Blocks that count: up to table version 6 those of completed instants before the compaction; from 8 on the plan has chosen.
fn wanted(timeline: &Timeline, compaction: InstantTime) -> Arc<dyn Fn(&InstantTime) -> bool + Send + Sync> {
    let timeline = timeline.clone();
    let by_file = timeline.config().version().slices_by_completion_time();
    Arc::new(move |time| by_file || (*time < compaction && timeline.is_committed(*time)))
}
