//! Two writers at once: who may complete, and what becomes of the other.

use super::bench::*;
use bytes::Bytes;
use hudifs::format::commit::CommitMetadata;
use hudifs::format::instant::{Action, State};
use hudifs::format::plan::{CompactionOperation, CompactionPlan};
use hudifs::storage::Storage;
use hudifs::write::Transaction;
use hudifs::{Error, ErrorKind};
use std::sync::Arc;

fn begin(storage: &Arc<dyn Storage>, action: Action) -> Transaction {
    let mut transaction = Transaction::begin(steady(storage), action, Bytes::new()).unwrap();
    transaction.start(&CommitMetadata::profile("UPSERT")).unwrap();
    transaction
}

fn check(e: &Error, partition: &str, instant: &str) {
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    assert_eq!(e.place().partition.as_deref(), Some(partition), "{e}");
    assert_eq!(e.place().instant.as_deref(), Some(instant), "{e}");
    assert!(e.message().contains("\"p=1\"") && e.message().contains(instant) && e.hint().is_some(), "{e}");
}

#[test]
fn of_two_writes_to_one_group_the_first_to_complete_wins() {
    for kind in KINDS {
        let place = local();
        let first = table(&place, kind);
        let update =
            |id: &str, partition: &str| vec![New { on: Some(first), log: kind.mor, ..New::base(partition, id) }];
        let (one, two, three) = (
            begin(&place.storage, kind.action()),
            begin(&place.storage, kind.action()),
            begin(&place.storage, kind.action()),
        );
        let of_one = write_files(&one, kind, &update("a-0", "p=1")).unwrap();
        let of_two = write_files(&two, kind, &update("a-0", "p=1")).unwrap();
        let of_three = write_files(&three, kind, &update("b-0", "p=2")).unwrap();
        let winner = two.commit(of_two, &[], |_| Ok(())).unwrap();
        let lost = one.instant();
        let e = one.commit(of_one, &[], |_| panic!("the metadata table is not to be touched")).unwrap_err();
        check(&e, "p=1", winner.instant.requested.as_str());
        // Another group is no conflict, though it began before the winner completed.
        three.commit(of_three, &[], |_| Ok(())).unwrap();
        let timeline = steady(&place.storage).timeline().unwrap();
        assert_eq!(timeline.pending().count(), 0);
        assert!(timeline.instants().iter().all(|i| i.requested != lost), "the loser was rolled back");
        assert_eq!(timeline.completed().filter(|i| i.action == Action::Rollback).count(), 1);
    }
}

#[test]
fn a_partition_that_is_replaced_stands_no_other_write() {
    let kind = KINDS[0];
    let place = local();
    table(&place, kind);
    let overwrite = begin(&place.storage, Action::ReplaceCommit);
    let other = write_as(steady(&place.storage), kind, &[New::base("p=1", "new-0")]).unwrap();
    let mut metadata = write_files(&overwrite, kind, &[New::base("p=1", "over-0")]).unwrap();
    metadata.replaced.push(replaced("p=1", "a-0"));
    let e = overwrite.commit(metadata, &["p=1".into()], |_| Ok(())).unwrap_err();
    check(&e, "p=1", other.instant.requested.as_str());
    // The other way round: a write to a group that was replaced meanwhile.
    let update = begin(&place.storage, kind.action());
    let overwrite = begin(&place.storage, Action::ReplaceCommit);
    let mut metadata = write_files(&overwrite, kind, &[New::base("p=1", "over-0")]).unwrap();
    metadata.replaced.push(replaced("p=1", "a-0"));
    let done = overwrite.commit(metadata, &["p=1".into()], |_| Ok(())).unwrap();
    let metadata = write_files(&update, kind, &[New::base("p=1", "a-0")]).unwrap();
    let e = update.commit(metadata, &[], |_| Ok(())).unwrap_err();
    check(&e, "p=1", done.instant.requested.as_str());
}

#[test]
fn a_write_that_is_dropped_or_fails_in_between_is_rolled_back() {
    for kind in KINDS {
        let place = local();
        table(&place, kind);
        let before = (seen(&place.storage), data_files(&place.storage));
        let dropped = begin(&place.storage, kind.action());
        write_files(&dropped, kind, &[New::base("p=1", "x-0")]).unwrap();
        drop(dropped);
        let failed = begin(&place.storage, kind.action());
        let metadata = write_files(&failed, kind, &[New::base("p=1", "y-0")]).unwrap();
        let e = failed.commit(metadata, &[], |_| Err(Error::internal("the metadata table fails"))).unwrap_err();
        assert!(e.message().contains("metadata table fails"));
        begin(&place.storage, kind.action()).abort().unwrap();
        assert_eq!((seen(&place.storage), data_files(&place.storage)), before);
        assert_eq!(steady(&place.storage).timeline().unwrap().pending().count(), 0);
    }
}

