//! Compaction of tables that Spark wrote: the rows stay, the logs go, and what was planned elsewhere is carried out.

use crate::common::{Unpacked, golden, has_golden, repo, unpack};
use crate::golden::open;
use crate::slice::golden::all_rows;
use hudifs::format::commit::CommitMetadata;
use hudifs::format::instant::{Action, State};
use hudifs::record::schema;
use hudifs::slice::read::slices_of;
use hudifs::storage::StorageOptions;
use hudifs::table::{Listing, Snapshot};
use hudifs::write::{Writer, WriterOptions};
use std::sync::Arc;

fn fixture(name: &str) -> Unpacked {
    unpack(&repo().join("tests/fixtures").join(format!("{name}.zip")), name)
}

fn writer(table: &Unpacked, settings: &[(&str, &str)]) -> Writer {
    let storage = hudifs::storage::open(table.base().to_str().unwrap(), &StorageOptions::default()).unwrap();
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let options = WriterOptions { settings, threads: 2, drop_unsupported_index: true, ..WriterOptions::default() };
    Writer::open(storage, options).unwrap()
}

fn snapshot(table: &Unpacked) -> Arc<Snapshot> {
    open(&table.base(), Listing::Auto).unwrap().snapshot()
}

/// All rows, meta columns but the file's name included: compaction keeps who wrote a row, and when.
fn rows(snapshot: &Snapshot) -> Vec<String> {
    let table = schema::of_snapshot(snapshot).unwrap().unwrap();
    let columns = table.with_meta().fields().iter().map(|f| f.name().clone());
    let columns: Vec<String> = columns.filter(|c| c != "_hoodie_file_name").collect();
    let mut rows = all_rows(snapshot, &columns).unwrap();
    rows.sort();
    rows
}

fn logs(snapshot: &Snapshot) -> usize {
    slices_of(snapshot).unwrap().iter().map(|s| s.log_files.len()).sum()
}

fn listed(snapshot: &Snapshot) -> usize {
    snapshot.partitions().unwrap().iter().map(|p| snapshot.partition(p).unwrap().listed_len()).sum()
}

/// Compacts a table once; the rows are the same, and are all in base files.
fn check(name: &str, table: &Unpacked) -> usize {
    let before = snapshot(table);
    let (expected, groups) = (rows(&before), slices_of(&before).unwrap().len());
    let with_logs = slices_of(&before).unwrap().iter().filter(|s| !s.log_files.is_empty()).count();
    let reports = writer(table, &[]).compact().unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let after = snapshot(table);
    assert_eq!(rows(&after), expected, "{name}: {reports:?}");
    assert_eq!(logs(&after), 0, "{name}: {reports:?}");
    assert_eq!(listed(&after), groups, "{name}: every group has a base file");
    if with_logs > 0 {
        let last = after.timeline().writes().next_back().unwrap();
        assert_eq!(last.action, Action::Commit, "{name}");
        let metadata: Arc<CommitMetadata> = after.timeline().commit_metadata(&**after.storage(), last).unwrap();
        assert!(metadata.compacted && metadata.operation.as_deref() == Some("COMPACT"), "{name}: {metadata:?}");
        let stats: Vec<_> = metadata.written.iter().flat_map(|p| &p.stats).collect();
        assert!(stats.iter().all(|s| s.previous.is_some() && s.total_log_files_compacted > 0), "{name}: {stats:?}");
    }
    // Nothing is left to do.
    assert!(writer(table, &[]).compact().unwrap().is_empty(), "{name}");
    with_logs
}

#[test]
fn rows_stay_and_logs_go() {
    let mut with_logs = 0;
    for name in [
        "v6_mor_rollback_plain",
        "v6_mor_compaction_hive",
        "v6_mor_null_hive",
        "v8_mor_basic_plain",
        "v8_mor_log_only_plain",
        "v9_mor_basic_nested",
        "v9_mor_compaction_hive",
        "v9_mor_crossed_bucket",
        "v9_mor_overwrite_hive",
    ] {
        with_logs += check(name, &fixture(name));
    }
    assert!(with_logs >= 9, "only {with_logs} groups had logs");
}

#[test]
fn the_metadata_table_follows() {
    for name in [
        "v6_mor_basic_nested_mdt",
        "v6_mor_compaction_plain_mdt",
        "v6_mor_log_only_plain_mdt",
        "v8_mor_compaction_hive_mdt",
        "v8_mor_crossed_bucket_mdt",
        "v9_mor_compaction_plain_mdt",
        "v9_mor_log_only_plain_mdt",
    ] {
        let table = fixture(name);
        assert!(check(name, &table) > 0 || name.contains("compaction"), "{name} has no logs");
        let by_storage = open(&table.base(), Listing::Storage).unwrap().snapshot();
        assert_eq!(snapshot(&table).lister_name(), "metadata_table", "{name}: {:?}", snapshot(&table).warnings());
        assert_eq!(rows(&by_storage), rows(&snapshot(&table)), "{name}");
    }
}

