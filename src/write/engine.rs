//! [`Engine`]: one request from its rows to its commit.
//!
//! Rows are taken in and checked first, so that bad input leaves nothing behind; then the instant begins, keys are looked up in
//! the snapshot as of that moment, files are written, and the transaction commits.

use super::assign::{Assigner, Target};
use super::bulk::Bulk;
use super::execute;
use super::groups::GroupWriter;
use super::incoming::{Intake, KeyedRows};
use super::metadata::MetadataDuty;
use super::options::WriterOptions;
use super::outcome::{self, Groups};
use super::plan::WritePlan;
use super::recheck::{self, NewKeys};
use super::report::{CommitReport, FileReport, Phase, ServiceReport};
use super::request::{Operation, Records, WriteRequest};
use super::route::{self, Counts, Router};
use super::session::Session;
use super::spool::Spool;
use super::transaction::Transaction;
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{CommitMetadata, WriteStat};
use crate::format::instant::Action;
use crate::format::plan::RequestedReplace;
use crate::index::IndexKind;
use crate::record::TableSchema;
use crate::slice::WrittenFile;
use crate::storage::TablePath;
use crate::table::{Snapshot, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where a commit keeps its request's key.
pub(super) const IDEMPOTENCY_KEY: &str = "hudifs.idempotency.key";
/// The share of the memory target that rows set aside may take, and that is read before anything is written.
const SPOOL_SHARE: u64 = 4;
/// Memory that an open file is reckoned with, bytes.
const OPEN_FILE: u64 = 16 << 20;

/// What carries a request out.
pub(super) struct Engine<'w> {
    pub session: &'w Arc<Session>,
    pub table: &'w Table,
}

/// What was written and what it replaces.
#[derive(Default)]
struct Written {
    files: Vec<WrittenFile>,
    replaced: Groups,
    /// Partitions in which nobody else may have written.
    exclusive: Vec<String>,
    missed: u64,
    moved: u64,
    new_keys: NewKeys,
}

/// Rows with their groups.
struct RoutedRows {
    spool: Spool,
    targets: Vec<Target>,
    counts: Counts,
    new_keys: NewKeys,
}

