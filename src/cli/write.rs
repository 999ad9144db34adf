//! The commands that change a table: through its daemon, or straight on its URI.
//!
//! Both ways end in the same calls of [`crate::control::writes::Writes`], so they answer alike. Interrupted, a command breaks off what
//! still reads its records, and lets end what is being committed.

mod local;
mod remote;
mod source;

use super::args::{DeletePartitionArgs, RowsArgs, ServiceArgs, WriteArgs};
use super::output::{self, printable};
use super::progress::{Bar, thousands};
use super::target::Target;
use super::{Stop, exit};
use crate::control::job::Outcome;
use crate::control::types::Services;
use crate::control::writes::{CallOptions, ServiceCall};
use crate::error::{Error, ErrorKind};
use crate::write::{CommitReport, Operation, ServiceReport};
use source::Source;
use std::io::Write;
use std::time::Duration;

/// What is to be written.
struct Order {
    operation: Operation,
    sources: Vec<Source>,
    partitions: Vec<String>,
    dry_run: bool,
    idempotency_key: Option<String>,
    options: CallOptions,
}

/// A command that takes rows.
pub fn rows(operation: Operation, args: &RowsArgs) -> Result<(), Stop> {
    let sources = source::open(args)?;
    run(Order { operation, sources, partitions: Vec::new(), ..order(operation, &args.write) }, &args.write)
}

/// `hudifs delete-partition`.
pub fn delete_partition(args: &DeletePartitionArgs) -> Result<(), Stop> {
    let order = order(Operation::DeletePartition, &args.write);
    run(Order { partitions: args.partitions.clone(), ..order }, &args.write)
}

/// A table service.
pub fn service(call: ServiceCall, args: &ServiceArgs) -> Result<(), Stop> {
    let settings = args.set.iter().cloned().collect();
    let options =
        CallOptions { settings, drop_unsupported_index: args.drop_unsupported_index, ..CallOptions::default() };
    let target = Target::find(&args.target, &args.store)?;
    let mut bar = Bar::new(call.name());
    let outcome = match &target {
        Target::Daemon { client, .. } => remote::service(client, &target.table_name(None)?, &call, &options, &mut bar),
        Target::Direct(service) => local::service(service, call.clone(), options, &mut bar),
    }?;
    drop(bar);
    let services = match outcome {
        Outcome::Services(services) => services,
        Outcome::Commit(report) => report.services,
    };
    // Each report of a comparison is something that differs.
    let damaged = matches!(call, ServiceCall::VerifyMetadata) && !services.is_empty();
    let end = if damaged { Err(Stop::Said(exit::DAMAGED)) } else { Ok(()) };
    if args.json {
        return output::json(&Services { services }).and(end);
    }
    let mut out = output::stdout();
    match call {
        _ if !services.is_empty() => {}
        ServiceCall::VerifyMetadata => writeln!(out, "metadata_verify: the metadata table is right")?,
        _ => writeln!(out, "{}: nothing to do", call.name())?,
    }
    for report in &services {
        writeln!(out, "{}", service_line(report))?;
    }
    out.flush()?;
    end
}

fn order(operation: Operation, args: &WriteArgs) -> Order {
    Order {
        operation,
        sources: Vec::new(),
        partitions: Vec::new(),
        dry_run: args.dry_run,
        idempotency_key: args.idempotency_key.clone(),
        options: CallOptions {
            index: args.index,
            settings: args.set.iter().cloned().collect(),
            no_services: args.no_services,
            drop_unsupported_index: args.drop_unsupported_index,
        },
    }
}

fn run(order: Order, args: &WriteArgs) -> Result<(), Stop> {
    let target = Target::find(&args.table, &args.store)?;
    let mut bar = Bar::new(&name(order.operation).replace('_', "-"));
    let outcome = match &target {
        Target::Daemon { client, .. } => remote::write(client, &target.table_name(None)?, order, &mut bar),
        Target::Direct(service) => local::write(service, order, &mut bar),
    }?;
    let took = bar.elapsed();
    drop(bar);
    let Outcome::Commit(report) = outcome else {
        return Err(Error::internal("a write was answered as a table service").into());
    };
    if args.json { output::json(&report) } else { tell(&report, took) }
}

/// Hudi's name of an operation in lower case, as in paths of the control socket.
fn name(operation: Operation) -> String {
    operation.name().to_ascii_lowercase()
}

/// Why a write failed: wrong rows are no wrong command line.
fn failed(error: Error) -> Stop {
    match error.kind() {
        ErrorKind::Invalid => Stop::Failed(error, exit::FAILURE),
        _ => error.into(),
    }
}

fn tell(report: &CommitReport, took: Duration) -> Result<(), Stop> {
    let mut out = output::stdout();
    let operation = report.operation.to_ascii_lowercase().replace('_', "-");
    match &report.instant {
        _ if report.dry_run => writeln!(out, "{operation}: a dry run, nothing was written")?,
        Some(instant) if report.replayed => writeln!(out, "{operation}: committed before as {instant}")?,
        Some(instant) => writeln!(out, "{operation}: committed as {instant} in {:.2} s", took.as_secs_f64())?,
        None => writeln!(out, "{operation}: nothing changed")?,
    }
    let (inserted, updated, deleted) = (report.inserted, report.updated, report.deleted);
    let [rows, inserted, updated, deleted] = [report.rows, inserted, updated, deleted].map(thousands);
    writeln!(out, "  {rows} rows: {inserted} inserted, {updated} updated, {deleted} deleted")?;
    let bytes = report.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
    let mut partitions: Vec<&str> = report.files.iter().map(|f| f.partition.as_str()).collect();
    partitions.sort_unstable();
    partitions.dedup();
    let (files, partitions) = (report.files.len(), partitions.len());
    if report.dry_run {
        writeln!(out, "  {files} files in {partitions} partitions")?;
        plan(report, &mut out)?;
    } else if files > 0 {
        writeln!(out, "  {files} files in {partitions} partitions, {}", output::size(bytes))?;
    }
    if report.replaced > 0 {
        writeln!(out, "  {} file groups replaced", thousands(report.replaced))?;
    }
    for service in &report.services {
        writeln!(out, "  {}", service_line(service))?;
    }
    for warning in &report.warnings {
        writeln!(out, "  warning: {}", printable(warning))?;
    }
    out.flush()?;
    Ok(())
}

/// What a dry run found, a line a file.
fn plan(report: &CommitReport, out: &mut impl Write) -> Result<(), Stop> {
    let mut columns = output::Columns::new(&["PARTITION", "FILE GROUP", ">INSERTED", ">UPDATED", ">DELETED"]);
    for file in &report.files {
        let group = if file.file_id.is_empty() { "new" } else { &file.file_id };
        let counts = [file.inserted, file.updated, file.deleted].map(thousands);
        columns.row([printable(&file.partition), printable(group)].into_iter().chain(counts));
    }
    Ok(columns.write(out)?)
}

fn service_line(report: &ServiceReport) -> String {
    let at = report.instant.as_deref().map(|i| format!(" at {i}")).unwrap_or_default();
    let detail = if report.detail.is_empty() { String::new() } else { format!(": {}", printable(&report.detail)) };
    format!("{}{at}, {} items{detail}", printable(&report.service), thousands(report.items))
}
