//! [`Writing`]: the orders of the control socket and of the command line, carried out.
//!
//! Writes to one table take turns, in the order in which they were taken; each is a job on a thread of its own, and its result is
//! told only after the mount shows the commit. What other processes write is kept apart by the table's lock and by the
//! writer's check for conflicts, not here.
//!
//! `jobs` keeps what runs and what ended lately, `turns` the order, `transactions` the requests that share a commit, `rows` turns
//! bodies into batches, `create` makes tables,
//! `metadata` verifies and rebuilds metadata tables.

mod create;
mod jobs;
mod metadata;
mod rows;
mod transactions;
mod turns;

use super::service::{Entry, Renewal, Service};
use crate::control::body::RecordBody;
use crate::control::job::{Job, Outcome};
use crate::control::problem::{Failure, Problem};
use crate::control::types::*;
use crate::control::writes::{CallOptions, ServiceCall, WriteCall, Writes};
use crate::error::{Error, ErrorKind, Result};
use crate::telemetry::label::{WriteOperation, WriteResult};
use crate::telemetry::metric;
use crate::write::{CommitReport, Phase, WriteRequest, Writer, WriterOptions};
use jobs::Registry;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use transactions::Pool;
use turns::Turns;

pub use create::create_table;

/// Carries out orders on the tables of a service. Cheap to clone.
#[derive(Clone)]
pub struct Writing(Arc<Inner>);

struct Inner {
    service: Arc<Service>,
    jobs: Registry,
    transactions: Arc<Pool>,
    tables: Mutex<BTreeMap<String, Arc<Table>>>,
    /// Set once: no new work, and no more rows of work that still reads them.
    ending: Arc<AtomicBool>,
}

/// What writing keeps of a table.
#[derive(Default)]
struct Table {
    turns: Turns,
    /// The writer of the last call and what it was opened with. Used in one's turn only.
    writer: Mutex<Option<(CallOptions, Arc<Writer>)>>,
}

impl Writing {
    /// Orders for the tables of `service`.
    pub fn new(service: Arc<Service>) -> Writing {
        Writing(Arc::new(Inner {
            service,
            jobs: Registry::default(),
            transactions: Arc::default(),
            tables: Mutex::default(),
            ending: Arc::default(),
        }))
    }

    /// Takes no new work, drops open transactions, and waits for running work, at most so long. False if some still runs: it
    /// is left to the next writer to roll back.
    pub fn end(&self, patience: Duration) -> bool {
        self.0.ending.store(true, Ordering::SeqCst);
        self.0.transactions.clear();
        let limit = Instant::now() + patience;
        let running = self.0.jobs.running();
        if !running.is_empty() {
            tracing::info!(running = running.len(), "waiting for writes to finish");
        }
        running.iter().all(|job| job.wait(limit.saturating_duration_since(Instant::now())).is_some())
    }

    fn refuse_if_ending(&self) -> Result<()> {
        if !self.0.ending.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unavailable, "the daemon is ending and takes no new writes")
            .with_hint("mount again and send it again"))
    }

    fn table(&self, name: &str) -> Arc<Table> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone()
    }

    /// The table that a call names, if it can be written to.
    fn entry(&self, name: &str) -> Result<Arc<Entry>, Failure> {
        self.refuse_if_ending()?;
        let entry = self.0.service.entry(name)?;
        self.0.service.check_writable(&entry)?;
        Ok(entry)
    }

    /// Takes work on a table: it runs in its turn, on a thread of its own.
    fn take(
        &self,
        entry: Arc<Entry>,
        operation: WriteOperation,
        work: impl FnOnce(&Running<'_>) -> Result<Outcome, Failure> + Send + 'static,
        after: impl FnOnce(&Result<Outcome, Failure>) + Send + 'static,
    ) -> Result<Arc<Job>, Failure> {
        let job = self.0.jobs.add(entry.name(), operation.as_str())?;
        let table = self.table(entry.name());
        // Taken here, so that the order of turns is the order of calls.
        let ticket = table.turns.ticket();
        let (writing, taken) = (self.clone(), job.clone());
        let run = move || {
            let start = Instant::now();
            let running = Running { writing: &writing, table: &table, entry: &entry, job: &taken };
            ticket.wait();
            let result = catch_unwind(AssertUnwindSafe(|| {
                writing.refuse_if_ending()?;
                // Services after a commit remove files: what readers hold at this moment must be known to them.
                writing.0.service.renew_lease(&entry, Renewal::Now);
                work(&running)
            }));
            let result = result.unwrap_or_else(|_| Err(mistake(&entry)));
            drop(ticket);
            note(operation, &entry, &result, start);
            after(&result);
            taken.progress().enter(Phase::Done);
            writing.0.jobs.finish(&taken, result);
        };
        if let Err(error) = std::thread::Builder::new().name("write".to_owned()).spawn(run) {
            // The closure is gone, and its place in the line with it.
            let failure = Failure::from(Error::io("thread", error));
            self.0.jobs.finish(&job, Err(failure.clone()));
            return Err(failure);
        }
        Ok(job)
    }

    fn take_write(
        &self,
        entry: Arc<Entry>,
        mut call: WriteCall,
        after: impl FnOnce(&Result<Outcome, Failure>) + Send + 'static,
    ) -> Result<Arc<Job>, Failure> {
        let operation = WriteOperation::from(call.operation);
        let work = move |running: &Running<'_>| {
            let writer = running.writer(&call.options)?;
            let schema = running.schema(&writer)?;
            let bodies = std::mem::take(&mut call.bodies);
            let stop = running.writing.0.ending.clone();
            let records = if bodies.is_empty() { None } else { Some(rows::records(bodies, schema, stop)?) };
            let report = writer.run(WriteRequest {
                operation: call.operation,
                records,
                partitions: call.partitions,
                dry_run: call.dry_run,
                idempotency_key: call.idempotency_key,
                extra: BTreeMap::new(),
                progress: running.job.progress().clone(),
            })?;
            Ok(Outcome::Commit(running.shown(report)))
        };
        self.take(entry, operation, work, after)
    }
}