impl Engine<'_> {
    /// Runs the request.
    pub fn run(&self, mut request: WriteRequest) -> Result<CommitReport> {
        let snapshot = self.newest()?;
        if let Some(report) = replayed(&snapshot, &request)? {
            return Ok(report);
        }
        let plan = Arc::new(WritePlan::new(snapshot, self.options())?);
        plan.check(request.operation)?;
        MetadataDuty::check(self.session, &plan.snapshot)?;
        request.progress.enter(Phase::Reading);
        let records = request.records.take().unwrap_or_else(|| Box::new(std::iter::empty()));
        match request.operation {
            Operation::DeletePartition => self.delete_partitions(plan, &request),
            // A bucket holds one file: rows must go to the one that is there.
            Operation::BulkInsert if plan.kind == IndexKind::Bucket => self.change(plan, request, records),
            Operation::BulkInsert | Operation::InsertOverwrite | Operation::InsertOverwriteTable => {
                self.add(plan, request, records)
            }
            Operation::Upsert | Operation::Insert | Operation::Delete => self.change(plan, request, records),
        }
    }

    fn options(&self) -> &WriterOptions {
        self.session.options()
    }

    fn newest(&self) -> Result<Arc<Snapshot>> {
        self.table.refresh()?;
        Ok(self.table.snapshot())
    }

    fn spool_bytes(&self) -> u64 {
        self.options().memory_target / SPOOL_SHARE
    }

    /// Rows whose keys are looked up, or that fill small files.
    fn change(&self, plan: Arc<WritePlan>, request: WriteRequest, records: Records) -> Result<CommitReport> {
        let mut incoming = KeyedRows::new(intake(&plan, &request), records);
        let spool = incoming.spool(self.spool_bytes())?;
        let (schema, rows) = (incoming.schema().cloned(), incoming.rows());
        let Some(schema) = schema.filter(|_| rows > 0) else { return Ok(nothing(&request, rows)) };
        if request.dry_run {
            let routed = self.route(&plan, &schema, &request, spool)?;
            return Ok(foreseen(&request, rows, &routed.targets, routed.counts.missed));
        }
        let mut transaction = self.begin(&plan, request.operation)?;
        let plan = self.replan(&plan)?;
        request.progress.enter(Phase::Indexing);
        let RoutedRows { spool, targets, counts, new_keys } = self.route(&plan, &schema, &request, spool)?;
        if spool.rows() == 0 {
            transaction.abort()?;
            return Ok(nothing(&request, rows));
        }
        transaction.start(&profile(request.operation, &targets))?;
        request.progress.enter(Phase::Writing);
        request.progress.plan_files(targets.len() as u64);
        let writer = GroupWriter::new(&transaction, &plan);
        let files = execute::by_group(spool, &targets, self.options().threads, |group| {
            let files = writer.write(&schema, group);
            request.progress.file_done();
            files
        })?;
        let Counts { missed, moved } = counts;
        let written = Written { files, missed, moved, new_keys, ..Written::default() };
        self.finish(transaction, &plan, &request, Some(&schema), written, rows)
    }

    /// One row a key, looked up, with its group.
    fn route(
        &self,
        plan: &WritePlan,
        schema: &TableSchema,
        request: &WriteRequest,
        spool: Spool,
    ) -> Result<RoutedRows> {
        let mut assigner = Assigner::new(&plan.snapshot, &*plan.index, plan.sizes);
        let mut routed = Spool::new(self.spool_bytes());
        let (mut counts, mut new_keys) = (Counts::default(), NewKeys::default());
        for bucket in spool.into_buckets()? {
            let keyed = super::columns::Routed::from_batch(bucket.load()?).keyed()?;
            let rows = if plan.tags(request.operation) {
                let keyed = plan.rules.dedupe(keyed, plan.index.is_global())?;
                let mut router = Router {
                    snapshot: &plan.snapshot,
                    index: &*plan.index,
                    rules: &plan.rules,
                    schema,
                    assigner: &mut assigner,
                    moving: plan.moving,
                    memory: usize::try_from(self.spool_bytes()).unwrap_or(usize::MAX),
                    counts,
                };
                let rows = router.route(&keyed)?;
                counts = router.counts;
                new_keys.add(&rows, self.spool_bytes())?;
                rows
            } else {
                let combine = self.options().parsed("hoodie.combine.before.insert", false)?;
                let keyed = if combine { plan.rules.dedupe(keyed, plan.index.is_global())? } else { keyed };
                route::append(&mut assigner, &keyed)?
            };
            let places = execute::places_of(&rows)?;
            if !places.is_empty() {
                routed.push(rows.into_batch(), places)?;
            }
        }
        Ok(RoutedRows { spool: routed, targets: assigner.into_targets(), counts, new_keys })
    }

    /// Rows that go to new files, which may replace what is there.
    fn add(&self, plan: Arc<WritePlan>, request: WriteRequest, records: Records) -> Result<CommitReport> {
        let mut incoming = KeyedRows::new(intake(&plan, &request), records);
        // Small requests are read to their end before anything is written.
        incoming.prefetch(self.spool_bytes())?;
        let replaces_all = request.operation == Operation::InsertOverwriteTable;
        if incoming.is_empty() && !replaces_all {
            return Ok(nothing(&request, 0));
        }
        if request.dry_run {
            while incoming.next()?.is_some() {}
            return Ok(foreseen(&request, incoming.rows(), &[], 0));
        }
        let mut transaction = self.begin(&plan, request.operation)?;
        let plan = self.replan(&plan)?;
        transaction.start(&profile(request.operation, &[]))?;
        request.progress.enter(Phase::Writing);
        let writer = GroupWriter::new(&transaction, &plan);
        let threads = self.options().threads.max(1);
        let bulk = Bulk {
            open: &|partition, file_id, schema| writer.open_new(partition, file_id, schema),
            index: &*plan.index,
            file_max: plan.sizes.max,
            threads,
            open_max: ((self.options().memory_target / 2 / OPEN_FILE) as usize / threads).max(1),
            budget: self.spool_bytes(),
        };
        let files = bulk.write(&mut incoming)?;
        let mut written = Written { files, ..Written::default() };
        if request.operation.replaces() {
            let partitions = match replaces_all {
                true => plan.snapshot.partitions()?.iter().map(|p| p.as_str().to_owned()).collect(),
                false => written.files.iter().map(|f| f.partition.clone()).collect::<BTreeSet<String>>(),
            };
            self.replace(&plan, partitions, &mut written)?;
        }
        let (schema, rows) = (incoming.schema().cloned(), incoming.rows());
        self.finish(transaction, &plan, &request, schema.as_ref(), written, rows)
    }

    fn delete_partitions(&self, plan: Arc<WritePlan>, request: &WriteRequest) -> Result<CommitReport> {
        let known = plan.snapshot.partitions()?;
        for partition in &request.partitions {
            let path = TablePath::parse(partition).map_err(|e| e.in_partition(partition))?;
            if known.binary_search(&path).is_err() {
                let message = format!("there is no partition {partition:?} to delete");
                return Err(Error::not_found(message).in_partition(partition).with_hint("`hudifs files` lists them"));
            }
        }
        let mut written = Written::default();
        if request.dry_run {
            self.replace(&plan, request.partitions.iter().cloned().collect(), &mut written)?;
            let mut report = foreseen(request, 0, &[], 0);
            outcome::report(&mut report, &[], &written.replaced);
            return Ok(report);
        }
        let mut transaction = self.begin(&plan, request.operation)?;
        let plan = self.replan(&plan)?;
        transaction.start(&profile(request.operation, &[]))?;
        self.replace(&plan, request.partitions.iter().cloned().collect(), &mut written)?;
        let schema = plan.schema.clone();
        self.finish(transaction, &plan, request, schema.as_ref(), written, 0)
    }

    /// Every group of the partitions is replaced.
    fn replace(&self, plan: &WritePlan, partitions: BTreeSet<String>, written: &mut Written) -> Result<()> {
        for partition in partitions {
            let slices = plan.snapshot.file_slices(&TablePath::parse(&partition)?)?;
            written.replaced.insert(partition.clone(), slices.into_iter().map(|s| s.file_id).collect());
            written.exclusive.push(partition);
        }
        Ok(())
    }

    fn begin(&self, plan: &WritePlan, operation: Operation) -> Result<Transaction> {
        let (action, content) = match (operation.replaces(), plan.merge_on_read) {
            (true, _) => {
                // As Hudi states it: for partitions that are deleted, and not for overwrites.
                let stated = (operation == Operation::DeletePartition).then(|| operation.name());
                (Action::ReplaceCommit, RequestedReplace::encode_without_plan(stated)?.into())
            }
            (false, true) => (Action::DeltaCommit, Bytes::new()),
            (false, false) => (Action::Commit, Bytes::new()),
        };
        Transaction::begin(self.session.clone(), action, content)
    }

    /// The plan as of now, with the transaction begun. Rows were brought to the columns that the table had before.
    fn replan(&self, old: &Arc<WritePlan>) -> Result<Arc<WritePlan>> {
        let snapshot = self.newest()?;
        if Arc::ptr_eq(&snapshot, &old.snapshot) {
            return Ok(old.clone());
        }
        let plan = Arc::new(WritePlan::new(snapshot, self.options())?);
        let text = |plan: &WritePlan| plan.schema.as_ref().map(|s| s.avro().to_owned());
        if text(&plan) != text(old) {
            return Err(Error::new(ErrorKind::Conflict, "another writer changed the table's columns meanwhile")
                .with_hint("send the request again"));
        }
        Ok(plan)
    }

    fn finish(
        &self,
        transaction: Transaction,
        plan: &WritePlan,
        request: &WriteRequest,
        schema: Option<&TableSchema>,
        written: Written,
        rows: u64,
    ) -> Result<CommitReport> {
        request.progress.enter(Phase::Committing);
        let mut extra = request.extra.clone();
        extra.extend(schema.map(|s| ("schema".to_owned(), s.avro().to_owned())));
        extra.extend(request.idempotency_key.iter().map(|key| (IDEMPOTENCY_KEY.to_owned(), key.clone())));
        let metadata = outcome::metadata(request.operation.name(), &written.files, &written.replaced, extra);
        let mut report = started(request, rows);
        report.services.extend(transaction.rolled_back().iter().map(|instant| ServiceReport {
            service: "rollback".to_owned(),
            instant: Some(instant.to_string()),
            items: 1,
            detail: "a failed write".to_owned(),
        }));
        let duty = MetadataDuty::new(self.session, plan, &written.files, &written.replaced)?;
        let instant = transaction.instant();
        let committed = transaction.commit(metadata, &written.exclusive, |critical| {
            recheck::check(self.table, plan, &written.new_keys, critical)?;
            duty.update(critical, instant)
        })?;
        report.instant = Some(committed.instant.requested.to_string());
        report.action = committed.instant.action.name().to_owned();
        outcome::report(&mut report, &written.files, &written.replaced);
        if written.missed > 0 {
            report.warnings.push(format!("{} keys to delete are not in the table", written.missed));
        }
        if written.moved > 0 && plan.merge_on_read {
            report.warnings.push(format!(
                "{} keys moved to another partition; until a compaction the read-optimized view shows them in both",
                written.moved
            ));
        }
        self.table.refresh()?;
        Ok(report)
    }
}

