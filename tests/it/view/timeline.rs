//! The timeline as it is found: half-written properties, old names in new layouts, archived instants, refreshes.

use super::built::{Built, replacing, time};
use crate::common::{golden, golden_names, repo, unpack};
use hudifs::ErrorKind;
use hudifs::format::instant::{Action, State, Zone};
use hudifs::format::plan;
use hudifs::storage::{LocalStorage, Storage, TablePath};
use hudifs::timeline::{Timeline, load_config};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn name_of(table: &Built) -> hudifs::Result<String> {
    load_config(&*table.storage(), &TablePath::root()).map(|c| c.name().to_owned())
}

#[test]
fn properties_are_read_from_the_backup_while_they_are_written() {
    let table = Built::new(6);
    let good = std::fs::read(table.path(".hoodie/hoodie.properties")).unwrap();
    let wrong_sum = [&good[..], b"hoodie.table.checksum=1\n"].concat();
    for (main, backup, ok) in [
        (Some(&good), None, true),
        (None, Some(&good), true),
        (Some(&Vec::new()), Some(&good), true),
        (Some(&wrong_sum), Some(&good), true),
        (Some(&good), Some(&wrong_sum), true),
        (Some(&wrong_sum), None, false),
        (Some(&wrong_sum), Some(&Vec::new()), false),
    ] {
        for (file, content) in [("hoodie.properties", main), ("hoodie.properties.backup", backup)] {
            let path = table.path(".hoodie").join(file);
            match content {
                Some(content) => std::fs::write(path, content).unwrap(),
                None => drop(std::fs::remove_file(path)),
            }
        }
        match name_of(&table) {
            Ok(name) => assert!(ok && name == "t"),
            Err(e) => assert!(!ok && e.kind() == ErrorKind::Corrupt && e.message().contains("checksum"), "{e}"),
        }
    }
}

/// Both are missing for a moment, or the one that is there is still empty: that is no reason to fail.
#[test]
fn properties_that_come_a_moment_later() {
    let table = Built::new(6);
    let path = table.path(".hoodie/hoodie.properties");
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, b"").unwrap();
    std::fs::create_dir_all(table.path(".hoodie/.temp")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(60));
            std::fs::write(&path, &good).unwrap();
        });
        assert_eq!(name_of(&table).unwrap(), "t");
    });
}

#[test]
fn a_folder_that_is_no_table() {
    let dir = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new(dir.path()).unwrap();
    let started = Instant::now();
    let error = load_config(&storage, &TablePath::root()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains(dir.path().to_str().unwrap()) && error.hint().is_some(), "{error}");
    assert!(started.elapsed() < Duration::from_millis(300), "there is nothing to wait for");
}

#[test]
fn refused_versions_say_so_at_once() {
    for version in [7, 10, 42] {
        let table = Built::new(version);
        let started = Instant::now();
        let error = name_of(&table).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(&format!("table version {version}")), "{error}");
        assert!(started.elapsed() < Duration::from_millis(300));
    }
}

#[test]
fn one_entry_an_instant_in_its_highest_state() {
    let table = Built::new(9);
    for name in [
        "001.commit.requested",
        "001.inflight",
        "001_002.commit",
        "003.compaction.requested",
        "003.compaction.inflight",
        "003_004.commit",
        "005.clustering.requested",
        "005.clustering.inflight",
        "006.logcompaction.requested",
        "007.clustering.requested",
        "007_008.replacecommit",
        "001_009.savepoint",
        "001.savepoint.inflight",
        "010.rollback.requested",
        "011.deltacommit.requested",
        "011.deltacommit.inflight",
        ".012.commit.requested.crc",
        "013.commit.tmp",
        "history",
    ] {
        table.instant(name, "");
    }
    let timeline = table.timeline();
    let found: Vec<(String, Action, State)> =
        timeline.instants().iter().map(|i| (i.requested.to_string(), i.action, i.state)).collect();
    use Action::*;
    use State::*;
    let expected = [
        ("001", Commit, Completed),
        ("001", Savepoint, Completed),
        ("003", Commit, Completed),
        ("005", Clustering, Inflight),
        ("006", LogCompaction, Requested),
        ("007", ReplaceCommit, Completed),
        ("010", Rollback, Requested),
        ("011", DeltaCommit, Inflight),
    ];
    assert_eq!(found, expected.map(|(t, a, s)| (t.to_owned(), a, s)));
    assert_eq!(timeline.latest_write(), Some(time("007")));
    assert_eq!(timeline.first(), Some(time("003")), "001 is kept by its savepoint, and may have been left behind");
    assert!(timeline.contains_completed(time("001")) && timeline.is_committed(time("002")));
    assert!(!timeline.is_committed(time("005")) && !timeline.is_committed(time("011")));
    assert!(timeline.is_pending_write(time("006")) && !timeline.is_pending_write(time("010")));
    assert_eq!(timeline.latest_write_at(time("006")), Some(time("003")));
    assert_eq!(timeline.latest_write_at(time("000")), None);
}

