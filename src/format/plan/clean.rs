//! What a clean is to delete, and what it deleted.
//!
//! Plans name files by whole path since version 2, metadata by name alone; readers of either take the last component.

use super::model::{Ready, prepare, ready};
use super::{last_component, texts, visit_record};
use crate::error::Result;
use crate::format::avro::{Cursor, Writer};
use crate::format::instant::{Action, Instant, InstantTime, State};
use std::collections::BTreeMap;

/// Hudi's version of plans and metadata with paths and names.
const VERSION: i64 = 2;

static PLAN: Ready = Ready::new(|| prepare("HoodieCleanerPlan"));
static METADATA: Ready = Ready::new(|| prepare("HoodieCleanMetadata"));

/// `<instant>.clean.requested`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanPlan {
    /// The oldest commit whose files stay; `None` where the policy counts file versions.
    pub earliest: Option<EarliestRetained>,
    /// The newest completed commit when the plan was made; empty without one.
    pub last_completed: String,
    /// The policy's name: `KEEP_LATEST_COMMITS`, …
    pub policy: String,
    /// The files to delete, by partition.
    pub files: BTreeMap<String, Vec<CleanFile>>,
    /// Partitions in which nothing is left, whose folders go too.
    pub emptied: Vec<String>,
    /// `extraMetadata`.
    pub extra: BTreeMap<String, String>,
}

/// An instant as a plan names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarliestRetained {
    /// Its time.
    pub time: InstantTime,
    /// Its action.
    pub action: Action,
}

/// A file to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanFile {
    /// Its whole path, scheme included where the base path has one.
    pub path: String,
    /// The source file of a bootstrap, which is not in the table.
    pub bootstrap: bool,
}

/// `<instant>.clean`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanMetadata {
    /// The clean's own time.
    pub started: String,
    /// Milliseconds that it took.
    pub millis: u64,
    /// The oldest commit whose files stay; empty where the policy counts file versions.
    pub earliest: String,
    /// The newest completed commit when the plan was made.
    pub last_completed: String,
    /// What was deleted, by partition.
    pub partitions: BTreeMap<String, CleanedPartition>,
    /// `extraMetadata`.
    pub extra: BTreeMap<String, String>,
}

/// What was deleted in one partition; files by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedPartition {
    /// The policy's name.
    pub policy: String,
    /// What was to be deleted.
    pub planned: Vec<String>,
    /// What is gone.
    pub deleted: Vec<String>,
    /// What could not be deleted.
    pub failed: Vec<String>,
    /// The partition's folder went too.
    pub emptied: bool,
}

impl CleanFile {
    /// The file's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl From<&Instant> for EarliestRetained {
    fn from(instant: &Instant) -> Self {
        EarliestRetained { time: instant.requested, action: instant.action }
    }
}

impl CleanPlan {
    /// Reads a plan of any version; an empty file is one without files.
    pub fn parse(bytes: &[u8]) -> Result<CleanPlan> {
        let mut plan = CleanPlan::default();
        visit_record(bytes, |field, cursor| plan.take(field, cursor))?;
        Ok(plan)
    }

    fn take(&mut self, field: &str, cursor: &mut Cursor<'_, '_>) -> Result<()> {
        match field {
            "earliestInstantToRetain" => self.earliest = earliest(cursor)?,
            "lastCompletedCommitTimestamp" => self.last_completed = text(cursor)?,
            "policy" => self.policy = text(cursor)?,
            "filesToBeDeletedPerPartition" => {
                cursor.map(|partition, cursor| {
                    let files = texts(cursor)?.into_iter().map(|path| CleanFile { path, bootstrap: false });
                    self.files.entry(partition.to_owned()).or_default().extend(files);
                    Ok(())
                })?;
            }
            "filePathsToBeDeletedPerPartition" => {
                cursor.map(|partition, cursor| {
                    let files = self.files.entry(partition.to_owned()).or_default();
                    cursor.array(|cursor| {
                        files.push(file(cursor)?);
                        Ok(())
                    })?;
                    Ok(())
                })?;
            }
            "partitionsToBeDeleted" => self.emptied = texts(cursor)?,
            "extraMetadata" => self.extra = text_map(cursor)?,
            _ => {}
        }
        Ok(())
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&PLAN)?.container(|field, writer| match field {
            "earliestInstantToRetain" => match &self.earliest {
                Some(earliest) => writer.record(|field, writer| match field {
                    "timestamp" => writer.str(earliest.time.as_str()),
                    "action" => writer.str(earliest.action.name()),
                    "state" => writer.str(State::Completed.name()),
                    _ => Ok(()),
                }),
                None => Ok(()),
            },
            "lastCompletedCommitTimestamp" => writer.str(&self.last_completed),
            "policy" => writer.str(&self.policy),
            // The form of version 1; Hudi writes it empty.
            "filesToBeDeletedPerPartition" => writer.map([("", ""); 0], |_, _| Ok(())),
            "version" => writer.long(VERSION),
            "filePathsToBeDeletedPerPartition" => {
                writer.map(&self.files, |files, writer| writer.array(files, put_file))
            }
            "partitionsToBeDeleted" => writer.strs(&self.emptied),
            "extraMetadata" => writer.map(&self.extra, |value, writer| writer.str(value)),
            _ => Ok(()),
        })
    }

    /// True if there is nothing to delete.
    pub fn is_empty(&self) -> bool {
        self.files.values().all(Vec::is_empty) && self.emptied.is_empty()
    }
}

