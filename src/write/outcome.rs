//! What written files mean: for the commit's metadata, for the metadata table, and for whoever asked for the commit.

use super::report::{CommitReport, FileReport};
use crate::format::commit::{CommitMetadata, PartitionStats, ReplacedGroups};
use crate::metadata::write::{AddedFile, Changes, KeysOfGroup};
use crate::slice::WrittenFile;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// File groups by partition.
pub(super) type Groups = BTreeMap<String, BTreeSet<String>>;

/// A commit's metadata.
pub(super) fn metadata(
    operation: &str,
    files: &[WrittenFile],
    replaced: &Groups,
    extra: BTreeMap<String, String>,
) -> CommitMetadata {
    let mut written: BTreeMap<&str, PartitionStats> = BTreeMap::new();
    for file in files {
        let entry = written
            .entry(&file.partition)
            .or_insert_with(|| PartitionStats { partition: file.partition.clone(), ..PartitionStats::default() });
        entry.stats.push(file.stat.clone());
    }
    let replaced = replaced.iter().map(|(partition, ids)| ReplacedGroups {
        partition: partition.clone(),
        file_ids: ids.iter().cloned().collect(),
    });
    CommitMetadata {
        operation: Some(operation.to_owned()),
        written: written.into_values().collect(),
        replaced: replaced.collect(),
        extra,
        ..CommitMetadata::default()
    }
}

/// What the metadata table must know. `replaced_keys` are the keys of the groups that are replaced.
pub(super) fn changes(files: &[WrittenFile], replaced: &Groups, replaced_keys: Vec<String>) -> Changes {
    let mut changes = Changes::default();
    for file in files {
        let name = file.stat.file_name().unwrap_or_default().to_owned();
        let added = AddedFile { size: file.stat.size.unwrap_or_default(), columns: file.columns.clone() };
        changes.partition(&file.partition).added.insert(name, added);
        if !file.keys_added.is_empty() {
            changes.placed.push(KeysOfGroup {
                partition: file.partition.clone(),
                file_id: file.stat.file_id.clone(),
                instant: None,
                keys: file.keys_added.clone(),
            });
        }
    }
    for (partition, ids) in replaced {
        changes.partition(partition).replaced.extend(ids.iter().cloned());
    }
    let placed: HashSet<&str> = files.iter().flat_map(|f| &f.keys_added).map(String::as_str).collect();
    let removed = files.iter().flat_map(|f| f.keys_removed.iter().cloned()).chain(replaced_keys);
    changes.removed = removed.filter(|key| !placed.contains(key.as_str())).collect();
    changes
}

/// What was done, for the caller.
pub(super) fn report(report: &mut CommitReport, files: &[WrittenFile], replaced: &Groups) {
    report.files = files.iter().map(file_report).collect();
    report.files.sort_by(|a, b| (&a.partition, &a.name).cmp(&(&b.partition, &b.name)));
    for file in &report.files {
        report.inserted += file.inserted;
        report.updated += file.updated;
        report.deleted += file.deleted;
    }
    report.replaced = replaced.values().map(|ids| ids.len() as u64).sum();
}

/// The same of a commit that was made before.
pub(super) fn replay(report: &mut CommitReport, metadata: &CommitMetadata) {
    let of_partition = |p: &PartitionStats| {
        let as_file = |stat: &crate::format::commit::WriteStat| WrittenFile {
            partition: p.partition.clone(),
            stat: stat.clone(),
            columns: Vec::new(),
            keys_added: Vec::new(),
            keys_removed: Vec::new(),
        };
        p.stats.iter().map(as_file).collect::<Vec<_>>()
    };
    let files: Vec<WrittenFile> = metadata.written.iter().flat_map(of_partition).collect();
    let replaced = metadata.replaced.iter().map(|r| (r.partition.clone(), r.file_ids.iter().cloned().collect()));
    self::report(report, &files, &replaced.collect());
    report.replayed = true;
}

fn file_report(file: &WrittenFile) -> FileReport {
    FileReport {
        partition: file.partition.clone(),
        file_id: file.stat.file_id.clone(),
        name: file.stat.file_name().unwrap_or_default().to_owned(),
        size: file.stat.size.unwrap_or_default(),
        inserted: file.stat.num_inserts,
        updated: file.stat.num_updates,
        deleted: file.stat.num_deletes,
    }
}
