//! A rollback's plan, and what it did.
//!
//! Java names files by whole paths, with or without a scheme, or by name alone: readers use the last component and the
//! request's partition. Format: docs/format.md, "Plans".

use super::model::{Ready, prepare, ready};
use super::visit_record;
use crate::error::Result;
use crate::format::avro::{Cursor, Writer};
use crate::format::instant::{Action, InstantTime};
use std::collections::BTreeMap;

static PLAN: Ready = Ready::new(|| prepare("HoodieRollbackPlan"));
static METADATA: Ready = Ready::new(|| prepare("HoodieRollbackMetadata"));

/// What a rollback is going to do: `<instant>.rollback.requested`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackPlan {
    /// The instant that is rolled back, and the action that it has while pending.
    pub target: Option<(InstantTime, Action)>,
    /// One entry a file or a file group.
    pub requests: Vec<RollbackRequest>,
}

/// What is undone in one file group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackRequest {
    /// The partition's path.
    pub partition: String,
    /// The file group, where it is stated.
    pub file_id: Option<String>,
    /// The base instant of the slice that a log belongs to.
    pub base_instant: Option<InstantTime>,
    /// Files to be deleted: whole paths, or names.
    pub files: Vec<String>,
    /// Log files with blocks of the failed write, and their bytes: a command block is to hide them.
    pub log_blocks: BTreeMap<String, u64>,
}

/// What a rollback did: `<instant>.rollback`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackMetadata {
    /// The rollback's own time.
    pub started: String,
    /// Milliseconds that it took.
    pub millis: u64,
    /// What was rolled back.
    pub targets: Vec<(InstantTime, Action)>,
    /// By partition.
    pub partitions: BTreeMap<String, RolledBack>,
}

/// What was done in one partition; files by whole path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// Files that are gone.
    pub deleted: Vec<String>,
    /// Files that could not be deleted.
    pub failed: Vec<String>,
    /// Log files that hide blocks of the failed write, with their bytes.
    pub log_files: BTreeMap<String, u64>,
    /// Log files of the failed write, with their bytes.
    pub failed_logs: BTreeMap<String, u64>,
}

