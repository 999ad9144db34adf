//! Compaction and log compaction plans.

use super::model::{Ready, prepare, ready};
use super::{last_component, visit_record};
use crate::error::Result;
use crate::format::avro::{Cursor, Writer};
use crate::format::instant::InstantTime;
use std::collections::BTreeMap;

/// Plans that name files without their folders.
const VERSION: i64 = 2;

static PLAN: Ready = Ready::new(|| prepare("HoodieCompactionPlan"));

/// A compaction or log compaction plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionPlan {
    /// One entry a file group.
    pub operations: Vec<CompactionOperation>,
    /// `extraMetadata`.
    pub extra: BTreeMap<String, String>,
}

/// What is compacted of one file group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionOperation {
    /// The partition's path.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// The slice compacted.
    pub base_instant: Option<InstantTime>,
    /// The base file's name; `None` for a group of logs only.
    pub base_file: Option<String>,
    /// The log files' names, oldest first.
    pub log_files: Vec<String>,
    /// `TOTAL_LOG_FILES`, `TOTAL_LOG_FILES_SIZE` (bytes), `TOTAL_IO_READ_MB`, `TOTAL_IO_WRITE_MB`, `TOTAL_IO_MB`.
    pub metrics: BTreeMap<String, f64>,
}

impl CompactionPlan {
    /// Reads `<instant>.compaction.requested`. An empty file is a plan without operations.
    pub fn parse(bytes: &[u8]) -> Result<CompactionPlan> {
        let mut plan = CompactionPlan::default();
        visit_record(bytes, |field, cursor| {
            match field {
                "operations" => {
                    cursor.array(|cursor| {
                        plan.operations.push(operation(cursor)?);
                        Ok(())
                    })?;
                }
                "extraMetadata" => {
                    cursor.map(|key, cursor| {
                        plan.extra.extend(cursor.str()?.map(|value| (key.to_owned(), value.to_owned())));
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
        ready(&PLAN)?.container(|field, writer| match field {
            "operations" => writer.array(&self.operations, put_operation),
            "extraMetadata" if !self.extra.is_empty() => writer.map(&self.extra, |value, writer| writer.str(value)),
            "version" => writer.long(VERSION),
            "preserveHoodieMetadata" => writer.bool(false),
            "missingSchedulePartitions" => writer.strs::<&str>(&[]),
            _ => Ok(()),
        })
    }
}

fn operation(cursor: &mut Cursor<'_, '_>) -> Result<CompactionOperation> {
    let mut operation = CompactionOperation::default();
    cursor.record(|field, cursor| {
        match field {
            "partitionPath" => operation.partition = cursor.str()?.unwrap_or_default().to_owned(),
            "fileId" => operation.file_id = cursor.str()?.unwrap_or_default().to_owned(),
            "baseInstantTime" => operation.base_instant = cursor.str()?.and_then(InstantTime::parse),
            "dataFilePath" => operation.base_file = cursor.str()?.filter(|p| !p.is_empty()).map(last_component),
            "deltaFilePaths" => {
                cursor.array(|cursor| {
                    operation.log_files.extend(cursor.str()?.map(last_component));
                    Ok(())
                })?;
            }
            "metrics" => {
                cursor.map(|key, cursor| {
                    operation.metrics.extend(cursor.double()?.map(|value| (key.to_owned(), value)));
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(operation)
}

fn put_operation(operation: &CompactionOperation, writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "baseInstantTime" => writer.opt_str(operation.base_instant.as_ref().map(InstantTime::as_str)),
        "deltaFilePaths" => writer.strs(&operation.log_files),
        "dataFilePath" => writer.opt_str(operation.base_file.as_deref()),
        "fileId" => writer.str(&operation.file_id),
        "partitionPath" => writer.str(&operation.partition),
        "metrics" => writer.map(&operation.metrics, |value, writer| writer.double(*value)),
        _ => Ok(()),
    })
}
