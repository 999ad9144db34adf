//! Savepoints: commits that are kept, and the files that their readers need.

use super::model::{Ready, prepare, ready};
use super::{texts, visit_record};
use crate::error::Result;
use std::collections::BTreeMap;

static METADATA: Ready = Ready::new(|| prepare("HoodieSavepointMetadata"));

/// `<commit>.savepoint`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Savepoint {
    /// Who set it.
    pub by: String,
    /// When it was set, ms since the epoch.
    pub at_ms: i64,
    /// Why.
    pub comment: String,
    /// The names of base and log files that stay, by partition.
    pub files: BTreeMap<String, Vec<String>>,
}

impl Savepoint {
    /// Reads a completed savepoint; an empty file keeps nothing.
    pub fn parse(bytes: &[u8]) -> Result<Savepoint> {
        let mut savepoint = Savepoint::default();
        visit_record(bytes, |field, cursor| {
            match field {
                "savepointedBy" => savepoint.by = cursor.str()?.unwrap_or_default().to_owned(),
                "savepointedAt" => savepoint.at_ms = cursor.long()?.unwrap_or_default(),
                "comments" => savepoint.comment = cursor.str()?.unwrap_or_default().to_owned(),
                "partitionMetadata" => {
                    cursor.map(|partition, cursor| {
                        let files = savepoint.files.entry(partition.to_owned()).or_default();
                        cursor.record(|field, cursor| {
                            if field == "savepointDataFile" {
                                files.extend(texts(cursor)?);
                            }
                            Ok(())
                        })?;
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(savepoint)
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&METADATA)?.container(|field, writer| match field {
            "savepointedBy" => writer.str(&self.by),
            "savepointedAt" => writer.long(self.at_ms),
            "comments" => writer.str(&self.comment),
            "partitionMetadata" => {
                let entries = self.files.iter().map(|(partition, files)| (partition, (partition, files)));
                writer.map(entries, |(partition, files), writer| {
                    writer.record(|field, writer| match field {
                        "partitionPath" => writer.str(partition),
                        "savepointDataFile" => writer.strs(files),
                        _ => Ok(()),
                    })
                })
            }
            "version" => writer.long(1),
            _ => Ok(()),
        })
    }
}