/// A job in its turn.
struct Running<'a> {
    writing: &'a Writing,
    table: &'a Table,
    entry: &'a Entry,
    job: &'a Job,
}

impl Running<'_> {
    /// A writer that works as the call wants it.
    fn writer(&self, options: &CallOptions) -> Result<Arc<Writer>> {
        let mut kept = self.table.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((with, writer)) = &*kept
            && with == options
        {
            return Ok(writer.clone());
        }
        let storage = self.writing.0.service.storage_of(self.entry)?;
        let default = WriterOptions::default();
        let writer = Arc::new(Writer::open(
            storage,
            WriterOptions {
                memory_target: self.writing.0.service.memory_target().unwrap_or(default.memory_target),
                index: options.index,
                settings: options.settings.clone(),
                inline_services: !options.no_services,
                drop_unsupported_index: options.drop_unsupported_index,
                ..default
            },
        )?);
        *kept = Some((options.clone(), writer.clone()));
        Ok(writer)
    }

    /// The columns of the table, for bodies that do not say their types themselves.
    fn schema(&self, writer: &Writer) -> Result<Option<crate::record::TableSchema>> {
        writer.table().refresh()?;
        crate::record::schema::of_snapshot(&writer.table().snapshot())
    }

    /// Makes the mount show a commit before its answer is given.
    fn shown(&self, mut report: CommitReport) -> CommitReport {
        if report.instant.is_some()
            && let Some(problem) = self.publish()
        {
            report.warnings.push(format!("committed, but the mount does not show it yet: {}", problem.detail));
        }
        report
    }

    /// Refreshes what the mount shows of the table; the problem, if that fails.
    fn publish(&self) -> Option<Problem> {
        self.writing.0.service.refresh_table(self.entry).error
    }
}

impl Writes for Writing {
    fn check(&self, table: &str) -> Result<(), Failure> {
        self.entry(table).map(|_| ())
    }

    fn create(&self, request: &CreateRequest) -> Result<TableStatus, Failure> {
        self.refuse_if_ending()?;
        let result = create::in_warehouse(&self.0.service, request);
        let outcome = if result.is_ok() { WriteResult::Done } else { WriteResult::Failed };
        metric::WRITES.inc((WriteOperation::Create, outcome));
        result
    }

    fn write(&self, table: &str, call: WriteCall) -> Result<Arc<Job>, Failure> {
        self.take_write(self.entry(table)?, call, |_| {})
    }

