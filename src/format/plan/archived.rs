//! Records of the archived timeline: of layout 1 in log files, one for each file of an instant; of layout 2 in Parquet.

use super::first_value;
use super::model::{Ready, prepare, ready};
use crate::error::{Error, Result};
use crate::format::avro::{Value, Writer};
use crate::format::commit::{CommitMetadata, put_commit};
use crate::format::instant::{Action, Instant, State};

static ENTRY: Ready = Ready::new(|| prepare("HoodieArchivedMetaEntry"));
static LSM: Ready = Ready::new(|| prepare("HoodieLSMTimelineInstant"));

/// The schema of layout 1's records, JSON text.
pub fn archived_schema() -> Result<&'static str> {
    Ok(ready(&ENTRY)?.text())
}

/// The schema of layout 2's records, JSON text.
pub fn lsm_schema() -> Result<&'static str> {
    Ok(ready(&LSM)?.text())
}

/// One file of an archived instant of layout 1.
#[derive(Debug)]
pub struct ArchivedEntry {
    instant: Instant,
    /// When the file was written, as an instant time.
    transition: Option<String>,
    content: Option<(&'static str, Content)>,
}

#[derive(Debug)]
enum Content {
    Commit(CommitMetadata),
    Other(Value),
}

impl ArchivedEntry {
    /// Of the file with that content. An empty file is an entry without a word.
    pub fn new(instant: &Instant, transition: Option<String>, bytes: &[u8]) -> Result<ArchivedEntry> {
        let content = match field(instant) {
            Some(_) if bytes.is_empty() => None,
            Some((field, true)) => Some((field, Content::Commit(CommitMetadata::parse(bytes)?))),
            Some((field, false)) => first_value(bytes)?.map(|value| (field, Content::Other(value))),
            None => None,
        };
        Ok(ArchivedEntry { instant: *instant, transition, content })
    }

    /// The bare bytes of the record.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&ENTRY)?
            .datum(|field, writer| match field {
                "commitTime" => writer.str(self.instant.requested.as_str()),
                "actionType" => writer.str(self.instant.action.name()),
                "actionState" => writer.str(self.instant.state.name()),
                "stateTransitionTime" => writer.opt_str(self.transition.as_deref()),
                _ => match &self.content {
                    Some((name, content)) if *name == field => put(content, writer),
                    _ => Ok(()),
                },
            })
            .map_err(|e: Error| e.context(self.instant))
    }
}

fn put(content: &Content, writer: &mut Writer<'_, '_>) -> Result<()> {
    match content {
        Content::Commit(metadata) => writer.record(|field, writer| put_commit(metadata, field, writer)),
        Content::Other(value) => writer.copy(value),
    }
}

/// The field that holds a file's content, and whether it is commit metadata.
fn field(instant: &Instant) -> Option<(&'static str, bool)> {
    let completed = instant.state == State::Completed;
    Some(match (instant.action, instant.state) {
        (Action::Commit | Action::DeltaCommit, _) => ("hoodieCommitMetadata", true),
        (Action::ReplaceCommit, State::Completed) => ("hoodieReplaceCommitMetadata", true),
        (Action::ReplaceCommit | Action::Clustering, State::Inflight) => ("HoodieInflightReplaceMetadata", true),
        (Action::ReplaceCommit | Action::Clustering, _) => ("hoodieRequestedReplaceMetadata", false),
        (Action::Compaction | Action::LogCompaction, State::Requested) => ("hoodieCompactionPlan", false),
        (Action::Clean, _) if completed => ("hoodieCleanMetadata", false),
        (Action::Clean, _) => ("hoodieCleanerPlan", false),
        (Action::Rollback, _) if completed => ("hoodieRollbackMetadata", false),
        (Action::Savepoint, _) if completed => ("hoodieSavePointMetadata", false),
        _ => return None,
    })
}
