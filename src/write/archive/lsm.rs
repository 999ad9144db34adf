//! The archive of layout 2: a log-structured tree of Parquet files, a manifest of those that count, and the manifest's number.
//!
//! A new file counts once a manifest names it and `_version_` names the manifest; both are replaced as a whole. Files of a
//! level are merged into one of the next when there are enough of them.

use super::files::StateFile;
use super::rows::{Row, RowWriter, read_rows};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, State};
use crate::format::jackson;
use crate::storage::{Removal, Storage, TablePath};
use crate::timeline::Timeline;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

const VERSION_FILE: &str = "_version_";
const MANIFEST_PREFIX: &str = "manifest_";
const VERSION_LEN_MAX: u64 = 64;
const MANIFEST_LEN_MAX: u64 = 64 << 20;
/// Largest file that others are merged into, bytes.
const MERGED_LEN_MAX: u64 = 1 << 30;
/// Manifests that stay, beside one for each level that was merged.
const MANIFESTS_KEPT: usize = 3;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Manifest {
    #[serde(default)]
    files: Vec<ManifestFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestFile {
    file_name: String,
    file_len: u64,
}

/// The history folder of one timeline.
pub struct Lsm<'l> {
    storage: &'l dyn Storage,
    folder: TablePath,
}

impl<'l> Lsm<'l> {
    /// Of that timeline.
    pub fn new(storage: &'l dyn Storage, timeline: &Timeline) -> Result<Lsm<'l>> {
        Ok(Lsm { storage, folder: timeline.root().join(&timeline.config().history_folder())? })
    }

    /// Adds a file of these instants' files, which are in order.
    pub fn write(&self, timeline: &Timeline, files: &[StateFile]) -> Result<()> {
        let (Some(first), Some(last)) = (files.first(), files.last()) else { return Ok(()) };
        let name = format!("{}_{}_0.parquet", first.instant.requested, last.instant.requested);
        let (version, manifest) = self.manifest()?;
        if manifest.files.iter().any(|f| f.file_name == name) {
            // Archived already, by a run that was cut off before it deleted anything.
            return Ok(());
        }
        let mut writer = self.create(&name)?;
        for states in files.chunk_by(|a, b| {
            (a.instant.requested, a.instant.action.completes_as())
                == (b.instant.requested, b.instant.action.completes_as())
        }) {
            if let Some(row) = self.row(timeline, states)? {
                writer.push(row)?;
            }
        }
        let file_len = writer.finish()?;
        self.publish(version, manifest, &[], ManifestFile { file_name: name, file_len })
    }

    fn row(&self, timeline: &Timeline, states: &[StateFile]) -> Result<Option<Row>> {
        let of = |state: State| states.iter().find(|f| f.instant.state == state);
        let read = |file: Option<&StateFile>| match file {
            Some(file) => file.read(self.storage, timeline).map(|bytes| Some(bytes).filter(|b| !b.is_empty())),
            None => Ok(None),
        };
        let Some(completed) = of(State::Completed) else { return Ok(None) };
        let (requested, inflight) = (of(State::Requested), of(State::Inflight));
        let pending = requested.or(inflight).map_or(completed.instant.action, |f| f.instant.action);
        let plan = match pending {
            Action::ReplaceCommit | Action::Clustering => read(inflight)?.or(read(requested)?),
            Action::Clean | Action::Compaction | Action::LogCompaction => read(requested)?,
            _ => None,
        };
        let time = completed.instant.requested;
        let completion = match completed.instant.completion {
            Some(at) => Some(at),
            None => timeline.completion_time(self.storage, time)?,
        };
        Ok(Some(Row {
            time: time.to_string(),
            completion: Some(completion.unwrap_or(time).to_string()),
            action: completed.instant.action.name().to_owned(),
            metadata: read(Some(completed))?,
            plan,
        }))
    }

    /// Merges full levels and removes what no manifest names any more.
    pub fn merge(&self, batch: usize) -> Result<()> {
        let mut level = 0;
        loop {
            let (version, manifest) = self.manifest()?;
            let Some(merged) = candidates(&manifest, level, batch) else { break };
            let name = merged_name(&merged, level + 1)?;
            let mut writer = self.create(&name)?;
            for file in &merged {
                let bytes = self.storage.read(&self.folder.join(&file.file_name)?, 2 * MERGED_LEN_MAX)?;
                for row in read_rows(bytes).map_err(|e| e.context(&file.file_name))? {
                    writer.push(row?)?;
                }
            }
            let file_len = writer.finish()?;
            self.publish(version, manifest, &merged, ManifestFile { file_name: name, file_len })?;
            level += 1;
        }
        if level > 0 { self.sweep(MANIFESTS_KEPT + level) } else { Ok(()) }
    }

    /// The number of the newest manifest, 0 without any, and what it says.
    fn manifest(&self) -> Result<(u64, Manifest)> {
        let number = match self.storage.read(&self.folder.join(VERSION_FILE)?, VERSION_LEN_MAX) {
            Ok(bytes) => std::str::from_utf8(&bytes).ok().and_then(|t| t.trim().parse().ok()),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => None,
            Err(e) => return Err(e),
        };
        let number = match number {
            Some(number) => number,
            None => self.manifests()?.into_iter().max().unwrap_or(0),
        };
        if number == 0 {
            return Ok((0, Manifest::default()));
        }
        Ok((number, self.read_manifest(number)?))
    }

    fn read_manifest(&self, number: u64) -> Result<Manifest> {
        let path = self.folder.join(&format!("{MANIFEST_PREFIX}{number}"))?;
        let bytes = self.storage.read(&path, MANIFEST_LEN_MAX)?;
        serde_json::from_slice(&bytes).map_err(|e| Error::corrupt(format!("{path} is no manifest: {e}")).with_source(e))
    }

    fn manifests(&self) -> Result<Vec<u64>> {
        Ok(self.names()?.iter().filter_map(|name| name.strip_prefix(MANIFEST_PREFIX)?.parse().ok()).collect())
    }

    fn names(&self) -> Result<Vec<String>> {
        match self.storage.list(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            other => Ok(other?.into_iter().map(|e| e.name).collect()),
        }
    }

    /// A new Parquet file. One of that name that no manifest names was cut off.
    fn create(&self, name: &str) -> Result<RowWriter> {
        let path = self.folder.join(name)?;
        let out = match self.storage.create_writer(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                self.storage.delete(&Removal::archived(&self.folder, name)?)?;
                self.storage.create_writer(&path)?
            }
            other => other?,
        };
        RowWriter::new(out)
    }

