//! Rolling failed writes back.
//!
//! A rollback is an instant of its own: its plan is requested first, so that one that is cut off is carried out to its end by
//! whoever comes next, and every step of it can be done twice. Files go first, then what the write put into the metadata table,
//! then the write's inflight and requested files; then the rollback completes, and the markers go. A compaction's requested
//! file stays, so that it can run again. All of it happens under the table's lock.
//!
//! Which writes have failed is the policy's matter: with heartbeats, those that do not beat any more. One without any heartbeat
//! may be of a writer that has none; it counts as failed when it is older than a heartbeat may be.
//! Format: docs/format.md, "Rollback".

mod execute;
mod plan;

pub(super) use plan::base_of;

use super::heartbeat;
use super::markers;
use super::session::{Critical, FailedWrites, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::format::plan::RollbackPlan;
use crate::metadata::write::MetadataWriter;
use crate::storage::Storage;
use crate::timeline::Timeline;
use bytes::Bytes;
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

/// Rolls back the failed writes of all writers, as the session's settings say; returns their times. First finishes rollbacks
/// that were cut off.
pub fn failed(session: &Session, critical: &mut Critical) -> Result<Vec<InstantTime>> {
    if session.failed_writes() == FailedWrites::Never {
        return Ok(Vec::new());
    }
    let mut done = finish_pending(session, critical)?;
    let storage = &**session.storage();
    for instant in candidates(storage, critical.timeline())? {
        let dead = match session.failed_writes() {
            FailedWrites::Eager => true,
            _ => is_dead(session, critical, &instant)?,
        };
        if dead {
            tracing::info!(%instant, "a failed write is rolled back");
            pending(session, critical, &instant)?;
            done.push(instant.requested);
        } else if !heartbeat::exists(storage, instant.requested)? {
            return Err(silent(&instant));
        }
    }
    if !done.is_empty() {
        sweep(session, critical)?;
    }
    Ok(done)
}

/// Rolls one pending write back, whether or not it beats; returns the rollback's instant. A compaction becomes requested again.
pub fn pending(session: &Session, critical: &mut Critical, target: &Instant) -> Result<Instant> {
    let known = critical.timeline().pending().find(|i| same(i, target)).copied();
    let Some(target) = known else {
        return Err(Error::not_found(format!(
            "no pending {} {} is there to be rolled back",
            target.action, target.requested
        ))
        .at_instant(target.requested)
        .with_hint("only writes that did not complete are rolled back; see the timeline"));
    };
    let plan = plan::make(session.storage(), critical.timeline(), &target)?;
    let content = Bytes::from(plan.encode()?);
    let requested = critical.request(Action::Rollback, content, |_| Ok(()))?;
    critical.reload()?;
    carry_out(session, critical, &requested, &plan).map_err(|e| e.context(format!("rolling back {target}")))
}

/// Carries out rollbacks that were requested and not completed; returns what they rolled back.
fn finish_pending(session: &Session, critical: &mut Critical) -> Result<Vec<InstantTime>> {
    let mut done = Vec::new();
    let cut_off: Vec<Instant> =
        critical.timeline().pending().filter(|i| i.action == Action::Rollback).copied().collect();
    for rollback in cut_off {
        let requested = Instant { state: State::Requested, completion: None, ..rollback };
        let bytes = critical.timeline().read(&**session.storage(), &requested)?;
        let plan = RollbackPlan::parse(&bytes).map_err(|e| e.context(format!("{rollback}")))?;
        let Some((target, _)) = plan.target else {
            return Err(Error::corrupt(format!("{rollback} does not say what it rolls back"))
                .at_instant(rollback.requested)
                .with_hint("delete its files if the write that it was for is gone"));
        };
        tracing::info!(%rollback, %target, "a rollback that was cut off is carried out");
        carry_out(session, critical, &rollback, &plan)?;
        done.push(target);
    }
    Ok(done)
}

/// All that follows the plan. Can be done again from its beginning.
fn carry_out(session: &Session, critical: &mut Critical, rollback: &Instant, plan: &RollbackPlan) -> Result<Instant> {
    let (target, action) = plan.target.ok_or_else(|| Error::internal("a rollback of nothing"))?;
    let storage = session.storage();
    let began = std::time::Instant::now();
    if rollback.state == State::Requested {
        critical.instants().start(rollback, Bytes::new())?;
    }
    if critical.timeline().completed().any(|i| i.requested == target && i.action == action.completes_as()) {
        return Err(Error::new(ErrorKind::Conflict, format!("{action} {target} completed, and is not rolled back"))
            .at_instant(target)
            .with_hint(format!("if the commit is good, delete the files of the {rollback}")));
    }
    let done = execute::run(&**storage, critical, rollback.requested, plan)?;
    update_metadata(session, critical, rollback.requested, target, &done)?;
    critical.check()?;
    let pending = Instant { requested: target, action, state: State::Inflight, completion: None };
    match action {
        Action::Compaction | Action::LogCompaction | Action::Clustering => {
            critical.instants().revert_to_requested(&pending)?;
        }
        // In layout 1 a clustering is a replace commit that has a plan: it stays, and can run again.
        Action::ReplaceCommit if is_clustering(&**storage, critical.timeline(), &pending)? => {
            critical.instants().revert_to_requested(&pending)?;
        }
        _ => critical.instants().delete_pending(&pending)?,
    }
    let metadata = execute::metadata(rollback.requested, (target, action), began.elapsed(), done);
    let completed = critical.complete(rollback, Bytes::from(metadata.encode()?))?;
    markers::delete(&**storage, target)?;
    heartbeat::delete(&**storage, target)?;
    critical.reload()?;
    Ok(completed)
}

fn update_metadata(
    session: &Session,
    critical: &Critical,
    rollback: InstantTime,
    target: InstantTime,
    done: &execute::Done,
) -> Result<()> {
    let options = super::metadata::options(session.options())?;
    match MetadataWriter::open(session.storage().clone(), critical.timeline(), options)? {
        Some(writer) => writer.rollback(rollback, target, &done.changes()),
        None => Ok(()),
    }
}

/// Pending writes that may have failed: no table services, which their runners take care of.
fn candidates(storage: &dyn Storage, timeline: &Timeline) -> Result<Vec<Instant>> {
    let mut found = Vec::new();
    for instant in timeline.pending() {
        match instant.action {
            Action::Commit | Action::DeltaCommit => found.push(*instant),
            Action::ReplaceCommit if !is_clustering(storage, timeline, instant)? => found.push(*instant),
            _ => {}
        }
    }
    Ok(found)
}

fn is_clustering(storage: &dyn Storage, timeline: &Timeline, instant: &Instant) -> Result<bool> {
    let requested = timeline.requested_replaces(storage, &[instant])?;
    Ok(requested.into_iter().flatten().next().is_some_and(|r| r.clustered.is_some()))
}

/// True if nobody works on a pending write any more, by its heartbeat or its age.
pub fn is_dead(session: &Session, critical: &Critical, instant: &Instant) -> Result<bool> {
    let beat = session.beat();
    if !beat.is_expired(&**session.storage(), instant.requested)? {
        return Ok(false);
    }
    if heartbeat::exists(&**session.storage(), instant.requested)? {
        return Ok(true);
    }
    let Some(began) = instant.requested.epoch_ms(critical.config().zone()) else { return Ok(true) };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_millis(u64::try_from(began).unwrap_or(0)));
    Ok(age > beat.interval * beat.misses)
}