fn intake<'a>(plan: &'a WritePlan, request: &'a WriteRequest) -> Intake<'a> {
    Intake {
        operation: request.operation,
        known: plan.schema.clone(),
        table_name: plan.snapshot.config().name(),
        keys: &plan.keys,
        rules: &plan.rules,
        global: plan.index.is_global(),
        progress: &request.progress,
    }
}

/// The report of an earlier commit with the request's key.
fn replayed(snapshot: &Snapshot, request: &WriteRequest) -> Result<Option<CommitReport>> {
    let Some(key) = &request.idempotency_key else { return Ok(None) };
    let timeline = snapshot.timeline();
    for instant in timeline.writes().rev() {
        let metadata = match timeline.commit_metadata(&**snapshot.storage(), instant) {
            Ok(metadata) => metadata,
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => continue,
            Err(e) => return Err(e),
        };
        if metadata.extra.get(IDEMPOTENCY_KEY) != Some(key) {
            continue;
        }
        let mut report = started(request, 0);
        if metadata.operation.as_deref() != Some(request.operation.name()) {
            return Err(Error::invalid(format!(
                "the idempotency key {key:?} belongs to the {} of {}",
                metadata.operation.as_deref().unwrap_or("write"),
                instant.requested
            ))
            .with_hint("use another key for another request"));
        }
        report.instant = Some(instant.requested.to_string());
        report.action = instant.action.name().to_owned();
        outcome::replay(&mut report, &metadata);
        return Ok(Some(report));
    }
    Ok(None)
}

