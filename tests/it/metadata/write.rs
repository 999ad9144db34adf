//! Writing to the metadata tables of tables that Hudi wrote: a synthetic commit goes in, and comes out of our readers.

use crate::common::Unpacked;
use crate::metadata::golden::{open, tables_with_metadata};
use hudifs::format::commit::{CommitMetadata, WriteStat};
use hudifs::format::file_name::{FileName, WriteToken, base_file_name};
use hudifs::format::instant::{Action, Instant, InstantTime};
use hudifs::format::properties::TableType;
use hudifs::metadata::write::{AddedFile, Changes, KeysOfGroup, MetadataOptions, MetadataWriter};
use hudifs::metadata::{Bound, ColumnRange, MetadataLister, RecordIndex};
use hudifs::storage::{Storage, TablePath};
use hudifs::timeline::{InstantWriter, Timeline};
use hudifs::view::Lister;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// A commit that adds a copy of a base file as a new file group.
pub struct Synthetic {
    pub storage: Arc<dyn Storage>,
    pub instants: InstantWriter,
    pub started: Instant,
    pub partition: String,
    pub name: String,
    pub file_id: String,
    pub size: u64,
    /// Keys that no other row has.
    pub keys: Vec<String>,
}

impl Synthetic {
    /// Begins the commit and puts the file in place.
    pub fn begin(base: &Path) -> Synthetic {
        let (storage, timeline) = open(base);
        let (partition, source) = some_base_file(&storage, &timeline);
        let instants = InstantWriter::new(storage.clone(), &timeline).unwrap();
        let action = match timeline.config().table_type() {
            TableType::CopyOnWrite => Action::Commit,
            TableType::MergeOnRead => Action::DeltaCommit,
        };
        let time = instants.new_time(&timeline).unwrap();
        let requested = instants.request(time, action, Vec::new()).unwrap();
        let started = instants.start(&requested, Vec::new()).unwrap();
        let file_id = format!("{}-0", Uuid::new_v4());
        let name = base_file_name(&file_id, WriteToken { partition: 0, stage: 7, attempt: 0 }, time, ".parquet");
        let dir = TablePath::parse(&partition).unwrap();
        let bytes = storage.read(&dir.join(&source).unwrap(), 1 << 30).unwrap();
        let size = storage.create(&dir.join(&name).unwrap(), bytes).unwrap().size;
        let keys = (0..3).map(|i| format!("synthetic-{time}-{i}")).collect();
        Synthetic { storage, instants, started, partition, name, file_id, size, keys }
    }

    pub fn time(&self) -> InstantTime {
        self.started.requested
    }

    /// What the metadata table must know of it.
    pub fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        let column = |name: &str, min: &str, max: &str| ColumnRange {
            column: name.to_owned(),
            min: Some(Bound::String(min.to_owned())),
            max: Some(Bound::String(max.to_owned())),
            values: 3,
            nulls: 0,
            bytes: 100,
            uncompressed_bytes: 200,
        };
        let columns = vec![
            column("_hoodie_record_key", "synthetic-", "synthetic-9"),
            column("_hoodie_commit_time", self.time().as_str(), self.time().as_str()),
        ];
        let added = AddedFile { size: self.size, columns };
        changes.partition(&self.partition).added.insert(self.name.clone(), added);
        changes.placed.push(KeysOfGroup {
            partition: self.partition.clone(),
            file_id: self.file_id.clone(),
            instant: None,
            keys: self.keys.clone(),
        });
        changes
    }

    /// Puts it into the metadata table.
    pub fn update(&self) -> hudifs::Result<()> {
        let timeline = self.timeline();
        let writer = MetadataWriter::open(self.storage.clone(), &timeline, options())?.expect("a metadata table");
        writer.update(self.time(), &self.changes())
    }

    pub fn timeline(&self) -> Timeline {
        let config = hudifs::timeline::load_config(&*self.storage, &TablePath::root()).unwrap();
        Timeline::load(&*self.storage, &TablePath::root(), &config).unwrap()
    }

    /// Completes the commit.
    pub fn complete(&self) {
        let timeline = self.timeline();
        let schema = timeline
            .writes()
            .rev()
            .find_map(|w| timeline.commit_metadata(&*self.storage, w).unwrap().schema().map(str::to_owned));
        let mut metadata = CommitMetadata { operation: Some("BULK_INSERT".to_owned()), ..CommitMetadata::default() };
        metadata.extra.extend(schema.map(|s| ("schema".to_owned(), s)));
        let path =
            if self.partition.is_empty() { self.name.clone() } else { format!("{}/{}", self.partition, self.name) };
        metadata.add(
            &self.partition,
            WriteStat {
                file_id: self.file_id.clone(),
                path: Some(path),
                size: Some(self.size),
                records: Some(3),
                num_inserts: 3,
                total_write_bytes: self.size,
                ..WriteStat::default()
            },
        );
        let bytes = metadata.encode(timeline.config().layout(), self.started.action).unwrap();
        self.instants.complete(&self.started, &timeline, bytes).unwrap();
    }

    /// True if the metadata table lists its file.
    pub fn is_listed(&self) -> bool {
        let lister = MetadataLister::open(&*self.storage, &self.timeline()).unwrap();
        let files = lister.files(&TablePath::parse(&self.partition).unwrap()).unwrap();
        let found = files.iter().find(|f| f.name == self.name);
        assert!(found.is_none_or(|f| f.size == Some(self.size)), "{found:?}");
        found.is_some()
    }
}

