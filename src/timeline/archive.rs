//! Instants that are no longer active, for people who ask what happened to a table: no reader of its data needs them.
//!
//! Layout 1 keeps them in log files, one record for each state that an instant went through; of the records only time, action and
//! state are read. Layout 2 keeps completed instants in the history (`history`). Nothing is kept here: a table may have very
//! many, and the question is rare. Format: docs/format.md, "History".

use super::{Timeline, history};
use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::{Cursor, Schema};
use crate::format::instant::{Action, Instant, InstantTime, Layout, State};
use crate::format::log::{BlockKind, HeaderKey, LogReader, avro_records};
use crate::storage::{EntryKind, Storage, TablePath};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Largest log file of archived instants read, bytes.
const LOG_LEN_MAX: u64 = 1 << 30;
/// How the names of such files begin.
const LOG_PREFIX: &str = ".commits_.archive.";

/// Instants by requested time and the action that they complete as, each in its highest state.
type Found = BTreeMap<(InstantTime, Action), Instant>;

impl Timeline {
    /// The archived instants, oldest first, each in its highest state. Reads all of the archive.
    ///
    /// A log file that is damaged loses its own instants only, and leaves a warning; what cannot be listed is an error.
    pub fn archived(&self, storage: &dyn Storage) -> Result<Vec<Instant>> {
        let outside = |e: Error| Error::corrupt(e.message()).context("history folder");
        let folder = self.root().join(&self.config().history_folder()).map_err(outside)?;
        let mut found = match self.config().layout() {
            Layout::V2 => history::instants(storage, &folder).map_err(|e| e.context(format!("history {folder}")))?,
            Layout::V0 | Layout::V1 => self.read_logs(storage, &folder)?,
        };
        // What an archival that was cut off has copied and not yet deleted is still active.
        found.retain(|i| !self.instants().iter().any(|active| key(active) == key(i)));
        Ok(found)
    }

    fn read_logs(&self, storage: &dyn Storage, folder: &TablePath) -> Result<Vec<Instant>> {
        let entries = match storage.list(folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let is_log = |name: &str| name.starts_with(LOG_PREFIX) && !name.ends_with(".crc");
        let files = entries.into_iter().filter(|e| matches!(e.kind, EntryKind::File { .. }) && is_log(&e.name));
        let paths = files.map(|e| folder.join(&e.name)).collect::<Result<Vec<_>>>()?;
        let mut found = Found::new();
        for path in &paths {
            let read = storage.read(path, LOG_LEN_MAX).and_then(|bytes| read_log(bytes, &mut found));
            match read {
                Ok(()) => {}
                // A merge of small files replaces them.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                    self.warn(format!("archived instants are missing: {path}: {}", e.message()));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(found.into_values().collect())
    }
}

fn key(instant: &Instant) -> (InstantTime, Action) {
    (instant.requested, instant.action.completes_as())
}

fn read_log(bytes: Bytes, found: &mut Found) -> Result<()> {
    let mut reader = LogReader::new(bytes);
    let mut torn = None;
    while let Some(block) = reader.next_block()? {
        match block.kind {
            BlockKind::Avro => {}
            BlockKind::Command => continue,
            BlockKind::Corrupt => {
                torn = Some(block.offset);
                continue;
            }
            other => return Err(Error::unsupported(format!("archived instants in a block of kind {other:?}"))),
        }
        let schema = Schema::parse(block.header(HeaderKey::Schema).unwrap_or_default())?;
        let content = reader.content(&block)?;
        for record in avro_records(&content)? {
            let instant = entry(&schema, record?)?;
            found
                .entry(key(&instant))
                .and_modify(|known| {
                    if instant.state > known.state {
                        *known = instant;
                    }
                })
                .or_insert(instant);
        }
    }
    match torn {
        Some(at) => Err(Error::corrupt(format!("what begins at byte {at} is no whole log block"))),
        None => Ok(()),
    }
}

/// The instant that one HoodieArchivedMetaEntry is about.
fn entry(schema: &Schema, record: &[u8]) -> Result<Instant> {
    let (mut time, mut action, mut state) = (None, None, None);
    Cursor::new(schema, record).record(|name, cursor| {
        match name {
            "commitTime" => time = cursor.str()?.map(str::to_owned),
            "actionType" => action = cursor.str()?.map(str::to_owned),
            "actionState" => state = cursor.str()?.map(str::to_owned),
            _ => {}
        }
        Ok(())
    })?;
    let bad = |what: &str, text: &Option<String>| Error::corrupt(format!("{what} of an archived instant: {text:?}"));
    let requested = time.as_deref().and_then(InstantTime::parse).ok_or_else(|| bad("time", &time))?;
    let action = action.as_deref().and_then(Action::from_name).ok_or_else(|| bad("action", &action))?;
    let state = match state.as_deref() {
        // Early releases archived completed instants only, and wrote no state.
        None | Some("COMPLETED") => State::Completed,
        Some("INFLIGHT") => State::Inflight,
        Some("REQUESTED") => State::Requested,
        Some(_) => return Err(bad("state", &state)),
    };
    let action = if state == State::Completed { action.completes_as() } else { action };
    Ok(Instant { requested, action, state, completion: None })
}
