//! Cleaning and archival: what goes, what stays, and that nothing is missed by any reader.

use super::rows::{self, Row};
use super::tables::{Setup, merged, open};
use hudifs::ErrorKind;
use hudifs::format::instant::{Action, InstantTime};
use hudifs::format::plan::{CleanMetadata, CleanPlan, Savepoint};
use hudifs::storage::TablePath;
use hudifs::table::lease::Lease;
use hudifs::table::{Listing, Snapshot, Table, TableOptions};
use hudifs::write::{Operation, Protected, WriteRequest, Writer, WriterOptions};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const ALL: [Setup; 4] = [Setup::COW6, Setup::MOR6, Setup::COW9, Setup::MOR9];

fn with_metadata(setup: Setup) -> [Setup; 2] {
    [setup, Setup { metadata: true, ..setup }]
}

/// Options without services after commits.
fn by_hand(setup: &Setup) -> WriterOptions {
    WriterOptions { inline_services: false, ..setup.options() }
}

fn upsert(writer: &Writer, revision: i64) -> String {
    let rows: Vec<Row> = (0..10).map(|id| rows::row(id, id % 2, revision)).collect();
    writer.run(WriteRequest::new(Operation::Upsert, rows::records(&rows, 100))).unwrap().instant.unwrap()
}

fn data_files(base: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for partition in std::fs::read_dir(base).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        let part = partition.file_name().unwrap().to_str().unwrap().to_owned();
        for file in std::fs::read_dir(&partition).unwrap().map(|e| e.unwrap()) {
            let name = file.file_name().into_string().unwrap();
            if part != ".hoodie" && (name.ends_with(".parquet") || name.contains(".log.")) {
                found.insert(format!("{part}/{name}"));
            }
        }
    }
    found
}

fn fresh(dir: &tempfile::TempDir, listing: Listing) -> Arc<Snapshot> {
    Table::open(open(dir), TableOptions { listing, ..TableOptions::default() }).unwrap().snapshot()
}

fn listed(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for partition in snapshot.partitions().unwrap().iter() {
        let view = snapshot.partition(partition).unwrap();
        found.extend(view.all().map(|f| format!("{partition}/{}", f.name())));
    }
    found
}

fn completed(snapshot: &Snapshot, action: Action) -> Vec<InstantTime> {
    snapshot.timeline().completed().filter(|i| i.action == action).map(|i| i.requested).collect()
}

#[test]
fn a_clean_leaves_what_the_newest_commits_need() {
    for setup in ALL.into_iter().flat_map(with_metadata) {
        let dir = tempfile::tempdir().unwrap();
        let writer = setup.create_in(open(&dir), by_hand(&setup));
        let commits: Vec<String> = (1..=6).map(|revision| upsert(&writer, revision)).collect();
        let before = rows::keyed(merged(&writer));
        let all = data_files(dir.path());
        let report = writer.clean().unwrap();
        let left = data_files(dir.path());
        assert_eq!(rows::keyed(merged(&writer)), before, "{setup:?}");
        if setup.merge_on_read {
            // One slice a group: nothing has taken its place.
            assert!(report.is_none() && left == all, "{setup:?}: {report:?}");
            writer.compact().unwrap();
            (7..=9).for_each(|revision| drop(upsert(&writer, revision)));
            writer.compact().unwrap();
            (10..=12).for_each(|revision| drop(upsert(&writer, revision)));
            let before = rows::keyed(merged(&writer));
            let report = writer.clean().unwrap().unwrap();
            assert!(report.items >= 2, "{setup:?}: {report:?}");
            assert_eq!(rows::keyed(merged(&writer)), before, "{setup:?}");
        } else {
            let report = report.unwrap();
            assert_eq!(report.items as usize, all.len() - left.len(), "{setup:?}");
            // Two commits are retained, and one before them.
            let instants: BTreeSet<&str> =
                left.iter().filter_map(|f| f.rsplit('_').next()?.split('.').next()).collect();
            assert_eq!(instants, commits[3..].iter().map(String::as_str).collect(), "{setup:?}");
        }
        assert!(writer.clean().unwrap().is_none(), "{setup:?}: nothing is left to clean");
        // Both ways of listing agree, and so do they with what is there.
        let by_storage = listed(&fresh(&dir, Listing::Storage));
        if setup.metadata {
            assert_eq!(listed(&fresh(&dir, Listing::MetadataTable)), by_storage, "{setup:?}");
        }
        let bases: BTreeSet<String> = data_files(dir.path()).into_iter().filter(|f| f.ends_with(".parquet")).collect();
        assert_eq!(bases, by_storage, "{setup:?}");
        let clean = fresh(&dir, Listing::Storage);
        let last = clean.timeline().completed().find(|i| i.action == Action::Clean).copied().unwrap();
        let metadata = CleanMetadata::parse(&clean.timeline().read(&**clean.storage(), &last).unwrap()).unwrap();
        assert_eq!(metadata.partitions.len(), 2, "{setup:?}");
        assert!(metadata.partitions.values().all(|p| p.failed.is_empty() && p.deleted == p.planned));
    }
}