/// True if a pending write shows a heartbeat.
pub fn beats(session: &Session, instant: &Instant) -> Result<bool> {
    Ok(!session.beat().is_expired(&**session.storage(), instant.requested)?)
}

/// A young write without a heartbeat is at work, or has failed, and belongs to a writer that thinks itself alone: Hudi's single
/// writer cannot roll it back any more once somebody else has committed after it.
fn silent(instant: &Instant) -> Error {
    let time = instant.requested;
    Error::new(ErrorKind::Conflict, format!("the {instant} is pending and shows no heartbeat: its writer is at work without the table's lock, or has failed"))
        .at_instant(time)
        .with_hint(format!(
            "wait until it is done; if it has failed, `hudifs rollback TABLE --instant {time}`, or write with hoodie.clean.failed.writes.policy=EAGER where nobody else writes"
        ))
}

/// Removes markers and heartbeats of instants that are not pending: a crash left them behind after the instant had completed
/// or was rolled back. Under the lock nobody is between a heartbeat and its requested file.
pub fn sweep(session: &Session, critical: &Critical) -> Result<()> {
    let storage = &**session.storage();
    let pending: HashSet<InstantTime> = critical.timeline().pending().map(|i| i.requested).collect();
    // One that is newer than the timeline may be of a writer that has no part in our lock, and that is about to request it.
    let newest = critical.timeline().instants().iter().map(|i| i.requested).max();
    let known = |time: &InstantTime| newest.is_some_and(|n| *time <= n);
    for time in markers::instants(storage)?.into_iter().filter(|t| !pending.contains(t) && known(t)) {
        markers::delete(storage, time)?;
    }
    for time in heartbeat::instants(storage)?.into_iter().filter(|t| !pending.contains(t)) {
        if known(&time) || session.beat().is_expired(storage, time)? {
            heartbeat::delete(storage, time)?;
        }
    }
    Ok(())
}

fn same(a: &Instant, b: &Instant) -> bool {
    a.requested == b.requested && a.action.completes_as() == b.action.completes_as()
}
