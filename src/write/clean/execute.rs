//! Carrying a clean's plan out: files go first, then the metadata table is told, then the clean completes.
//!
//! A plan that was cut off is carried out again from its beginning: a file that is not there is deleted already. Paths are
//! reduced to a name in the plan's partition, so that none leads anywhere else, whoever made the plan.

use super::held::Held;
use crate::error::{ErrorKind, Result};
use crate::format::file_name::PARTITION_METADATA;
use crate::format::instant::InstantTime;
use crate::format::plan::{CleanMetadata, CleanPlan, CleanedPartition};
use crate::metadata::write::Changes;
use crate::storage::{EntryKind, Removal, Storage, TablePath};
use std::collections::BTreeMap;
use std::time::Instant;

/// Deletes what the plan names and nobody holds.
pub fn run(storage: &dyn Storage, clean: InstantTime, plan: &CleanPlan, held: &Held) -> Result<CleanMetadata> {
    let began = Instant::now();
    let mut partitions = BTreeMap::new();
    for (path, files) in &plan.files {
        let partition = TablePath::parse(path)?;
        let names: Vec<&str> = files.iter().filter(|f| !f.bootstrap).map(|f| f.name()).collect();
        let mut done = delete(storage, &partition, &names, held)?;
        done.policy.clone_from(&plan.policy);
        done.emptied = plan.emptied.contains(path) && done.failed.is_empty();
        if done.emptied {
            delete_metafile(storage, &partition)?;
        }
        partitions.insert(path.clone(), done);
    }
    Ok(CleanMetadata {
        started: clean.to_string(),
        millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        earliest: plan.earliest.as_ref().map(|e| e.time.to_string()).unwrap_or_default(),
        last_completed: plan.last_completed.clone(),
        partitions,
        extra: plan.extra.clone(),
    })
}

fn delete(storage: &dyn Storage, partition: &TablePath, names: &[&str], held: &Held) -> Result<CleanedPartition> {
    let mut done = CleanedPartition { planned: names.iter().map(|n| (*n).to_owned()).collect(), ..Default::default() };
    let (mut removals, mut removed) = (Vec::new(), Vec::new());
    for name in names {
        let path = partition.join(name)?;
        if held.holds(&path) {
            done.failed.push((*name).to_owned());
        } else {
            removals.push(Removal::data_file(&path)?);
            removed.push(*name);
        }
    }
    for (name, result) in removed.into_iter().zip(storage.delete_many(&removals)) {
        match result {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%partition, file = name, %error, "a file could not be removed; the next clean tries again");
                done.failed.push(name.to_owned());
            }
            _ => done.deleted.push(name.to_owned()),
        }
    }
    Ok(done)
}

/// What makes the folder a partition. Whoever writes to it again makes it one again.
fn delete_metafile(storage: &dyn Storage, partition: &TablePath) -> Result<()> {
    let entries = match storage.list(partition) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries.iter().filter(|e| e.kind != EntryKind::Dir && e.name.starts_with(PARTITION_METADATA)) {
        storage.delete(&Removal::data_file(&partition.join(&entry.name)?)?)?;
    }
    Ok(())
}

/// What a clean changes in the metadata table.
pub fn changes(metadata: &CleanMetadata) -> Changes {
    let mut changes = Changes::default();
    for (path, done) in &metadata.partitions {
        let partition = changes.partition(path);
        partition.deleted.extend(done.deleted.iter().cloned());
        partition.is_deleted = done.emptied;
    }
    changes
}
