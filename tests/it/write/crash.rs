//! A writer that dies at any of its mutations, before it took effect or after.
//!
//! Whatever it was doing, a reader sees all of a write or nothing; the next writer finds nothing in its way, and after it
//! nothing is left of the dead one: no file, no marker, no heartbeat, no pending instant.

use super::bench::*;
use crate::common::faulty::{Death, Faulty};
use hudifs::ErrorKind;
use hudifs::format::instant::{Action, InstantTime};
use hudifs::format::log::rollback_block;
use hudifs::metadata::MetadataLister;
use hudifs::storage::Storage;
use hudifs::timeline::Timeline;
use hudifs::view::Lister;
use hudifs::write::create::{self, TableSpec};
use std::collections::BTreeSet;
use std::sync::Arc;

/// More mutations than any of these writes has.
const MUTATIONS_MAX: usize = 100;

fn timeline(storage: &Arc<dyn Storage>) -> Timeline {
    quick(storage).timeline().unwrap()
}

/// The files that completed commits name.
fn named(storage: &Arc<dyn Storage>) -> BTreeSet<String> {
    let timeline = timeline(storage);
    let mut named = BTreeSet::new();
    for write in timeline.writes() {
        let metadata = timeline.commit_metadata(&**storage, write).unwrap();
        named.extend(metadata.written.iter().flat_map(|p| &p.stats).filter_map(|s| s.path.clone()));
    }
    named
}

/// What a later write may leave: in version 6, logs of failed writes with command blocks that hide them.
fn check_tidy(storage: &Arc<dyn Storage>, kind: Kind, what: &str) {
    let timeline = timeline(storage);
    let pending: Vec<String> = timeline.pending().map(ToString::to_string).collect();
    assert!(pending.is_empty(), "{what}: {pending:?} are still pending");
    for folder in [".hoodie/.temp", ".hoodie/.heartbeat"] {
        let left = files(storage, folder);
        assert!(left.is_empty(), "{what}: {left:?} were left in {folder}");
    }
    let (named, mut there) = (named(storage), data_files(storage));
    if kind.mdt {
        check_metadata(storage, &timeline, &named, &there, what);
    }
    let missing: Vec<&String> = named.difference(&there).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} are gone");
    there.retain(|f| !named.contains(f));
    if (kind.version, kind.mor) == (6, true) {
        hidden_by_command_blocks(storage, &timeline, &mut there, what);
    }
    assert!(there.is_empty(), "{what}: {there:?} were left behind");
}

/// The metadata table lists all files of commits, and none that is gone.
fn check_metadata(
    storage: &Arc<dyn Storage>,
    timeline: &Timeline,
    named: &BTreeSet<String>,
    there: &BTreeSet<String>,
    what: &str,
) {
    let root = path(".hoodie/metadata");
    let config = hudifs::timeline::load_config(&**storage, &root).unwrap();
    let own = Timeline::load(&**storage, &root, &config).unwrap();
    let pending: Vec<String> = own.pending().map(ToString::to_string).collect();
    assert!(pending.is_empty(), "{what}: {pending:?} are still pending in the metadata table");
    let lister = MetadataLister::open(&**storage, timeline).unwrap();
    let mut listed = BTreeSet::new();
    for partition in lister.partitions().unwrap() {
        let files = lister.files(&partition).unwrap();
        listed.extend(files.into_iter().map(|f| format!("{partition}/{}", f.name)));
    }
    let unlisted: Vec<&String> = named.difference(&listed).collect();
    assert!(unlisted.is_empty(), "{what}: the metadata table does not list {unlisted:?}");
    let gone: Vec<&String> = listed.difference(there).collect();
    assert!(gone.is_empty(), "{what}: the metadata table lists {gone:?}");
}

/// Takes out failed log files that a command block follows in their slice, and the command blocks.
fn hidden_by_command_blocks(storage: &Arc<dyn Storage>, timeline: &Timeline, there: &mut BTreeSet<String>, what: &str) {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for rollback in timeline.completed().filter(|i| i.action == Action::Rollback) {
        let bytes = timeline.read(&**storage, rollback).unwrap();
        let targets = hudifs::format::plan::undone_instants(&bytes).unwrap();
        blocks.extend(targets.iter().map(|t| rollback_block(rollback.requested, *t).unwrap()));
    }
    let is_block = |file: &String| {
        let bytes = storage.read(&path(file), 1000).unwrap();
        blocks.iter().any(|b| *b == bytes)
    };
    let commands: BTreeSet<String> = there.iter().filter(|f| is_block(f)).cloned().collect();
    let slice = |f: &str| f.rsplit_once(".log.").unwrap().0.to_owned();
    let failed: Vec<String> = there.difference(&commands).filter(|f| f.contains(".log.")).cloned().collect();
    for log in failed {
        let after = commands.iter().any(|c| slice(c) == slice(&log) && *c > log);
        assert!(after, "{what}: no command block follows {log}");
        there.remove(&log);
    }
    there.retain(|f| !commands.contains(f));
}