/// A writer that was taken for dead finds its instant gone, and does not commit.
#[test]
fn who_was_rolled_back_meanwhile_does_not_commit() {
    let kind = KINDS[0];
    let place = local();
    table(&place, kind);
    let slow = begin(&place.storage, kind.action());
    let metadata = write_files(&slow, kind, &[New::base("p=1", "slow-0")]).unwrap();
    let other = steady(&place.storage);
    let mut critical = other.critical().unwrap();
    let pending = critical.timeline().pending().next().copied().unwrap();
    hudifs::write::rollback::pending(&other, &mut critical, &pending).unwrap();
    drop(critical);
    let e = slow.commit(metadata, &[], |_| Ok(())).unwrap_err();
    assert!(e.kind() == ErrorKind::Conflict && e.message().contains("rolled back"), "{e}");
    assert_eq!(data_files(&place.storage).len(), 2);
}

/// Files of a retry that the commit does not name are gone when it completes.
#[test]
fn files_that_a_commit_does_not_name_are_deleted() {
    let kind = KINDS[1];
    let place = local();
    table(&place, kind);
    let transaction = begin(&place.storage, kind.action());
    write_files(&transaction, kind, &[New::base("p=1", "stray-0")]).unwrap();
    let metadata = write_files(&transaction, kind, &[New::base("p=1", "kept-0")]).unwrap();
    transaction.commit(metadata, &[], |_| Ok(())).unwrap();
    let left = data_files(&place.storage);
    assert!(left.iter().any(|f| f.contains("kept-0")) && !left.iter().any(|f| f.contains("stray-0")), "{left:?}");
}

/// A live writer is left alone by the next one, whose rollbacks are for the dead.
#[test]
fn a_write_that_beats_is_left_alone() {
    let kind = KINDS[0];
    let place = local();
    table(&place, kind);
    // Beats once in a minute, which is enough for those who expect no more.
    let live = begin(&place.storage, kind.action());
    write_as(steady(&place.storage), kind, &[New::base("p=2", "other-0")]).unwrap();
    let timeline = steady(&place.storage).timeline().unwrap();
    let pending: Vec<_> = timeline.pending().collect();
    assert!(pending.len() == 1 && pending[0].requested == live.instant() && pending[0].state == State::Inflight);
    let metadata = write_files(&live, kind, &[New::base("p=1", "live-0")]).unwrap();
    live.commit(metadata, &[], |_| Ok(())).unwrap();
}

/// A compaction that is scheduled after a write was planned: in version 6 the write's log would stay in the old slice; from 8 on
/// only a new base file is in the way.
#[test]
fn compactions_scheduled_meanwhile_are_in_the_way_of_what_they_would_lose() {
    for (kind, log, conflicts) in
        [(KINDS[2], true, true), (KINDS[2], false, true), (KINDS[3], true, false), (KINDS[3], false, true)]
    {
        let place = local();
        let first = table(&place, kind);
        let update = [New { on: Some(first), log, ..New::base("p=1", "a-0") }];
        let schedule = || {
            let operation = CompactionOperation {
                partition: "p=1".into(),
                file_id: "a-0".into(),
                base_instant: Some(first),
                ..CompactionOperation::default()
            };
            let plan = CompactionPlan { operations: vec![operation], ..CompactionPlan::default() };
            let critical = steady(&place.storage).critical().unwrap();
            critical.request(Action::Compaction, plan.encode().unwrap().into(), |_| Ok(())).unwrap()
        };
        let late = begin(&place.storage, kind.action());
        let of_late = write_files(&late, kind, &update).unwrap();
        let scheduled = schedule();
        let result = late.commit(of_late, &[], |_| Ok(()));
        assert_eq!(result.is_err(), conflicts, "{kind:?} {log} {result:?}");
        if let Err(e) = result {
            check(&e, "p=1", scheduled.requested.as_str());
        }
        // One that knew the plan takes it for granted.
        let knowing = begin(&place.storage, kind.action());
        let of_knowing = write_files(&knowing, kind, &update).unwrap();
        knowing.commit(of_knowing, &[], |_| Ok(())).unwrap();
    }
}

/// An instant that completed can be made pending again, and is then rolled back like one that failed.
#[test]
fn a_completed_commit_can_be_taken_back() {
    for kind in [KINDS[0], KINDS[1]] {
        let place = local();
        table(&place, kind);
        let before = data_files(&place.storage);
        let last = write_as(steady(&place.storage), kind, &[New::base("p=1", "x-0")]).unwrap();
        let session = steady(&place.storage);
        let mut critical = session.critical().unwrap();
        let pending = critical.instants().revert_to_inflight(&last.instant, kind.action()).unwrap();
        critical.reload().unwrap();
        assert!(!critical.timeline().contains_completed(pending.requested));
        hudifs::write::rollback::pending(&session, &mut critical, &pending).unwrap();
        drop(critical);
        assert_eq!((data_files(&place.storage), seen(&place.storage)), (before.clone(), before));
    }
}
