//! The files of instants that are archived: all states of each.

use crate::error::{ErrorKind, Result};
use crate::format::instant::{Instant, State};
use crate::storage::{EntryKind, Storage};
use crate::timeline::{InstantWriter, Timeline};
use bytes::Bytes;

/// One file of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// The instant in the file's state.
    pub instant: Instant,
}

impl StateFile {
    /// Its content; empty where it is gone.
    pub fn read(&self, storage: &dyn Storage, timeline: &Timeline) -> Result<Bytes> {
        match timeline.read(storage, &self.instant) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Bytes::new()),
            other => other,
        }
    }
}

/// All files of these completed instants, by instant and state.
pub fn of(storage: &dyn Storage, timeline: &Timeline, instants: &[Instant]) -> Result<Vec<StateFile>> {
    let layout = timeline.config().layout();
    let entries = storage.list(timeline.folder())?;
    let files = entries.iter().filter(|e| e.kind != EntryKind::Dir);
    let belongs = |file: &Instant| {
        let at = instants.partition_point(|i| i.requested < file.requested);
        let same = instants.iter().skip(at).take_while(|i| i.requested == file.requested);
        same.into_iter().any(|i| i.action.completes_as() == file.action.completes_as())
    };
    let parsed = files.filter_map(|e| Instant::parse_file_name(layout, &e.name)).filter(belongs);
    let mut found: Vec<StateFile> = parsed.map(|instant| StateFile { instant }).collect();
    found.sort_by_key(|f| (f.instant.requested, f.instant.action.completes_as(), f.instant.state));
    Ok(found)
}

/// Deletes them: pending states first, for one left behind would look like work to be done; then the completed ones from the
/// oldest on, so that the timeline never has a hole.
pub fn delete(instants: &InstantWriter, files: &[StateFile]) -> Result<()> {
    let (completed, pending): (Vec<&StateFile>, Vec<&StateFile>) =
        files.iter().partition(|f| f.instant.state == State::Completed);
    pending.into_iter().chain(completed).try_for_each(|file| instants.delete(&file.instant))
}
