//! Cleaning: files that no reader needs any more are removed.
//!
//! Which files, Hudi's policies say; what is left out of Hudi's choice is what somebody still reads: views and open files
//! that leases name ([`crate::table::lease`]), files that this process serves, and all that something took the place of within
//! the grace period. A clean is an instant with a plan, so that one that was cut off is finished by the next. The lock is held
//! while it is planned and while it completes, not while files are removed. Format: docs/format.md, "Cleaning".

mod choose;
mod execute;
mod held;
mod plan;
mod settings;

pub use settings::{CleanPolicy, CleanSettings};

use super::report::ServiceReport;
use super::session::{Critical, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, Layout, State};
use crate::format::plan::{CleanMetadata, CleanPlan};
use crate::metadata::write::MetadataWriter;
use crate::storage::{Storage, TablePath};
use crate::table::{Snapshot, Table, TableOptions};
use crate::timeline::{InstantWriter, Timeline};
use bytes::Bytes;
use held::Held;
use std::sync::Arc;
use std::time::SystemTime;

/// Where the metadata table lies.
pub(super) const METADATA: &str = ".hoodie/metadata";

/// Finishes cleans that were cut off, then cleans the table if it is time, or if `force` says so, and its metadata table with
/// it. `None` where there was nothing to remove.
///
/// `Conflict` where readers hold the whole table, if `force`; else the clean waits for another time.
pub fn run(session: &Session, force: bool) -> Result<Option<ServiceReport>> {
    let settings = CleanSettings::new(session.options())?;
    let storage = session.storage();
    let held = Held::load(&**storage, session.options().protected.as_ref())?;
    if let Some(why) = &held.everything {
        tracing::warn!(%why, "nothing is cleaned");
        let refused = Error::new(ErrorKind::Conflict, format!("nothing is cleaned: {why}"));
        return if force { Err(refused) } else { Ok(None) };
    }
    let mut report = None;
    while let Some((clean, plan)) = cut_off(session)? {
        tracing::info!(%clean, "a clean that was cut off is carried out");
        merge(&mut report, carry_out(session, &clean, &plan, &held)?);
    }
    if let Some((clean, plan)) = request(session, &settings, &held, force)? {
        merge(&mut report, carry_out(session, &clean, &plan, &held)?);
    }
    let critical = session.critical()?;
    metadata_table(session, &critical, &settings)?;
    Ok(report)
}

/// The oldest pending clean and its plan. One whose plan was cut off is taken away.
fn cut_off(session: &Session) -> Result<Option<(Instant, CleanPlan)>> {
    let critical = session.critical()?;
    pending(&**session.storage(), critical.timeline(), critical.instants())
}

fn pending(
    storage: &dyn Storage,
    timeline: &Timeline,
    instants: &InstantWriter,
) -> Result<Option<(Instant, CleanPlan)>> {
    for clean in timeline.pending().filter(|i| i.action == Action::Clean) {
        let requested = Instant { state: State::Requested, completion: None, ..*clean };
        let bytes = timeline.read(storage, &requested)?;
        if bytes.is_empty() {
            instants.delete_pending(clean)?;
            continue;
        }
        return Ok(Some((*clean, CleanPlan::parse(&bytes).map_err(|e| e.context(clean))?)));
    }
    Ok(None)
}

/// Plans a clean; `None` if there is nothing to do.
fn request(
    session: &Session,
    settings: &CleanSettings,
    held: &Held,
    force: bool,
) -> Result<Option<(Instant, CleanPlan)>> {
    let critical = session.critical()?;
    let due = || Ok::<_, Error>(settings.automatic && is_time(session.storage(), critical.timeline(), settings)?);
    if !(force || due()?) {
        return Ok(None);
    }
    let snapshot = snapshot(session.storage())?;
    let plan = plan::make(&snapshot, settings, held, now_ms())?;
    if plan.is_empty() {
        return Ok(None);
    }
    let content = Bytes::from(plan.encode()?);
    let clean = critical.request(Action::Clean, content.clone(), |_| Ok(()))?;
    Ok(Some((critical.instants().start(&clean, inflight(critical.timeline(), content))?, plan)))
}

/// Layout 1 keeps the plan in the inflight file too.
fn inflight(timeline: &Timeline, plan: Bytes) -> Bytes {
    if timeline.config().layout() == Layout::V2 { Bytes::new() } else { plan }
}