/// What is about to be written, for an inflight instant: a group a stat.
fn profile(operation: Operation, targets: &[Target]) -> CommitMetadata {
    let mut metadata = CommitMetadata { operation: Some(operation.name().to_owned()), ..CommitMetadata::default() };
    let mut inserts: BTreeMap<&str, u64> = BTreeMap::new();
    for target in targets {
        match &target.slice {
            Some(slice) => metadata.add(
                &target.partition,
                WriteStat {
                    file_id: target.file_id.clone(),
                    previous: Some(slice.base_instant.to_string()),
                    num_updates: target.updates,
                    num_inserts: target.inserts,
                    ..WriteStat::default()
                },
            ),
            None => *inserts.entry(&target.partition).or_default() += target.inserts,
        }
    }
    for (partition, num_inserts) in inserts {
        metadata.add(partition, WriteStat { num_inserts, ..WriteStat::default() });
    }
    metadata
}

fn started(request: &WriteRequest, rows: u64) -> CommitReport {
    CommitReport {
        operation: request.operation.name().to_owned(),
        rows,
        dry_run: request.dry_run,
        ..CommitReport::default()
    }
}

fn nothing(request: &WriteRequest, rows: u64) -> CommitReport {
    let mut report = started(request, rows);
    report.warnings.push("the request changes nothing: there is no commit".to_owned());
    report
}

/// What a dry run tells.
fn foreseen(request: &WriteRequest, rows: u64, targets: &[Target], missed: u64) -> CommitReport {
    let mut report = started(request, rows);
    report.files = targets
        .iter()
        .filter(|t| t.updates + t.inserts > 0)
        .map(|t| FileReport {
            partition: t.partition.clone(),
            file_id: t.slice.as_ref().map(|_| t.file_id.clone()).unwrap_or_default(),
            inserted: t.inserts,
            updated: if request.operation == Operation::Delete { 0 } else { t.updates },
            deleted: if request.operation == Operation::Delete { t.updates } else { 0 },
            ..FileReport::default()
        })
        .collect();
    for file in &report.files {
        report.inserted += file.inserted;
        report.updated += file.updated;
        report.deleted += file.deleted;
    }
    if missed > 0 {
        report.warnings.push(format!("{missed} keys to delete are not in the table"));
    }
    report
}
