//! Plans and results of table services. All are Avro in every layout.
//!
//! A pending compaction says which groups may have a half-written base file; a pending clustering, which instants; a rollback,
//! a restore, a clean and a savepoint are shown in the timeline. Format: docs/format.md, "Plans".

mod archived;
mod clean;
mod compaction;
pub(in crate::format) mod model;
mod restore;
mod rollback;
mod savepoint;

pub use archived::{ArchivedEntry, archived_schema, lsm_schema};
pub use clean::{CleanFile, CleanMetadata, CleanPlan, CleanedPartition, EarliestRetained};
pub use compaction::{CompactionOperation, CompactionPlan};
pub use restore::{RestoreMetadata, RestorePlan};
pub use rollback::{RollbackMetadata, RollbackPlan, RollbackRequest, RolledBack};
pub use savepoint::Savepoint;

use super::avro::{Container, Cursor, Value};
use super::instant::InstantTime;
use crate::error::{Error, Result};

/// What a replace commit or clustering was requested to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedReplace {
    /// The operation in upper case, where it is stated.
    pub operation: Option<String>,
    /// The file groups that a clustering reads and will replace; `None` if this is no clustering.
    pub clustered: Option<Vec<GroupOfPartition>>,
}

/// A file group and its partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupOfPartition {
    /// The partition's path.
    pub partition: String,
    /// The file group.
    pub file_id: String,
}