/// A write to an old group in each partition, and to a new one.
fn news(kind: Kind, first: InstantTime) -> Vec<New> {
    let old = |partition: &str, id: &str| New { on: Some(first), log: kind.mor, ..New::base(partition, id) };
    vec![old("p=1", "a-0"), old("p=2", "b-0"), New::base("p=3", "c-0")]
}

fn base_files(storage: &Arc<dyn Storage>, kind: Kind) -> BTreeSet<String> {
    // In version 6 a slice has all its log files; which blocks count, their reader decides.
    seen(storage).into_iter().filter(|f| kind.version > 6 || !f.contains(".log.")).collect()
}

/// Kills a write at each of its mutations.
fn die_everywhere(make: impl Fn() -> Place, kind: Kind, death: Death) {
    for at in 1..MUTATIONS_MAX {
        let place = make();
        let first = table(&place, kind);
        let before = base_files(&place.storage, kind);
        let news = news(kind, first);
        let faulty = Faulty::new(place.storage.clone(), at, death);
        let result = write(Arc::new(faulty.clone()), kind, &news);
        let what = format!("{kind:?}, dead {death:?} mutation {at}, {:?}", faulty.log().get(at - 1));
        let after = base_files(&place.storage, kind);
        let committed = timeline(&place.storage).writes().count() == 2;
        match committed {
            true => assert!(after.len() > before.len() || after != before, "{what}: nothing of a commit is seen"),
            false => assert_eq!(after, before, "{what}: a part of a failed write is seen"),
        }
        assert!(result.is_err() || committed, "{what}: success without a commit");
        if result.is_err() && committed {
            // Only an answer that was lost at the commit point may look so, and never on a disk, where it is found out.
            assert!(place.storage.is_object_store() && death == Death::After, "{what}: a commit was called a failure");
        }
        std::thread::sleep(DEAD_AFTER);
        // The next writer, alive. It rolls back, writes to the same groups, and leaves no trace of the dead one.
        write(place.storage.clone(), kind, &news).unwrap_or_else(|e| panic!("{what}: the next writer fails: {e}"));
        check_tidy(&place.storage, kind, &what);
        if !faulty.is_dead() {
            assert!(at > 10, "a write has more mutations than {at}: {:?}", faulty.log());
            return;
        }
    }
    panic!("a write has no end");
}

#[test]
fn a_write_that_dies_anywhere_is_seen_whole_or_not_at_all() {
    for kind in KINDS {
        for death in [Death::Before, Death::After] {
            die_everywhere(local, kind, death);
        }
    }
}

/// The metadata table is a table of its own, written to in the middle of it all.
#[test]
fn the_metadata_table_stays_in_step_wherever_a_write_dies() {
    die_everywhere(local, KINDS[0].with_metadata(), Death::Before);
    die_everywhere(local, KINDS[1].with_metadata(), Death::After);
    die_everywhere(local, KINDS[2].with_metadata(), Death::After);
    die_everywhere(local, KINDS[3].with_metadata(), Death::Before);
}

#[test]
fn a_write_to_a_store_that_dies_anywhere_is_seen_whole_or_not_at_all() {
    if s3().is_none() {
        return;
    }
    die_everywhere(|| s3().unwrap(), KINDS[0], Death::After);
    die_everywhere(|| s3().unwrap(), KINDS[3], Death::Before);
}

/// Leaves a write behind that wrote all its files and died before its commit.
fn fail_before_the_commit(place: &Place, kind: Kind, news: &[New]) {
    let extension = format!(".{}", kind.action());
    let commit = move |what: &str| what.starts_with("create .hoodie/") && what.ends_with(&extension);
    let dead = Faulty::dying_at(place.storage.clone(), commit, Death::Before);
    write(Arc::new(dead.clone()), kind, news).unwrap_err();
    assert!(dead.is_dead(), "{:?}", dead.log());
    std::thread::sleep(DEAD_AFTER);
}

/// Kills the rollback of a failed write, and the write after it, at each mutation.
fn roll_back_and_die_everywhere(kind: Kind, death: Death) {
    for at in 1..MUTATIONS_MAX {
        let place = local();
        let first = table(&place, kind);
        let news = news(kind, first);
        fail_before_the_commit(&place, kind, &news);
        let faulty = Faulty::new(place.storage.clone(), at, death);
        let _ = write(Arc::new(faulty.clone()), kind, &news);
        let what = format!("{kind:?}, dead {death:?} mutation {at}, {:?}", faulty.log().get(at - 1));
        std::thread::sleep(DEAD_AFTER);
        write(place.storage.clone(), kind, &news).unwrap_or_else(|e| panic!("{what}: the next writer fails: {e}"));
        check_tidy(&place.storage, kind, &what);
        if !faulty.is_dead() {
            assert!(at > 20, "{:?}", faulty.log());
            return;
        }
    }
    panic!("a write has no end");
}