#[test]
fn instants_with_one_time_in_layout_2_complete_when_their_file_was_written() {
    let table = Built::new(8);
    table.instant("20240101000000000.commit", r#"{"operationType":"INSERT"}"#);
    table.instant("20240102000000000_20240102000001000.commit", "");
    let timeline = table.timeline();
    let storage = table.storage();
    let modified = storage.stat(&TablePath::parse(".hoodie/timeline/20240101000000000.commit").unwrap()).unwrap();
    let at = timeline.completion_time(&*storage, time("20240101000000000")).unwrap().unwrap();
    assert_eq!(at.epoch_ms(Zone::Local), Some(modified.modified_ms));
    let at = timeline.completion_time(&*storage, time("20240102000000000")).unwrap();
    assert_eq!(at, Some(time("20240102000001000")));
    assert_eq!(timeline.completion_time(&*storage, time("20240103000000000")).unwrap(), None);
    assert_eq!(timeline.completion_time(&*storage, time("20230103000000000")).unwrap(), None, "no history at all");
    let commit = timeline.find_write(time("20240101000000000")).unwrap();
    let metadata = timeline.commit_metadata(&*storage, commit).unwrap();
    assert_eq!(metadata.operation.as_deref(), Some("INSERT"));
    let empty = timeline.find_write(time("20240102000000000")).unwrap();
    assert!(timeline.commit_metadata(&*storage, empty).unwrap().empty);
    assert!(timeline.warnings().iter().any(|w| w.contains("20240102000000000")), "{:?}", timeline.warnings());
}

/// Every archived instant of a golden table is in its history, whose files are named by requested and completion time.
#[test]
fn archived_completion_times() {
    let mut checked = 0;
    for name in golden_names() {
        let archived = crate::common::golden_answer(&name)["archived"].clone();
        let in_history = archived["dir"].as_str().is_some_and(|d| d.ends_with("timeline/history"));
        if !in_history {
            continue;
        }
        let table = golden(&name);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&table.base()).unwrap());
        let config = load_config(&*storage, &TablePath::root()).unwrap();
        let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
        for instant in archived["instants"].as_array().unwrap() {
            let (times, _) = instant.as_str().unwrap().split_once('.').unwrap();
            let (requested, completion) = times.split_once('_').unwrap();
            let at = timeline.completion_time(&*storage, time(requested)).unwrap();
            assert_eq!(at, Some(time(completion)), "{name} {requested}");
            checked += 1;
        }
        assert_eq!(timeline.archived_len(&*storage).unwrap(), archived["instants"].as_array().unwrap().len());
        // Without `_version_` the newest manifest is looked for.
        std::fs::remove_file(table.base().join(".hoodie/timeline/history/_version_")).unwrap();
        let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
        assert_eq!(timeline.archived_len(&*storage).unwrap(), archived["instants"].as_array().unwrap().len());
        // A damaged history is an error for who needs it, and for nobody else.
        for entry in std::fs::read_dir(table.base().join(".hoodie/timeline/history")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "parquet") {
                std::fs::write(path, b"PAR1 torn").unwrap();
            }
        }
        let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
        assert_eq!(timeline.archived_len(&*storage).unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(timeline.latest_write().is_some());
    }
    assert!(checked == 0 || checked >= 7, "only {checked} archived instants were checked");
}

#[test]
fn what_services_say_in_golden_tables() {
    let mut seen = (0, 0, 0);
    for name in golden_names() {
        let table = golden(&name);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&table.base()).unwrap());
        let config = load_config(&*storage, &TablePath::root()).unwrap();
        let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
        for instant in timeline.completed() {
            let bytes = timeline.read(&*storage, instant).unwrap();
            match instant.action {
                Action::Clean => {
                    plan::earliest_retained(&bytes).unwrap();
                    seen.0 += 1;
                }
                Action::Rollback => {
                    let undone = plan::undone_instants(&bytes).unwrap();
                    assert!(!undone.is_empty(), "{name}");
                    assert!(undone.iter().all(|t| !timeline.contains_completed(*t)), "{name} {undone:?}");
                    seen.1 += 1;
                }
                a if a.is_write() => {
                    let metadata = timeline.commit_metadata(&*storage, instant).unwrap();
                    let operation = metadata.operation.as_deref();
                    if operation == Some("CLUSTER") {
                        let requested = timeline.requested_replaces(&*storage, &[instant]).unwrap().remove(0);
                        // Layout 2 has its plan under another name, which a pending instant would carry.
                        if let Some(groups) = requested.and_then(|r| r.clustered.clone()) {
                            let replaced: usize = metadata.replaced.iter().map(|r| r.file_ids.len()).sum();
                            assert_eq!(groups.len(), replaced, "{name}");
                            seen.2 += 1;
                        }
                    }
                }
                _ => {}
            }
        }
    }
    assert!(seen == (0, 0, 0) || (seen.0 > 0 && seen.1 > 0 && seen.2 > 0), "{seen:?}");
}