impl RequestedReplace {
    /// Reads `<instant>.replacecommit.requested` or `<instant>.clustering.requested`. Old writers left it empty for
    /// anything but clustering.
    pub fn parse(bytes: &[u8]) -> Result<RequestedReplace> {
        let mut requested = RequestedReplace::default();
        visit_record(bytes, |field, cursor| {
            match field {
                "operationType" => requested.operation = cursor.str()?.map(str::to_ascii_uppercase),
                "clusteringPlan" => {
                    let mut groups = Vec::new();
                    let is_plan = cursor.record(|field, cursor| {
                        if field == "inputGroups" {
                            cursor.array(|cursor| clustering_group(cursor, &mut groups))?;
                        }
                        Ok(())
                    })?;
                    requested.clustered = is_plan.then_some(groups);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(requested)
    }

    /// The bytes of what a replace commit without a plan requests. Hudi states the operation where partitions are deleted,
    /// and nothing at all for overwrites.
    pub fn encode_without_plan(operation: Option<&str>) -> Result<Vec<u8>> {
        model::ready(&REQUESTED)?.container(|field, writer| match field {
            "operationType" => writer.opt_str(operation),
            _ => Ok(()),
        })
    }
}

static REQUESTED: model::Ready = model::Ready::new(|| model::prepare("HoodieRequestedReplaceMetadata"));

fn clustering_group(cursor: &mut Cursor<'_, '_>, groups: &mut Vec<GroupOfPartition>) -> Result<()> {
    cursor.record(|field, cursor| {
        if field == "slices" {
            cursor.array(|cursor| {
                let mut group = GroupOfPartition::default();
                cursor.record(|field, cursor| {
                    match field {
                        "partitionPath" => group.partition = cursor.str()?.unwrap_or_default().to_owned(),
                        "fileId" => group.file_id = cursor.str()?.unwrap_or_default().to_owned(),
                        _ => {}
                    }
                    Ok(())
                })?;
                groups.push(group);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The files that a clean removed, or is to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Partitions and names in them.
    files: Vec<(String, Vec<String>)>,
}

impl Cleaned {
    /// Reads `<instant>.clean`, or the plan in `<instant>.clean.requested`: what either says of files, in all versions.
    pub fn parse(bytes: &[u8]) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        visit_record(bytes, |field, cursor| {
            match field {
                // Metadata: lists by partition.
                "partitionMetadata" => {
                    cursor.map(|partition, cursor| {
                        let mut names = Vec::new();
                        cursor.record(|field, cursor| {
                            if matches!(field, "deletePathPatterns" | "successDeleteFiles") {
                                cursor.array(|cursor| push_name(cursor, &mut names))?;
                            }
                            Ok(())
                        })?;
                        cleaned.files.push((partition.to_owned(), names));
                        Ok(())
                    })?;
                }
                // Plans: paths since version 2, names before.
                "filePathsToBeDeletedPerPartition" => {
                    cursor.map(|partition, cursor| {
                        let mut names = Vec::new();
                        cursor.array(|cursor| {
                            cursor.record(
                                |field, cursor| {
                                    if field == "filePath" { push_name(cursor, &mut names) } else { Ok(()) }
                                },
                            )?;
                            Ok(())
                        })?;
                        cleaned.files.push((partition.to_owned(), names));
                        Ok(())
                    })?;
                }
                "filesToBeDeletedPerPartition" => {
                    cursor.map(|partition, cursor| {
                        let mut names = Vec::new();
                        cursor.array(|cursor| push_name(cursor, &mut names))?;
                        cleaned.files.push((partition.to_owned(), names));
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(cleaned)
    }

    /// The names removed from a partition.
    pub fn of<'c>(&'c self, partition: &'c str) -> impl Iterator<Item = &'c str> {
        self.files
            .iter()
            .filter(move |(p, _)| p.trim_matches('/') == partition)
            .flat_map(|(_, n)| n)
            .map(String::as_str)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.files.iter().map(|(_, names)| names.len()).sum()
    }

    /// True if nothing was removed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn push_name(cursor: &mut Cursor<'_, '_>, names: &mut Vec<String>) -> Result<()> {
    names.extend(cursor.str()?.map(last_component));
    Ok(())
}

/// The instants that a completed rollback or restore took away; empty for an empty file.
pub fn undone_instants(bytes: &[u8]) -> Result<Vec<InstantTime>> {
    let Some(value) = first_value(bytes)? else { return Ok(Vec::new()) };
    let named = ["commitsRollback", "instantsToRollback"].iter().find_map(|f| value.get(f));
    Ok(strings(named).filter_map(InstantTime::parse).collect())
}

/// The oldest commit whose files a completed clean kept; `None` if it does not say.
pub fn earliest_retained(bytes: &[u8]) -> Result<Option<InstantTime>> {
    let value = first_value(bytes)?;
    Ok(value.as_ref().and_then(|v| v.get("earliestCommitToRetain")?.as_str()).and_then(InstantTime::parse))
}

/// The comment of a completed savepoint.
pub fn savepoint_comment(bytes: &[u8]) -> Result<Option<String>> {
    let value = first_value(bytes)?;
    Ok(value.as_ref().and_then(|v| v.get("comments")?.as_str()).filter(|c| !c.is_empty()).map(str::to_owned))
}

/// The fields of the single record of a container; nothing for an empty file.
fn visit_record(
    bytes: &[u8],
    mut visit: impl for<'s, 'a> FnMut(&'s str, &mut Cursor<'s, 'a>) -> Result<()>,
) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut found = false;
    Container::open(bytes)?.records(|cursor| {
        found = true;
        cursor.record(&mut visit)?;
        Ok(())
    })?;
    if found { Ok(()) } else { Err(Error::corrupt("a plan without a record")) }
}

fn texts(cursor: &mut Cursor<'_, '_>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    cursor.array(|cursor| {
        texts.extend(cursor.str()?.map(str::to_owned));
        Ok(())
    })?;
    Ok(texts)
}

fn first_value(bytes: &[u8]) -> Result<Option<Value>> {
    if bytes.is_empty() { Ok(None) } else { Container::open(bytes)?.first_value() }
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let items: &[Value] = match value {
        Some(Value::Array(items)) => items,
        _ => &[],
    };
    items.iter().filter_map(Value::as_str)
}

/// Plans of the first version hold whole paths, later ones names.
fn last_component(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_files_are_plans_without_a_word() {
        assert_eq!(CompactionPlan::parse(b"").unwrap(), CompactionPlan::default());
        assert_eq!(RequestedReplace::parse(b"").unwrap().clustered, None);
        assert!(Cleaned::parse(b"").unwrap().is_empty());
        assert_eq!(undone_instants(b"").unwrap(), []);
        assert_eq!(earliest_retained(b"").unwrap(), None);
        assert_eq!(savepoint_comment(b"").unwrap(), None);
        assert!(CompactionPlan::parse(b"{}").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [&b"Obj\x01"[..], &bytes].concat();
            let _ = CompactionPlan::parse(&bytes);
            let _ = RequestedReplace::parse(&bytes);
            let _ = Cleaned::parse(&bytes);
            let _ = undone_instants(&bytes);
            let _ = earliest_retained(&bytes);
            let _ = savepoint_comment(&bytes);
        }
    }
}