/// True if there are commits enough since the last clean.
fn is_time(storage: &Arc<dyn Storage>, timeline: &Timeline, settings: &CleanSettings) -> Result<bool> {
    let last = timeline.completed().rfind(|i| i.action == Action::Clean);
    let since = match last {
        Some(last) => CleanMetadata::parse(&timeline.read(&**storage, last)?)?.last_completed,
        None => String::new(),
    };
    let commits = timeline.writes().filter(|w| w.requested.as_str() > since.as_str()).count();
    Ok(commits >= settings.after_commits)
}

/// All that follows the plan.
fn carry_out(session: &Session, clean: &Instant, plan: &CleanPlan, held: &Held) -> Result<ServiceReport> {
    let storage = session.storage();
    let clean = match clean.state {
        State::Requested => {
            let critical = session.critical()?;
            let content = Bytes::from(plan.encode()?);
            critical.instants().start(clean, inflight(critical.timeline(), content))?
        }
        _ => *clean,
    };
    let metadata = execute::run(&**storage, clean.requested, plan, held)?;
    let critical = session.critical()?;
    let is_it = |i: &&Instant| i.requested == clean.requested && i.action == Action::Clean;
    match critical.timeline().instants().iter().find(is_it) {
        // Another process was faster.
        Some(done) if done.is_completed() => return Ok(report(&metadata)),
        Some(_) => {}
        None => return Err(Error::new(ErrorKind::Conflict, format!("{clean} is gone")).at_instant(clean.requested)),
    }
    let options = super::metadata::options(session.options())?;
    if let Some(writer) = MetadataWriter::open(storage.clone(), critical.timeline(), options)? {
        writer.update(clean.requested, &execute::changes(&metadata))?;
    }
    critical.complete(&clean, Bytes::from(metadata.encode()?))?;
    Ok(report(&metadata))
}

/// Cleans the metadata table, under the lock of the data table.
pub(super) fn metadata_table(session: &Session, critical: &Critical, settings: &CleanSettings) -> Result<()> {
    if !crate::metadata::MetadataLister::is_available(critical.timeline()) {
        return Ok(());
    }
    let storage = session.storage().rooted_at(&TablePath::parse(METADATA)?)?;
    let held = Held::default();
    // One that was cut off, and one more.
    for _ in 0..2 {
        let snapshot = snapshot(&storage)?;
        let timeline = snapshot.timeline();
        let instants = InstantWriter::new(storage.clone(), timeline)?;
        let (clean, plan) = match pending(&*storage, timeline, &instants)? {
            Some(found) => found,
            None => {
                let plan = plan::make(&snapshot, &settings.of_metadata(), &held, now_ms())?;
                if plan.is_empty() {
                    return Ok(());
                }
                let time = instants.new_time(timeline)?;
                (instants.request(time, Action::Clean, Bytes::from(plan.encode()?))?, plan)
            }
        };
        let clean = match clean.state {
            State::Requested => instants.start(&clean, inflight(timeline, Bytes::from(plan.encode()?)))?,
            _ => clean,
        };
        let done = execute::run(&*storage, clean.requested, &plan, &held)?;
        critical.check()?;
        instants.complete(&clean, &timeline.reload(&*storage)?, Bytes::from(done.encode()?))?;
    }
    Ok(())
}

fn snapshot(storage: &Arc<dyn Storage>) -> Result<Arc<Snapshot>> {
    Ok(Table::open(storage.clone(), TableOptions::default())?.snapshot())
}

fn report(metadata: &CleanMetadata) -> ServiceReport {
    let count =
        |of: fn(&crate::format::plan::CleanedPartition) -> usize| metadata.partitions.values().map(of).sum::<usize>();
    let (deleted, failed) = (count(|p| p.deleted.len()), count(|p| p.failed.len()));
    let emptied = metadata.partitions.values().filter(|p| p.emptied).count();
    let mut detail = format!("{deleted} files of {} partitions removed", metadata.partitions.len());
    if failed > 0 {
        detail.push_str(&format!("; {failed} could not be removed or are in use"));
    }
    if emptied > 0 {
        detail.push_str(&format!("; {emptied} partitions are gone"));
    }
    let instant = Some(metadata.started.clone());
    ServiceReport { service: "clean".to_owned(), instant, items: deleted as u64, detail }
}

fn merge(into: &mut Option<ServiceReport>, more: ServiceReport) {
    match into {
        None => *into = Some(more),
        Some(report) => {
            report.items += more.items;
            report.instant = more.instant;
            report.detail = format!("{}; then {}", report.detail, more.detail);
        }
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