    fn service(&self, table: &str, call: ServiceCall, options: CallOptions) -> Result<Arc<Job>, Failure> {
        let operation = WriteOperation::from(&call);
        let work = move |running: &Running<'_>| {
            let writer = running.writer(&options)?;
            let services = match call {
                ServiceCall::Clean => writer.clean()?.into_iter().collect(),
                ServiceCall::Compact => writer.compact()?,
                ServiceCall::Archive => writer.archive()?.into_iter().collect(),
                ServiceCall::Rollback(instant) => writer.rollback(instant.as_deref())?,
                ServiceCall::VerifyMetadata => metadata::verify(&writer)?,
                ServiceCall::RebuildMetadata(partitions) => vec![metadata::rebuild(&writer, &partitions)?],
            };
            match running.publish() {
                Some(problem) => Err(problem.into()),
                None => Ok(Outcome::Services(services)),
            }
        };
        self.take(self.entry(table)?, operation, work, |_| {})
    }

    fn job(&self, id: &str) -> Result<Arc<Job>, Failure> {
        self.0.jobs.get(id)
    }

    fn jobs(&self) -> Jobs {
        Jobs { jobs: self.0.jobs.all().iter().map(|job| job.status()).collect() }
    }

    fn begin(&self, request: &BeginRequest) -> Result<Transaction, Failure> {
        let entry = self.entry(request.table.as_deref().unwrap_or_default())?;
        self.0.transactions.begin(entry.name(), request)
    }

    fn transactions(&self) -> Transactions {
        Transactions { transactions: self.0.transactions.list() }
    }

    fn transaction(&self, id: &str) -> Result<Transaction, Failure> {
        self.0.transactions.get(id)
    }

    fn append(&self, id: &str, body: RecordBody) -> Result<Transaction, Failure> {
        let table = self.0.transactions.get(id)?.table;
        let schema = crate::record::schema::of_snapshot(&*self.0.service.snapshot_of(&*self.entry(&table)?)?)?;
        // Read through now, so that the request which brings a bad row is the one that is refused.
        let rows = rows::count(&body, schema, self.0.ending.clone()).map_err(|e| Failure::from(e).table(table))?;
        self.0.transactions.append(id, body, rows)
    }

    fn commit(&self, id: &str, dry_run: bool, idempotency_key: Option<String>) -> Result<Arc<Job>, Failure> {
        let (table, mut call) = self.0.transactions.commit(id)?;
        call.dry_run = dry_run;
        call.idempotency_key = idempotency_key;
        let (pool, this) = (self.0.transactions.clone(), id.to_owned());
        let after = move |result: &Result<Outcome, Failure>| match result {
            Ok(_) if !dry_run => pool.close(&this),
            _ => pool.reopen(&this),
        };
        let taken = self.entry(&table).and_then(|entry| self.take_write(entry, call, after));
        taken.inspect_err(|_| self.0.transactions.reopen(id))
    }

    fn abort(&self, id: &str) -> Result<(), Failure> {
        self.0.transactions.abort(id)
    }
}

fn mistake(entry: &Entry) -> Failure {
    use crate::telemetry::event::{Event, EventCode};
    let message = "a write failed by a mistake of hudifs; what it left is rolled back by the next one";
    Event::new(EventCode::Internal, message)
        .table(entry.name())
        .hint("report it with the log's lines around it")
        .record();
    Problem::new("internal", message).hint("the daemon's log says more").into()
}

/// Counts and logs how a job ended.
fn note(operation: WriteOperation, entry: &Entry, result: &Result<Outcome, Failure>, start: Instant) {
    let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (table, operation_name) = (entry.name(), operation.as_str());
    let outcome = match result {
        Ok(Outcome::Commit(report)) => {
            let (instant, rows) = (report.instant.as_deref().unwrap_or("none"), report.rows);
            if !report.dry_run && !report.replayed {
                metric::WRITE_ROWS.add((), rows);
            }
            tracing::info!(table, instant, rows, took_ms, "{operation_name}: done");
            WriteResult::Done
        }
        Ok(Outcome::Services(services)) => {
            tracing::info!(table, services = services.len(), took_ms, "{operation_name}: done");
            WriteResult::Done
        }
        Err(Failure(problem)) => {
            tracing::warn!(
                table,
                code = problem.code,
                hint = problem.hint,
                took_ms,
                "{operation_name}: {}",
                problem.detail
            );
            if problem.code == "conflict" { WriteResult::Conflict } else { WriteResult::Failed }
        }
    };
    metric::WRITES.inc((operation, outcome));
    metric::WRITE_DURATION.observe_since(operation, start);
}

impl From<crate::write::Operation> for WriteOperation {
    fn from(operation: crate::write::Operation) -> WriteOperation {
        use crate::write::Operation as Of;
        match operation {
            Of::Upsert => WriteOperation::Upsert,
            Of::Insert => WriteOperation::Insert,
            Of::BulkInsert => WriteOperation::BulkInsert,
            Of::Delete => WriteOperation::Delete,
            Of::DeletePartition => WriteOperation::DeletePartition,
            Of::InsertOverwrite => WriteOperation::InsertOverwrite,
            Of::InsertOverwriteTable => WriteOperation::InsertOverwriteTable,
        }
    }
}

impl From<&ServiceCall> for WriteOperation {
    fn from(call: &ServiceCall) -> WriteOperation {
        match call {
            ServiceCall::Clean => WriteOperation::Clean,
            ServiceCall::Compact => WriteOperation::Compact,
            ServiceCall::Archive => WriteOperation::Archive,
            ServiceCall::Rollback(_) => WriteOperation::Rollback,
            ServiceCall::VerifyMetadata => WriteOperation::VerifyMetadata,
            ServiceCall::RebuildMetadata(_) => WriteOperation::RebuildMetadata,
        }
    }
}