impl RollbackPlan {
    /// Reads a plan; an empty file is one without requests.
    pub fn parse(bytes: &[u8]) -> Result<RollbackPlan> {
        let mut plan = RollbackPlan::default();
        visit_record(bytes, |field, cursor| {
            match field {
                "instantToRollback" => plan.target = instant_info(cursor)?,
                "RollbackRequests" => {
                    cursor.array(|cursor| {
                        plan.requests.push(request(cursor)?);
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(plan)
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&PLAN)?.container(|field, writer| match (field, &self.target) {
            ("instantToRollback", Some(target)) => put_instant(target, writer),
            ("RollbackRequests", _) => writer.array(&self.requests, put_request),
            ("version", _) => writer.long(1),
            _ => Ok(()),
        })
    }
}

impl RollbackMetadata {
    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&METADATA)?.container(|field, writer| self.put(field, writer))
    }

    /// One field of the record.
    pub(super) fn put(&self, field: &str, writer: &mut Writer<'_, '_>) -> Result<()> {
        match field {
            "startRollbackTime" => writer.str(&self.started),
            "timeTakenInMillis" => writer.count(self.millis),
            "totalFilesDeleted" => writer.count(self.partitions.values().map(|p| p.deleted.len() as u64).sum()),
            "commitsRollback" => {
                let times: Vec<&str> = self.targets.iter().map(|(time, _)| time.as_str()).collect();
                writer.strs(&times)
            }
            "partitionMetadata" => {
                let entries = self.partitions.iter().map(|(partition, done)| (partition, (partition, done)));
                writer.map(entries, |(partition, done), writer| put_partition(partition, done, writer))
            }
            "version" => writer.long(1),
            "instantsRollback" => writer.array(&self.targets, put_instant),
            _ => Ok(()),
        }
    }
}

pub(super) fn instant_info(cursor: &mut Cursor<'_, '_>) -> Result<Option<(InstantTime, Action)>> {
    let (mut time, mut action) = (None, None);
    cursor.record(|field, cursor| {
        match field {
            "commitTime" => time = cursor.str()?.and_then(InstantTime::parse),
            "action" => action = cursor.str()?.and_then(Action::from_name),
            _ => {}
        }
        Ok(())
    })?;
    Ok(time.zip(action))
}

fn request(cursor: &mut Cursor<'_, '_>) -> Result<RollbackRequest> {
    let mut request = RollbackRequest::default();
    cursor.record(|field, cursor| {
        match field {
            "partitionPath" => request.partition = cursor.str()?.unwrap_or_default().to_owned(),
            "fileId" => request.file_id = cursor.str()?.filter(|f| !f.is_empty()).map(str::to_owned),
            "latestBaseInstant" => request.base_instant = cursor.str()?.and_then(InstantTime::parse),
            "filesToBeDeleted" => {
                cursor.array(|cursor| {
                    request.files.extend(cursor.str()?.map(str::to_owned));
                    Ok(())
                })?;
            }
            "logBlocksToBeDeleted" => {
                cursor.map(|file, cursor| {
                    let size = cursor.long()?.and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
                    request.log_blocks.insert(file.to_owned(), size);
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(request)
}

pub(super) fn put_instant((time, action): &(InstantTime, Action), writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "commitTime" => writer.str(time.as_str()),
        "action" => writer.str(action.name()),
        _ => Ok(()),
    })
}

/// Hudi states empty texts where it knows nothing, and fails over a map that is null.
fn put_request(request: &RollbackRequest, writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "partitionPath" => writer.str(&request.partition),
        "fileId" => writer.str(request.file_id.as_deref().unwrap_or_default()),
        "latestBaseInstant" => writer.str(request.base_instant.as_ref().map_or("", InstantTime::as_str)),
        "filesToBeDeleted" => writer.strs(&request.files),
        "logBlocksToBeDeleted" => writer.map(&request.log_blocks, |size, writer| writer.count(*size)),
        _ => Ok(()),
    })
}

fn put_partition(partition: &str, done: &RolledBack, writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "partitionPath" => writer.str(partition),
        "successDeleteFiles" => writer.strs(&done.deleted),
        "failedDeleteFiles" => writer.strs(&done.failed),
        "rollbackLogFiles" => writer.map(&done.log_files, |size, writer| writer.count(*size)),
        "logFilesFromFailedCommit" => writer.map(&done.failed_logs, |size, writer| writer.count(*size)),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::avro::Container;
    use crate::format::plan::undone_instants;

    fn time(text: &str) -> InstantTime {
        InstantTime::parse(text).unwrap()
    }

    #[test]
    fn plans_go_there_and_back() {
        let file = |name: &str| RollbackRequest {
            partition: "p=1".into(),
            files: vec![format!("/t/p=1/{name}")],
            ..RollbackRequest::default()
        };
        let blocks = RollbackRequest {
            partition: String::new(),
            file_id: Some("f-0".into()),
            base_instant: Some(time("001")),
            files: Vec::new(),
            log_blocks: BTreeMap::from([(".f-0_001.log.2_1-0-1".into(), 105)]),
        };
        for plan in [
            RollbackPlan::default(),
            RollbackPlan { target: Some((time("20260101000000000"), Action::DeltaCommit)), requests: Vec::new() },
            RollbackPlan {
                target: Some((time("2"), Action::Compaction)),
                requests: vec![file("a"), blocks, file("b")],
            },
        ] {
            assert_eq!(RollbackPlan::parse(&plan.encode().unwrap()).unwrap(), plan);
        }
        assert_eq!(RollbackPlan::parse(b"").unwrap(), RollbackPlan::default());
    }

    #[test]
    fn what_was_done_names_its_instants_and_files() {
        let done = RolledBack {
            deleted: vec!["/t/p/a".into(), "/t/p/b".into()],
            log_files: BTreeMap::from([("/t/p/.f_1.log.2_1-0-1".into(), 105)]),
            ..RolledBack::default()
        };
        let metadata = RollbackMetadata {
            started: "3".into(),
            millis: 12,
            targets: vec![(time("2"), Action::Commit)],
            partitions: BTreeMap::from([("p".into(), done)]),
        };
        let bytes = metadata.encode().unwrap();
        assert_eq!(undone_instants(&bytes).unwrap(), [time("2")]);
        let value = Container::open(&bytes).unwrap().first_value().unwrap().unwrap();
        let text = format!("{value:?}");
        for part in ["/t/p/b", "log.2_1-0-1", "105", "\"commit\""] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
