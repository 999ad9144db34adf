//! Every golden table, at every instant, listed from storage: the files must be those that two independent scripts found.

use crate::common::{golden, golden_answer, golden_names};
use hudifs::format::file_name::FileName;
use hudifs::format::instant::{Action, Instant, InstantTime};
use hudifs::storage::{LocalStorage, Storage, TablePath};
use hudifs::timeline::{Timeline, load_config};
use hudifs::view::{ListedFile, Lister, StorageLister, ViewContext, load_partition, merged_slices};
use hudifs::{ErrorKind, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Opened {
    storage: Arc<dyn Storage>,
    timeline: Timeline,
    lister: StorageLister,
}

fn open(base: &std::path::Path) -> Result<Opened> {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(base)?);
    let config = load_config(&*storage, &TablePath::root())?;
    let timeline = Timeline::load(&*storage, &TablePath::root(), &config)?;
    let lister = StorageLister::new(storage.clone(), TablePath::root(), &config);
    Ok(Opened { storage, timeline, lister })
}

/// Path and size of every listed file, and the number of groups with logs only.
fn resolve(table: &Opened, as_of: Option<InstantTime>) -> Result<(BTreeMap<String, u64>, u32)> {
    let context = ViewContext::load(&*table.storage, &table.timeline, table.timeline.config(), as_of)?;
    let (mut files, mut log_only) = (BTreeMap::new(), 0);
    for partition in table.lister.partitions()? {
        let view = load_partition(&*table.storage, &context, &table.lister, &partition)?;
        log_only += view.log_only_groups();
        for file in view.listed() {
            let path = partition.join(file.stored_path()).unwrap();
            assert!(files.insert(path.to_string(), file.size().unwrap()).is_none(), "{path} twice");
        }
    }
    Ok((files, log_only))
}

fn expected_files(list: &Value) -> BTreeMap<String, u64> {
    let files = list["files"].as_array().unwrap();
    files.iter().map(|f| (f["path"].as_str().unwrap().to_owned(), f["size"].as_u64().unwrap())).collect()
}