#[test]
fn a_rollback_that_dies_anywhere_is_carried_out_by_the_next_writer() {
    for kind in KINDS {
        roll_back_and_die_everywhere(kind, Death::Before);
        roll_back_and_die_everywhere(kind, Death::After);
    }
}

#[test]
fn a_rollback_in_the_metadata_table_that_dies_anywhere_is_carried_out_by_the_next_writer() {
    for kind in KINDS {
        roll_back_and_die_everywhere(kind.with_metadata(), Death::Before);
    }
}

#[test]
fn the_creation_of_a_table_that_dies_anywhere_can_be_done_again() {
    for version in [6, 9] {
        for death in [Death::Before, Death::After] {
            for at in 1..MUTATIONS_MAX {
                let place = local();
                let spec = Kind { version, mor: false, mdt: false }.spec();
                let faulty = Faulty::new(place.storage.clone(), at, death);
                let made = create::create(&faulty, &spec);
                let there = place.storage.stat(&path(".hoodie/hoodie.properties")).is_ok();
                assert_eq!(made.is_ok(), there, "version {version}, {death:?} {at}");
                match create::create(&*place.storage, &spec) {
                    Ok(config) => assert!(!there && config.name() == "t"),
                    Err(e) => assert!(there && e.kind() == ErrorKind::AlreadyExists, "{e}"),
                }
                write(place.storage.clone(), Kind { version, mor: false, mdt: false }, &[]).unwrap();
                if !faulty.is_dead() {
                    break;
                }
            }
        }
    }
}

/// An empty commit is one: on the timeline, and nothing else.
#[test]
fn an_empty_commit_is_a_commit() {
    for kind in KINDS {
        let place = local();
        create::create(&*place.storage, &kind.spec()).unwrap();
        let committed = write(place.storage.clone(), kind, &[]).unwrap();
        assert_eq!(timeline(&place.storage).latest_write(), Some(committed.instant.requested));
        assert_eq!(committed.instant.completion.is_some(), kind.version > 6);
        assert!(data_files(&place.storage).is_empty());
        check_tidy(&place.storage, kind, "an empty commit");
    }
}

/// Without markers the files of a failed write are found by their names.
#[test]
fn a_failed_write_without_markers_is_found_by_listing() {
    for kind in [KINDS[0], KINDS[1], KINDS[3]] {
        let place = local();
        let first = table(&place, kind);
        let news = news(kind, first);
        fail_before_the_commit(&place, kind, &news);
        let pending = timeline(&place.storage).pending().next().copied().unwrap();
        hudifs::write::markers::delete(&*place.storage, pending.requested).unwrap();
        assert!(data_files(&place.storage).len() > 2);
        write(place.storage.clone(), kind, &news).unwrap();
        check_tidy(&place.storage, kind, "without markers");
    }
}

/// A table whose name has what properties escape reads back as it was made.
#[test]
fn odd_names_survive() {
    let place = local();
    let spec = TableSpec { name: "t = a:b #1!".into(), database: "d\\e ü".into(), ..TableSpec::new("x") };
    let made = create::create(&*place.storage, &spec).unwrap();
    assert_eq!((made.name(), made.database()), ("t = a:b #1!", Some("d\\e ü")));
    assert_eq!(timeline(&place.storage).config().name(), "t = a:b #1!");
}

/// An update of the properties that was cut off is ended by the next writer, unless it may be under way.
#[test]
fn properties_are_put_back() {
    let place = local();
    table(&place, KINDS[0]);
    let base = place.storage.local_path(&path(".hoodie")).unwrap();
    let (file, backup) = (base.join("hoodie.properties"), base.join("hoodie.properties.backup"));
    std::fs::rename(&file, &backup).unwrap();
    write(place.storage.clone(), KINDS[0], &[]).unwrap();
    assert!(!file.exists() && backup.exists(), "it is young");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for torn in [None, Some(""), Some("hoodie.table.name=")] {
        if let Some(torn) = torn {
            std::fs::copy(&file, &backup).unwrap();
            std::fs::write(&file, torn).unwrap();
        }
        std::fs::File::options().write(true).open(&backup).unwrap().set_modified(old).unwrap();
        write(place.storage.clone(), KINDS[0], &[]).unwrap();
        assert!(file.exists() && !backup.exists());
        assert_eq!(timeline(&place.storage).config().name(), "t");
    }
}