impl CleanMetadata {
    /// Reads metadata of any version.
    pub fn parse(bytes: &[u8]) -> Result<CleanMetadata> {
        let mut metadata = CleanMetadata::default();
        visit_record(bytes, |field, cursor| {
            match field {
                "startCleanTime" => metadata.started = text(cursor)?,
                "timeTakenInMillis" => metadata.millis = cursor.long()?.and_then(|n| n.try_into().ok()).unwrap_or(0),
                "earliestCommitToRetain" => metadata.earliest = text(cursor)?,
                "lastCompletedCommitTimestamp" => metadata.last_completed = text(cursor)?,
                "partitionMetadata" => {
                    cursor.map(|partition, cursor| {
                        metadata.partitions.insert(partition.to_owned(), cleaned(cursor)?);
                        Ok(())
                    })?;
                }
                "extraMetadata" => metadata.extra = text_map(cursor)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(metadata)
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let deleted: usize = self.partitions.values().map(|p| p.deleted.len()).sum();
        ready(&METADATA)?.container(|field, writer| match field {
            "startCleanTime" => writer.str(&self.started),
            "timeTakenInMillis" => writer.count(self.millis),
            "totalFilesDeleted" => writer.count(deleted as u64),
            "earliestCommitToRetain" => writer.str(&self.earliest),
            "lastCompletedCommitTimestamp" => writer.str(&self.last_completed),
            "partitionMetadata" => {
                let entries = self.partitions.iter().map(|(partition, done)| (partition, (partition, done)));
                writer.map(entries, |(partition, done), writer| put_cleaned(partition, done, writer))
            }
            "version" => writer.long(VERSION),
            "bootstrapPartitionMetadata" => writer.map([("", ""); 0], |_, _| Ok(())),
            "extraMetadata" => writer.map(&self.extra, |value, writer| writer.str(value)),
            _ => Ok(()),
        })
    }
}

fn earliest(cursor: &mut Cursor<'_, '_>) -> Result<Option<EarliestRetained>> {
    let (mut time, mut action) = (None, None);
    cursor.record(|field, cursor| {
        match field {
            "timestamp" => time = cursor.str()?.and_then(InstantTime::parse),
            "action" => action = cursor.str()?.and_then(Action::from_name),
            _ => {}
        }
        Ok(())
    })?;
    Ok(time.zip(action).map(|(time, action)| EarliestRetained { time, action }))
}

fn file(cursor: &mut Cursor<'_, '_>) -> Result<CleanFile> {
    let mut file = CleanFile::default();
    cursor.record(|field, cursor| {
        match field {
            "filePath" => file.path = text(cursor)?,
            "isBootstrapBaseFile" => file.bootstrap = cursor.bool()?.unwrap_or(false),
            _ => {}
        }
        Ok(())
    })?;
    Ok(file)
}

fn cleaned(cursor: &mut Cursor<'_, '_>) -> Result<CleanedPartition> {
    let mut done = CleanedPartition::default();
    let names = |cursor: &mut Cursor<'_, '_>| {
        Ok::<_, crate::Error>(texts(cursor)?.iter().map(|path| last_component(path)).collect())
    };
    cursor.record(|field, cursor| {
        match field {
            "policy" => done.policy = text(cursor)?,
            "deletePathPatterns" => done.planned = names(cursor)?,
            "successDeleteFiles" => done.deleted = names(cursor)?,
            "failedDeleteFiles" => done.failed = names(cursor)?,
            "isPartitionDeleted" => done.emptied = cursor.bool()?.unwrap_or(false),
            _ => {}
        }
        Ok(())
    })?;
    Ok(done)
}

fn put_file(file: &CleanFile, writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "filePath" => writer.str(&file.path),
        "isBootstrapBaseFile" => writer.bool(file.bootstrap),
        _ => Ok(()),
    })
}

fn put_cleaned(partition: &str, done: &CleanedPartition, writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "partitionPath" => writer.str(partition),
        "policy" => writer.str(&done.policy),
        "deletePathPatterns" => writer.strs(&done.planned),
        "successDeleteFiles" => writer.strs(&done.deleted),
        "failedDeleteFiles" => writer.strs(&done.failed),
        "isPartitionDeleted" => writer.bool(done.emptied),
        _ => Ok(()),
    })
}

fn text(cursor: &mut Cursor<'_, '_>) -> Result<String> {
    Ok(cursor.str()?.unwrap_or_default().to_owned())
}

fn text_map(cursor: &mut Cursor<'_, '_>) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    cursor.map(|key, cursor| {
        map.extend(cursor.str()?.map(|value| (key.to_owned(), value.to_owned())));
        Ok(())
    })?;
    Ok(map)
}