#[test]
fn every_table_at_every_instant() {
    let (mut tables, mut points) = (0, 0);
    for name in golden_names() {
        let (unpacked, answer) = (golden(&name), golden_answer(&name));
        let table = open(&unpacked.base()).unwrap_or_else(|e| panic!("{name}: {e}"));
        if answer.get("refuse").is_some() {
            let error = resolve(&table, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
            assert!(error.message().contains("skeletons of a METADATA_ONLY bootstrap"), "{name}: {error}");
            tables += 1;
            continue;
        }
        let (files, log_only) = resolve(&table, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(files, expected_files(&answer["ro"]), "{name}");
        assert_eq!(log_only as usize, answer["log_only_file_groups"].as_array().unwrap().len(), "{name}");
        let latest = table.timeline.latest_write().map(|t| t.to_string());
        assert_eq!(latest.as_deref(), answer["latest_instant"].as_str(), "{name}");
        for (instant, list) in answer["time_travel"].as_object().unwrap() {
            let as_of = InstantTime::parse(instant).unwrap();
            let (files, _) = resolve(&table, Some(as_of)).unwrap_or_else(|e| panic!("{name} {instant}: {e}"));
            assert_eq!(files, expected_files(list), "{name} as of {instant}");
            points += 1;
        }
        let warnings = table.timeline.warnings();
        match name.as_str() {
            // Its one data file is Delta's; the Hudi table has none.
            "delta_uniform_hudi" => assert!(matches!(&warnings[..], [w] if w.contains("part-00000-")), "{warnings:?}"),
            _ => assert_eq!(warnings, Vec::<String>::new(), "{name}"),
        }
        tables += 1;
    }
    println!("{tables} tables, {points} instants");
}

/// Each completed compaction's plan says which logs its slices had. The rule must find the same ones, out of the names alone,
/// in data tables and metadata tables, when the table is looked at as it was just before the compaction.
#[test]
fn slices_agree_with_the_plans_of_compactions() {
    let mut operations = 0;
    for name in golden_names() {
        let unpacked = golden(&name);
        for root in ["", ".hoodie/metadata"] {
            let root = TablePath::parse(root).unwrap();
            if unpacked.base().join(root.as_str()).join(".hoodie/hoodie.properties").is_file() {
                operations += check_plans(&name, &unpacked.base(), &root);
            }
        }
    }
    assert!(operations == 0 || operations > 100, "only {operations} operations were checked");
    println!("{operations} operations");
}

fn check_plans(name: &str, base: &std::path::Path, root: &TablePath) -> usize {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(base).unwrap());
    let config = load_config(&*storage, root).unwrap();
    let timeline = Timeline::load(&*storage, root, &config).unwrap();
    let lister = StorageLister::new(storage.clone(), root.clone(), &config);
    let mut checked = 0;
    for commit in timeline.writes().filter(|i| i.action == Action::Commit) {
        let compaction = Instant { action: Action::Compaction, ..*commit };
        let Some(plan) = timeline.compaction_plans(&*storage, &[&compaction]).unwrap().remove(0) else { continue };
        let context = ViewContext::load(&*storage, &timeline, &config, None).unwrap();
        for operation in &plan.operations {
            let partition = TablePath::parse(&operation.partition).unwrap();
            let before: Vec<ListedFile> = lister
                .files(&partition)
                .unwrap()
                .into_iter()
                .filter(|f| match FileName::parse(&f.name) {
                    FileName::Base(b) => b.instant < commit.requested,
                    FileName::Log(log) => match timeline.completion_time(&*storage, log.instant).unwrap() {
                        Some(at) => at < commit.requested,
                        None => log.instant < commit.requested,
                    },
                    _ => false,
                })
                .collect();
            // A clean may have removed files of the plan since.
            let all_there = operation.log_files.iter().chain(&operation.base_file);
            if !all_there.into_iter().all(|n| before.iter().any(|f| f.name == *n)) {
                continue;
            }
            let mut completed = |time| timeline.completion_time(&*storage, time);
            let slices = merged_slices(&context, &operation.partition, &before, &mut completed).unwrap();
            let Some(slice) = slices.iter().find(|s| s.file_id == operation.file_id) else {
                assert!(
                    context.replaced_at(&operation.partition, &operation.file_id).is_some(),
                    "{name} {operation:?}"
                );
                continue;
            };
            assert_eq!(Some(slice.base_instant), operation.base_instant, "{name} {root}");
            assert_eq!(slice.base_file.map(str::to_owned), operation.base_file, "{name} {root}");
            assert_eq!(slice.log_files, operation.log_files, "{name} {root} {}", operation.file_id);
            checked += 1;
        }
    }
    checked
}

#[test]
fn timelines_replacements_and_pending_compactions() {
    for name in golden_names() {
        let (unpacked, answer) = (golden(&name), golden_answer(&name));
        let table = open(&unpacked.base()).unwrap();
        let found: BTreeSet<(String, Option<String>, String)> = table
            .timeline
            .writes()
            .map(|i| (i.requested.to_string(), i.completion.map(|c| c.to_string()), i.action.to_string()))
            .collect();
        let expected: BTreeSet<_> = answer["completed_instants"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| {
                let text = |key: &str| i[key].as_str().map(str::to_owned);
                (text("instant").unwrap(), text("completion"), text("action").unwrap())
            })
            .collect();
        assert_eq!(found, expected, "{name}");
        let context = ViewContext::load(&*table.storage, &table.timeline, table.timeline.config(), None).unwrap();
        let context = context.with_plans(&*table.storage).unwrap();
        let groups = |found: &mut dyn Iterator<Item = (&str, &str, InstantTime)>| -> BTreeSet<String> {
            found.map(|(p, id, at)| format!("{p}/{id}@{at}").trim_start_matches('/').to_owned()).collect()
        };
        let expect = |key: &str| -> BTreeSet<String> {
            let list = answer[key].as_array().unwrap().iter();
            list.map(|v| v.as_str().unwrap().trim_start_matches('/').to_owned()).collect()
        };
        assert_eq!(groups(&mut context.replaced()), expect("replaced_file_groups"), "{name}");
        assert_eq!(groups(&mut context.compactions()), expect("pending_compaction_groups"), "{name}");
    }
}