pub fn options() -> MetadataOptions {
    MetadataOptions { drop_unsupported_index: true, ..MetadataOptions::default() }
}

fn some_base_file(storage: &Arc<dyn Storage>, timeline: &Timeline) -> (String, String) {
    let lister = MetadataLister::open(&**storage, timeline).unwrap();
    for partition in lister.partitions().unwrap() {
        for file in lister.files(&partition).unwrap() {
            if matches!(FileName::parse(&file.name), FileName::Base(b) if b.extension == ".parquet") {
                return (partition.as_str().to_owned(), file.name);
            }
        }
    }
    panic!("no base file in {}", storage.uri());
}

/// One table of each version, type and set of indexes, by name.
const TABLES: [&str; 14] = [
    "v6_cow_rollback_hive_mdt",
    "v6_cow_indexing_nonpart_mdt",
    "v6_mor_archived_hive_mdt",
    "v6_mor_log_only_plain_mdt",
    "v6by1_mor_compaction_plain_mdt",
    "v8_cow_archived_hive_mdt",
    "v8_mor_rollback_plain_mdt",
    "v9_cow_clustering_hive_mdt",
    "v9_mor_archived_plain_mdt",
    "cow_v9_txns_simple_meta",
    "mor_v9_nonpartitioned_rollback",
    "hudi_cow_pt_table_with_field_names_in_caps",
    "mor_v8_trips_8i3u1d",
    "hudi_v9_table_mor",
];

/// The tables of [`TABLES`] that are at hand and have a base file to copy.
fn tables() -> impl Iterator<Item = (String, Unpacked)> {
    tables_with_metadata().filter(|(name, _)| TABLES.contains(&name.as_str())).filter(|(_, table)| {
        let (storage, timeline) = open(&table.base());
        let lister = MetadataLister::open(&*storage, &timeline).unwrap();
        let is_base = |name: &str| matches!(FileName::parse(name), FileName::Base(b) if b.extension == ".parquet");
        let partitions = lister.partitions().unwrap();
        partitions.iter().any(|p| lister.files(p).unwrap().iter().any(|f| is_base(&f.name)))
    })
}

#[test]
fn a_commit_is_listed_when_the_data_table_has_completed_it_and_not_before() {
    let (mut written, mut indexed) = (0, 0);
    for (name, table) in tables() {
        let commit = Synthetic::begin(&table.base());
        commit.update().unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert!(!commit.is_listed(), "{name}: before its commit");
        // A second attempt takes the first one back.
        commit.update().unwrap_or_else(|e| panic!("{name}, again: {e:?}"));
        assert!(!commit.is_listed(), "{name}: before its commit");
        let keys: Vec<&str> = commit.keys.iter().map(String::as_str).collect();
        if RecordIndex::is_available(&commit.timeline()) {
            let index = RecordIndex::open(commit.storage.clone(), &commit.timeline()).unwrap();
            assert_eq!(index.lookup(&keys, 2).unwrap(), [None, None, None], "{name}: before its commit");
        }
        commit.complete();
        assert!(commit.is_listed(), "{name}: after its commit");
        if RecordIndex::is_available(&commit.timeline()) {
            let index = RecordIndex::open(commit.storage.clone(), &commit.timeline()).unwrap();
            for location in index.lookup(&keys, 2).unwrap() {
                let location = location.unwrap_or_else(|| panic!("{name}: a key is not found"));
                assert_eq!((&*location.partition, &*location.file_id), (&*commit.partition, &*commit.file_id));
                assert_eq!(location.instant, commit.time(), "{name}");
            }
            indexed += 1;
        }
        written += 1;
    }
    println!("{written} tables written to, {indexed} with a record index");
    assert!(written > 12 || !crate::common::has_golden(), "{written}");
}

/// All that the metadata table lists.
fn listing(storage: &dyn Storage, timeline: &Timeline) -> Vec<(String, String, Option<u64>)> {
    let lister = MetadataLister::open(storage, timeline).unwrap();
    let mut all = Vec::new();
    for partition in lister.partitions().unwrap() {
        for file in lister.files(&partition).unwrap() {
            all.push((partition.as_str().to_owned(), file.name, file.size));
        }
    }
    all.sort();
    all
}