    fn publish(&self, version: u64, old: Manifest, gone: &[ManifestFile], new: ManifestFile) -> Result<()> {
        let mut manifest = old;
        manifest.files.retain(|f| !gone.contains(f));
        manifest.files.push(new);
        let number = version + 1;
        let path = self.folder.join(&format!("{MANIFEST_PREFIX}{number}"))?;
        self.storage.put(&path, Bytes::from(jackson::to_vec(&manifest)?))?;
        self.storage.put(&self.folder.join(VERSION_FILE)?, Bytes::from(number.to_string()))?;
        Ok(())
    }

    /// Keeps the newest manifests and what they name.
    fn sweep(&self, keep: usize) -> Result<()> {
        let mut numbers = self.manifests()?;
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let (kept, old) = numbers.split_at(keep.min(numbers.len()));
        if old.is_empty() {
            return Ok(());
        }
        let mut named = HashSet::new();
        for number in kept {
            named.extend(self.read_manifest(*number)?.files.into_iter().map(|f| f.file_name));
        }
        for number in old {
            self.storage.delete(&Removal::archived(&self.folder, &format!("{MANIFEST_PREFIX}{number}"))?)?;
        }
        for name in self.names()?.iter().filter(|n| level_of(n).is_some() && !named.contains(*n)) {
            self.storage.delete(&Removal::archived(&self.folder, name)?)?;
        }
        Ok(())
    }
}

/// The oldest files of a level that are to be merged, if there are enough.
fn candidates(manifest: &Manifest, level: usize, batch: usize) -> Option<Vec<ManifestFile>> {
    let of_level = manifest.files.iter().filter(|f| level_of(&f.file_name) == Some(level));
    let mut files: Vec<ManifestFile> = of_level.cloned().collect();
    if files.len() < batch {
        return None;
    }
    files.sort_by(|a, b| a.file_name.cmp(&b.file_name));
    let (mut chosen, mut bytes) = (Vec::new(), 0u64);
    for file in files {
        bytes = bytes.saturating_add(file.file_len);
        chosen.push(file);
        if chosen.len() >= batch {
            break;
        }
        if bytes > MERGED_LEN_MAX {
            if chosen.len() > 1 {
                break;
            }
            // One that is large enough already stays as it is.
            chosen.clear();
            bytes = 0;
        }
    }
    (chosen.len() > 1).then_some(chosen)
}

/// `<first>_<last>_<level>.parquet`.
fn parts(name: &str) -> Option<(&str, &str, usize)> {
    let mut parts = name.strip_suffix(".parquet")?.split('_');
    let (first, last, level) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (parts.next().is_none() && digits(first) && digits(last)).then(|| level.parse().ok().map(|l| (first, last, l)))?
}

fn level_of(name: &str) -> Option<usize> {
    parts(name).map(|(_, _, level)| level)
}

fn merged_name(files: &[ManifestFile], level: usize) -> Result<String> {
    let parts = || files.iter().filter_map(|f| parts(&f.file_name));
    let (first, last) = (parts().map(|p| p.0).min(), parts().map(|p| p.1).max());
    let (Some(first), Some(last)) = (first, last) else { return Err(Error::internal("a merge of no files")) };
    Ok(format!("{first}_{last}_{level}.parquet"))
}