#[test]
fn a_compaction_that_java_planned_is_carried_out() {
    if !has_golden() {
        return;
    }
    let table = golden("derived_v8_mor_pending_compaction");
    // Its metadata table has been compacted with what the undone compaction wrote: a state that no writer leaves.
    let properties = table.base().join(".hoodie/hoodie.properties");
    let text = std::fs::read_to_string(&properties).unwrap();
    let kept = text.lines().filter(|l| !l.starts_with("hoodie.table.metadata.partitions"));
    std::fs::write(&properties, kept.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    std::fs::remove_dir_all(table.base().join(".hoodie/metadata")).unwrap();
    let before = snapshot(&table);
    let pending = before.timeline().pending().find(|i| i.action == Action::Compaction).unwrap().requested;
    let expected = rows(&before);
    let reports = writer(&table, &[]).compact().unwrap();
    assert_eq!(reports.first().and_then(|r| r.instant.clone()), Some(pending.to_string()), "{reports:?}");
    let after = snapshot(&table);
    assert!(after.timeline().completed().any(|i| i.requested == pending && i.action == Action::Commit));
    assert_eq!(rows(&after), expected);
    assert_eq!(logs(&after), 0);
}

/// A compaction of a process that died is inflight, with half of its files: it goes back to requested and is done again.
#[test]
fn a_failed_compaction_is_done_again() {
    for name in ["v6_mor_null_hive", "v8_mor_basic_plain", "v9_mor_basic_nested"] {
        let table = fixture(name);
        let before = snapshot(&table);
        let expected = rows(&before);
        let slice = slices_of(&before).unwrap().into_iter().find(|s| !s.log_files.is_empty()).unwrap();
        // Requested and taken up; then a log file cannot be read.
        let log = table.base().join(&slice.partition).join(&slice.log_files[0].name);
        let bytes = std::fs::read(&log).unwrap();
        std::fs::write(&log, vec![b'x'; bytes.len()]).unwrap();
        let failed = writer(&table, &[]).compact();
        std::fs::write(&log, bytes).unwrap();
        assert!(failed.as_ref().unwrap_err().to_string().contains("no log block begins"), "{failed:?}");
        let pending = snapshot(&table).timeline().pending().find(|i| i.action == Action::Compaction).copied();
        assert_eq!(pending.map(|i| i.state), Some(State::Requested), "{name}: {:?}", failed.err());
        assert_eq!(rows(&snapshot(&table)), expected, "{name}: rows while a compaction is pending");
        let reports = writer(&table, &[]).compact().unwrap();
        assert_eq!(reports[0].instant, pending.map(|i| i.requested.to_string()), "{name}");
        assert_eq!((rows(&snapshot(&table)), logs(&snapshot(&table))), (expected, 0), "{name}");
    }
}

/// An inflight compaction whose owner left nothing but its files and markers.
#[test]
fn a_compaction_that_was_killed_is_done_again() {
    for name in ["v6_mor_null_hive", "v9_mor_basic_nested"] {
        let table = fixture(name);
        let expected = rows(&snapshot(&table));
        let first = writer(&table, &[]).compact().unwrap().remove(0);
        let done = snapshot(&table);
        // As if it had been killed right before its commit point.
        let folder = table.base().join(done.config().timeline_folder());
        let time = first.instant.unwrap();
        let completed = std::fs::read_dir(&folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .find(|n| n.starts_with(&time) && n.ends_with(".commit"))
            .unwrap();
        std::fs::remove_file(folder.join(completed)).unwrap();
        for slice in slices_of(&done).unwrap() {
            let Some(base) = slice.base_file.filter(|b| b.name.contains(&time)) else { continue };
            let markers = table.base().join(".hoodie/.temp").join(&time).join(&slice.partition);
            std::fs::create_dir_all(&markers).unwrap();
            std::fs::write(markers.join(format!("{}.marker.MERGE", base.name)), b"").unwrap();
        }
        assert_eq!(rows(&snapshot(&table)), expected, "{name}: rows of a compaction that did not complete");
        // Nothing says that its writer is dead: it is left alone, unless failed writes are rolled back at once.
        assert!(writer(&table, &[]).compact().unwrap().is_empty());
        let again = writer(&table, &[("hoodie.clean.failed.writes.policy", "EAGER")]).compact().unwrap();
        assert_eq!(again[0].instant.as_ref(), Some(&time), "{name}: {again:?}");
        assert_eq!((rows(&snapshot(&table)), logs(&snapshot(&table))), (expected, 0), "{name}");
    }
}

#[test]
fn a_bound_of_input_and_output_leaves_groups_for_later() {
    let table = fixture("v8_mor_log_only_plain");
    let settings = [("hoodie.compaction.target.io", "0")];
    let groups = slices_of(&snapshot(&table)).unwrap().iter().filter(|s| !s.log_files.is_empty()).count();
    assert!(groups > 1, "{groups} groups with logs");
    for done in 1..=groups {
        let reports = writer(&table, &settings).compact().unwrap();
        assert_eq!((reports.len(), reports[0].items), (1, 1), "{reports:?}");
        let left = slices_of(&snapshot(&table)).unwrap().iter().filter(|s| !s.log_files.is_empty()).count();
        assert_eq!(left, groups - done);
    }
}