/// Keys of base files that the index knows, with their places.
fn places(base: &Path, timeline: &Timeline) -> Vec<(String, Option<hudifs::metadata::KeyLocation>)> {
    if !RecordIndex::is_available(timeline) {
        return Vec::new();
    }
    let (storage, _) = open(base);
    let index = RecordIndex::open(storage.clone(), timeline).unwrap();
    let mut keys = Vec::new();
    for (partition, name, _) in listing(&*storage, timeline) {
        if name.ends_with(".parquet") {
            keys.extend(super::record_index::keys_of(&base.join(partition).join(name)));
        }
    }
    let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found = index.lookup(&asked, 2).unwrap();
    keys.into_iter().zip(found).collect()
}

#[test]
fn a_compaction_changes_nothing_that_is_read_and_takes_the_logs_in() {
    let mut compacted = 0;
    for (name, table) in tables() {
        let commit = Synthetic::begin(&table.base());
        commit.update().unwrap();
        commit.complete();
        let timeline = commit.timeline();
        let before = (listing(&*commit.storage, &timeline), places(&table.base(), &timeline));
        let always = MetadataOptions { compact_after: 1, ..options() };
        let writer = MetadataWriter::open(commit.storage.clone(), &timeline, always).unwrap().unwrap();
        let done = writer.maintain().unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let pending = timeline.pending().next().is_some();
        assert!(done.is_some() || pending, "{name} was not compacted");
        let Some(instant) = done else { continue };
        let after = (listing(&*commit.storage, &timeline), places(&table.base(), &timeline));
        assert_eq!(before, after, "{name}");
        let lister = MetadataLister::open(&*commit.storage, &timeline).unwrap();
        let base = lister.base_file().unwrap().file_name().to_owned();
        assert!(base.contains(instant.as_str()), "{name}: {base} is not of {instant}");
        // Writing goes on, on top of it.
        let next = Synthetic::begin(&table.base());
        next.update().unwrap();
        next.complete();
        assert!(commit.is_listed() && next.is_listed(), "{name}");
        compacted += 1;
    }
    println!("{compacted} metadata tables compacted");
    assert!(compacted > 12 || !crate::common::has_golden(), "{compacted}");
}

#[test]
fn a_rollback_takes_a_commit_out_again() {
    let mut rolled_back = 0;
    for (name, table) in tables() {
        let before = listing(&*open(&table.base()).0, &open(&table.base()).1);
        let commit = Synthetic::begin(&table.base());
        commit.update().unwrap();
        // The writer dies; the rollback finds the commit in the metadata table.
        let timeline = commit.timeline();
        let at = commit.instants.new_time(&timeline).unwrap();
        let requested = commit.instants.request(at, Action::Rollback, Vec::new()).unwrap();
        let started = commit.instants.start(&requested, Vec::new()).unwrap();
        let writer = MetadataWriter::open(commit.storage.clone(), &commit.timeline(), options()).unwrap().unwrap();
        writer.rollback(at, commit.time(), &Changes::default()).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        commit.instants.delete_pending(&commit.started).unwrap();
        commit.instants.complete(&started, &commit.timeline(), Vec::new()).unwrap();
        std::fs::remove_file(table.base().join(&commit.partition).join(&commit.name)).unwrap();
        assert_eq!(listing(&*commit.storage, &commit.timeline()), before, "{name}");
        // The table goes on.
        let next = Synthetic::begin(&table.base());
        next.update().unwrap();
        next.complete();
        assert!(next.is_listed() && !commit.is_listed(), "{name}");
        rolled_back += 1;
    }
    assert!(rolled_back > 12 || !crate::common::has_golden(), "{rolled_back}");
}

#[test]
fn indexes_that_cannot_be_kept_are_refused_by_name_or_dropped() {
    let Some((name, table)) = tables().find(|(name, _)| name == "cow_v9_txns_simple_meta") else {
        return crate::common::skipped("no golden tables");
    };
    let (storage, timeline) = open(&table.base());
    let refused = MetadataWriter::open(storage.clone(), &timeline, MetadataOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), hudifs::ErrorKind::Unsupported);
    assert!(refused.message().contains("secondary_index_merchant_idx, secondary_index_txn_date_idx"), "{refused}");
    assert!(refused.hint().unwrap().contains("--drop-unsupported-index"));
    assert!(table.base().join(".hoodie/metadata/secondary_index_merchant_idx").is_dir(), "nothing is touched");
    MetadataWriter::open(storage.clone(), &timeline, options()).unwrap().unwrap();
    let (_, timeline) = open(&table.base());
    let left = timeline.config().metadata_partitions();
    assert_eq!(left, ["column_stats", "files", "partition_stats", "record_index"], "{name}");
    assert!(!table.base().join(".hoodie/metadata/secondary_index_merchant_idx").exists());
    let defined = std::fs::read_to_string(table.base().join(".hoodie/.index_defs/index.json")).unwrap();
    assert!(!defined.contains("secondary") && defined.contains("column_stats"), "{defined}");
    // From now on it is written to as any other.
    MetadataWriter::open(storage, &timeline, MetadataOptions::default()).unwrap().unwrap();
}