#[test]
fn what_readers_hold_stays() {
    let setup = Setup::COW9;
    let dir = tempfile::tempdir().unwrap();
    let writer = setup.create_in(open(&dir), by_hand(&setup));
    let commits: Vec<String> = (1..=6).map(|revision| upsert(&writer, revision)).collect();
    let storage = open(&dir);
    let put = |lease: &Lease| storage.put(&lease.path().unwrap(), lease.encode().unwrap().into()).unwrap();
    // A view of the second commit, and an open file of the first.
    let open_file = data_files(dir.path()).into_iter().find(|f| f.contains(&commits[0])).unwrap();
    let held = |instants: Vec<InstantTime>, files: Vec<TablePath>| {
        Lease::new("here", "a test", SystemTime::now(), Duration::from_secs(60)).hold(instants, files)
    };
    let second = InstantTime::parse(&commits[1]).unwrap();
    put(&held(vec![second], vec![TablePath::parse(&open_file).unwrap()]));
    let of_second = |left: &BTreeSet<String>| left.iter().filter(|f| f.contains(&commits[1])).count();
    writer.clean().unwrap().unwrap();
    let left = data_files(dir.path());
    assert!(left.contains(&open_file));
    assert_eq!(of_second(&left), 2);
    assert!(!left.iter().any(|f| f.contains(&commits[2])), "{left:?}");
    assert_eq!(left.iter().filter(|f| f.contains(&commits[0])).count(), 1);
    let view = Table::open(open(&dir), TableOptions::default()).unwrap().as_of(&commits[1]).unwrap();
    assert_eq!(view.partitions().unwrap().iter().map(|p| view.partition(p).unwrap().listed_len()).sum::<usize>(), 2);
    // Let go of, they are found by the next clean, though no commit has come since.
    put(&held(Vec::new(), Vec::new()));
    writer.clean().unwrap().unwrap();
    let left = data_files(dir.path());
    assert!(!left.contains(&open_file) && of_second(&left) == 0, "{left:?}");
    // A lease that cannot be understood holds the whole table.
    let odd = TablePath::parse(".hoodie/.aux/.leases/odd.json").unwrap();
    storage.put(&odd, "?".into()).unwrap();
    upsert(&writer, 7);
    assert_eq!(writer.clean().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn files_that_this_process_serves_stay() {
    let setup = Setup::COW6;
    let dir = tempfile::tempdir().unwrap();
    let first = setup.create_in(open(&dir), by_hand(&setup));
    let commit = upsert(&first, 1);
    (2..=5).for_each(|revision| drop(upsert(&first, revision)));
    let held = commit.clone();
    let protected = Protected(Arc::new(move |path: &TablePath| path.as_str().contains(&held)));
    let writer = Writer::open(open(&dir), WriterOptions { protected: Some(protected), ..by_hand(&setup) }).unwrap();
    writer.clean().unwrap().unwrap();
    assert_eq!(data_files(dir.path()).iter().filter(|f| f.contains(&commit)).count(), 2);
    assert_eq!(first.clean().unwrap().unwrap().items, 2);
}

#[test]
fn the_grace_period_keeps_what_was_replaced_just_now() {
    for setup in [Setup::COW6, Setup::COW9] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = by_hand(&setup);
        options.settings.insert("hudifs.clean.grace.period.seconds".into(), "3600".into());
        let writer = setup.create_in(open(&dir), options);
        (1..=6).for_each(|revision| drop(upsert(&writer, revision)));
        assert!(writer.clean().unwrap().is_none());
        let versions = |grace: &str| {
            let mut options = by_hand(&setup);
            options.settings.insert("hudifs.clean.grace.period.seconds".into(), grace.into());
            options.settings.insert("hoodie.clean.policy".into(), "KEEP_LATEST_FILE_VERSIONS".into());
            options.settings.insert("hoodie.clean.fileversions.retained".into(), "1".into());
            Writer::open(open(&dir), options).unwrap()
        };
        assert!(versions("3600").clean().unwrap().is_none());
        assert_eq!(versions("0").clean().unwrap().unwrap().items, 10);
        assert_eq!(data_files(dir.path()).len(), 2);
    }
}

#[test]
fn savepoints_keep_their_files_and_stop_archival() {
    for setup in [Setup::COW6, Setup::COW9] {
        let dir = tempfile::tempdir().unwrap();
        let writer = setup.create_in(open(&dir), by_hand(&setup));
        let commits: Vec<String> = (1..=3).map(|revision| upsert(&writer, revision)).collect();
        let snapshot = writer.table().snapshot();
        let mut savepoint = Savepoint { by: "test".into(), comment: "kept".into(), ..Savepoint::default() };
        for file in data_files(dir.path()).iter().filter(|f| f.contains(&commits[2])) {
            let (partition, name) = file.split_once('/').unwrap();
            savepoint.files.entry(partition.to_owned()).or_default().push(name.to_owned());
        }
        let completed = match setup.version {
            6 => format!(".hoodie/{}.savepoint", commits[2]),
            _ => format!(".hoodie/timeline/{}_{}.savepoint", commits[2], commits[2]),
        };
        let path = TablePath::parse(&completed).unwrap();
        snapshot.storage().create(&path, savepoint.encode().unwrap().into()).unwrap();
        (4..=12).for_each(|revision| drop(upsert(&writer, revision)));
        writer.clean().unwrap().unwrap();
        let left = data_files(dir.path());
        assert_eq!(left.iter().filter(|f| f.contains(&commits[2])).count(), 2, "{setup:?}");
        assert_eq!(left.len(), 8, "{setup:?}: two commits, one before them, and the savepoint's: {left:?}");
        assert_eq!(writer.archive().unwrap().unwrap().items, 2, "{setup:?}");
        assert_eq!(fresh(&dir, Listing::Storage).timeline().writes().next().unwrap().requested.as_str(), commits[2]);
    }
}

#[test]
fn a_clean_that_was_cut_off_is_finished() {
    for setup in ALL.into_iter().filter(|s| !s.merge_on_read).flat_map(with_metadata) {
        for (inflight, deleted) in [(false, 0), (true, 0), (true, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let writer = setup.create_in(open(&dir), by_hand(&setup));
            (1..=6).for_each(|revision| drop(upsert(&writer, revision)));
            writer.clean().unwrap().unwrap();
            // Back to before its completion.
            let snapshot = fresh(&dir, Listing::Storage);
            let clean = snapshot.timeline().completed().find(|i| i.action == Action::Clean).copied().unwrap();
            let file = dir.path().join(snapshot.timeline().file_of(&clean).unwrap().as_str());
            std::fs::remove_file(&file).unwrap();
            let folder = file.parent().unwrap();
            if !inflight {
                std::fs::remove_file(folder.join(format!("{}.clean.inflight", clean.requested))).unwrap();
            }
            let plan = std::fs::read(folder.join(format!("{}.clean.requested", clean.requested))).unwrap();
            let plan = CleanPlan::parse(&plan).unwrap();
            let files: Vec<&str> = plan.files.values().flatten().map(|f| f.path.as_str()).collect();
            assert_eq!(files.len(), 6);
            for file in files.iter().skip(deleted) {
                std::fs::write(file, "back again").unwrap();
            }
            let report = writer.clean().unwrap().unwrap();
            assert_eq!((report.items, report.instant.as_deref()), (6, Some(clean.requested.as_str())), "{setup:?}");
            assert!(files.iter().all(|f| !Path::new(f).exists()));
            assert_eq!(completed(&fresh(&dir, Listing::Storage), Action::Clean), [clean.requested]);
            assert!(writer.clean().unwrap().is_none());
        }
    }
}

#[test]
fn dropped_partitions_go_once_nobody_needs_them() {
    for setup in ALL.into_iter().filter(|s| !s.merge_on_read).flat_map(with_metadata) {
        let dir = tempfile::tempdir().unwrap();
        let writer = setup.create_in(open(&dir), by_hand(&setup));
        (1..=2).for_each(|revision| drop(upsert(&writer, revision)));
        writer.run(WriteRequest::delete_partitions(vec!["p1".into()])).unwrap();
        let only = |revision| {
            let rows = [rows::row(0, 0, revision)];
            writer.run(WriteRequest::new(Operation::Upsert, rows::records(&rows, 1))).unwrap();
        };
        only(4);
        writer.clean().unwrap();
        assert!(data_files(dir.path()).iter().any(|f| f.starts_with("p1/")), "{setup:?}: retained");
        (5..=6).for_each(only);
        writer.clean().unwrap().unwrap();
        assert!(!data_files(dir.path()).iter().any(|f| f.starts_with("p1/")), "{setup:?}");
        let listings =
            if setup.metadata { &[Listing::Storage, Listing::MetadataTable][..] } else { &[Listing::Storage] };
        for listing in listings {
            let partitions = fresh(&dir, *listing).partitions().unwrap();
            assert_eq!(partitions.iter().map(|p| p.as_str()).collect::<Vec<_>>(), ["p0"], "{setup:?} {listing:?}");
        }
        // And come back when they are written to.
        upsert(&writer, 7);
        for listing in listings {
            assert_eq!(fresh(&dir, *listing).partitions().unwrap().len(), 2, "{setup:?} {listing:?}");
        }
    }
}

#[test]
fn archival_keeps_the_timeline_short_and_the_rows_the_same() {
    for setup in ALL.into_iter().flat_map(with_metadata) {
        let dir = tempfile::tempdir().unwrap();
        let mut options = setup.options();
        options.settings.insert("hoodie.compact.inline.max.delta.commits".into(), "2".into());
        options.settings.insert("hoodie.metadata.compact.max.delta.commits".into(), "3".into());
        let writer = setup.create_in(open(&dir), options);
        for revision in 1..=16 {
            upsert(&writer, revision);
            let expected: Vec<Row> = (0..10).map(|id| rows::row(id, id % 2, revision)).collect();
            assert_eq!(rows::keyed(merged(&writer)), rows::keyed(expected), "{setup:?} after {revision}");
        }
        let snapshot = fresh(&dir, Listing::Storage);
        let writes = snapshot.timeline().writes().count();
        assert!(writes <= 12, "{setup:?}: {writes} writes are left");
        assert!(snapshot.timeline().pending().next().is_none(), "{setup:?}");
        if setup.version == 9 {
            let archived = snapshot.timeline().archived_len(&**snapshot.storage()).unwrap();
            assert!(archived >= 6, "{setup:?}: {archived} archived");
        } else {
            let count = std::fs::read_dir(dir.path().join(".hoodie/archived")).unwrap().count();
            assert!(count >= 2, "{setup:?}: {count} archive files");
        }
        if setup.metadata {
            assert_eq!(listed(&fresh(&dir, Listing::MetadataTable)), listed(&snapshot), "{setup:?}");
            let of_metadata = Table::open(
                open(&dir).rooted_at(&TablePath::parse(".hoodie/metadata").unwrap()).unwrap(),
                TableOptions::default(),
            );
            let left = of_metadata.unwrap().snapshot().timeline().writes().count();
            assert!(left <= 20, "{setup:?}: {left} writes are left on the metadata table's timeline");
        }
    }
}

/// Cleaned groups of a replacement must not come back when its instant is archived.
#[test]
fn a_replacement_is_not_archived_before_its_files_are_gone() {
    for setup in [Setup::COW6, Setup::COW9] {
        let dir = tempfile::tempdir().unwrap();
        let writer = setup.create_in(open(&dir), by_hand(&setup));
        upsert(&writer, 1);
        let rows: Vec<Row> = (0..10).map(|id| rows::row(id, id % 2, 2)).collect();
        let overwrite = WriteRequest::new(Operation::InsertOverwriteTable, rows::records(&rows, 100));
        let replaced = writer.run(overwrite).unwrap().instant.unwrap();
        (3..=12).for_each(|revision| drop(upsert(&writer, revision)));
        assert_eq!(writer.archive().unwrap().unwrap().items, 1, "{setup:?}: up to the replacement");
        writer.clean().unwrap().unwrap();
        assert!(writer.archive().unwrap().unwrap().items >= 2);
        let snapshot = fresh(&dir, Listing::Storage);
        assert!(snapshot.timeline().first().unwrap().as_str() > replaced.as_str());
        let expected: Vec<Row> = (0..10).map(|id| rows::row(id, id % 2, 12)).collect();
        assert_eq!(rows::keyed(merged(&writer)), rows::keyed(expected));
    }
}