#[test]
fn a_refresh_keeps_what_is_known() {
    let table = Built::new(6);
    table.instant("001.replacecommit", &replacing(&["f-0"])).data(&[]);
    let storage = table.storage();
    let first = table.timeline();
    let replaced = |timeline: &Timeline| {
        let instants: Vec<_> = timeline.writes().filter(|i| i.action == Action::ReplaceCommit).collect();
        timeline.replacements(&*storage, &instants).map(|r| r.iter().flatten().count())
    };
    assert_eq!(replaced(&first).unwrap(), 1);
    // Damaged after it was read: a refresh that only grows must not read it again.
    table.instant("001.replacecommit", "");
    let same = first.reload(&*storage).unwrap();
    assert!(same.same_instants(&first));
    table.instant("002.commit.requested", "");
    let pending = first.reload(&*storage).unwrap();
    assert!(!pending.same_instants(&first));
    table.instant("002.commit", "{}");
    let grown = pending.reload(&*storage).unwrap();
    assert_eq!(grown.latest_write(), Some(time("002")));
    assert_eq!(replaced(&grown).unwrap(), 1);
    // A table that was made anew under the same path is another one.
    table.remove_instant("002.commit");
    let other = grown.reload(&*storage).unwrap();
    assert_eq!(replaced(&other).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn folders_that_lead_out_of_the_table() {
    for line in ["hoodie.timeline.path=../../elsewhere", "hoodie.timeline.path=/etc", "hoodie.timeline.path=a//b"] {
        let table = Built::new(8);
        table.property(line);
        let config = load_config(&*table.storage(), &TablePath::root()).unwrap();
        let error = Timeline::load(&*table.storage(), &TablePath::root(), &config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{line}");
        assert!(error.message().contains("timeline folder"), "{error}");
    }
    for (file, content) in [("_version_", "1"), ("manifest_1", r#"{"files":[{"fileName":"../../../../etc/passwd"}]}"#)]
    {
        let table = Built::new(8);
        table.instant("20240101000000000_20240101000000001.commit", "");
        table.file(".hoodie/timeline/history/_version_", b"1");
        table.file(&format!(".hoodie/timeline/history/{file}"), content.as_bytes());
        let timeline = table.timeline();
        let error = timeline.completion_time(&*table.storage(), time("001")).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound), "{error}");
    }
}

fn fixture(name: &str) -> crate::common::Unpacked {
    unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name)
}

/// Twelve commits were made; the archiver has taken the first ones out of the active timeline.
#[test]
fn archived_instants_of_both_layouts_complete_the_history() {
    for (name, commits) in [("v6_cow_archived_plain_mdt", 12), ("v8_cow_archived_hive_mdt", 12)] {
        let table = fixture(name);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&table.base()).unwrap());
        let config = load_config(&*storage, &TablePath::root()).unwrap();
        let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
        let archived = timeline.archived(&*storage).unwrap();
        assert!(archived.windows(2).all(|w| (w[0].requested, w[0].action) < (w[1].requested, w[1].action)), "{name}");
        let active = timeline.writes().map(|i| i.requested).collect::<BTreeSet<_>>();
        let old = archived.iter().filter(|i| i.action.is_write()).map(|i| i.requested).collect::<BTreeSet<_>>();
        assert!(!old.is_empty() && active.is_disjoint(&old), "{name}");
        assert_eq!(active.len() + old.len(), commits, "{name}: {active:?} {old:?}");
        // What Spark was asked about right after each commit, before it was archived.
        let answer = std::fs::read(repo().join(format!("tests/fixtures/{name}.json"))).unwrap();
        let known: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        for instant in known["time_travel"].as_object().unwrap().keys() {
            let time = time(instant);
            assert!(active.contains(&time) || old.contains(&time), "{name}: {instant}");
        }
        assert!(archived.iter().all(|i| i.is_completed()), "{name}");
        assert!(archived.iter().any(|i| i.action == Action::Clean) || name.starts_with("v8"), "{name}");
        assert!(timeline.warnings().is_empty(), "{:?}", timeline.warnings());
    }
}

#[test]
fn a_damaged_archive_loses_its_own_instants_and_says_so() {
    let table = fixture("v6_cow_archived_plain_mdt");
    let folder = table.base().join(".hoodie/archived");
    let is_log = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with(".commits_.archive.");
    let logs: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(is_log).collect();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&table.base()).unwrap());
    let config = load_config(&*storage, &TablePath::root()).unwrap();
    let load = || Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
    let all = load().archived(&*storage).unwrap().len();
    for log in &logs {
        let whole = std::fs::read(log).unwrap();
        let overwritten = [&whole[..20], &[0xff; 8], &whole[28..]].concat();
        for damage in [b"#HUDI#".to_vec(), b"no log".to_vec(), whole[..whole.len() / 2 + 7].to_vec(), overwritten] {
            std::fs::write(log, &damage).unwrap();
            let timeline = load();
            let left = timeline.archived(&*storage).unwrap().len();
            let told = timeline.warnings().iter().any(|w| w.contains(".commits_.archive."));
            assert!(left <= all && told, "{}: {:?}", log.display(), timeline.warnings());
        }
        std::fs::write(log, &whole).unwrap();
    }
    assert!(!logs.is_empty());
    assert_eq!(load().archived(&*storage).unwrap().len(), all);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(load().archived(&*storage).unwrap().is_empty());
}
