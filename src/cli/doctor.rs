//! `hudifs doctor`: looks at a table and at this machine, and explains what it finds.
//!
//! Nothing is written and nothing is repaired. A check that cannot be made is a finding too, so that silence means health.
//! `machine` looks around, `table` at properties and timeline, `partitions` at files; `finding` is what they report.

mod finding;
mod machine;
mod partitions;
mod table;

use super::args::DoctorArgs;
use super::output;
use super::target::Target;
use super::{Stop, exit};
use crate::storage::Storage;
use finding::{Area, Findings, Severity};
use serde_json::{Value, json};
use std::sync::Arc;

/// Checks, prints, and ends with the code of the worst finding: 0 for notes, 1 for warnings and troubles of the machine, 12
/// for a damaged table, 10 where there is none.
pub fn run(args: &DoctorArgs) -> Result<(), Stop> {
    let mut findings = Findings::default();
    machine::check(&mut findings);
    let mut no_table = false;
    if let Some(target) = &args.target {
        no_table = !check_target(target, args, &mut findings)?;
    }
    if args.json {
        output::json(&json!({ "findings": findings.shown(args.verbose), "summary": findings.summary() }))?;
    } else {
        findings.write(&mut output::stdout(), args.verbose)?;
    }
    match findings.worst() {
        _ if no_table => Err(Stop::Said(exit::NO_TABLE)),
        Some((Severity::Error, Area::Table)) => Err(Stop::Said(exit::DAMAGED)),
        Some((Severity::Error | Severity::Warning, _)) => Err(Stop::Said(exit::FAILURE)),
        _ => Ok(()),
    }
}

/// Checks the tables that a target leads to. False if there is no such table.
fn check_target(target: &str, args: &DoctorArgs, findings: &mut Findings) -> Result<bool, Stop> {
    let is_mount = super::target::mount_of(std::path::Path::new(target)).is_some();
    if !is_mount {
        return Ok(check_uri(target, args, findings));
    }
    let status = Target::find(target, &args.store)?.status()?;
    for table in status.get("tables").and_then(Value::as_array).into_iter().flatten() {
        let uri = table.get("uri").and_then(Value::as_str).unwrap_or_default();
        check_uri(uri, args, findings);
    }
    daemon(&status, findings);
    Ok(true)
}

fn check_uri(uri: &str, args: &DoctorArgs, findings: &mut Findings) -> bool {
    let opened = super::settings::storage_options(&args.store).and_then(|o| crate::storage::open(uri, &o));
    let storage: Arc<dyn Storage> = match opened {
        Ok(storage) => storage,
        Err(error) => {
            findings.table_error("storage", uri, &error);
            return false;
        }
    };
    table::check(&storage, findings)
}

/// What a running daemon has noticed.
fn daemon(status: &Value, findings: &mut Findings) {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    for event in status.get("events").and_then(Value::as_array).into_iter().flatten() {
        let subject = [text(event, "table"), text(event, "partition"), text(event, "file")];
        let subject: Vec<String> = subject.into_iter().filter(|t| !t.is_empty()).collect();
        let message = format!("{}: {}", text(event, "code"), text(event, "message"));
        findings.warn(Area::Daemon, "event", &subject.join(" "), &message, &text(event, "hint"));
    }
}
