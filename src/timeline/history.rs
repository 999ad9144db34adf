//! The archived timeline of layout 2: completion times of instants that are no longer active.
//!
//! A log-structured tree of Parquet files: `_version_` names a manifest, the manifest names the live files; a folder listing is
//! used only where `_version_` is missing, to find the newest manifest. Of the files only the columns `instantTime`,
//! `completionTime` and, where asked for, `action` are read: the others hold whole commits. Format: docs/format.md, "History".

use super::Timeline;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::storage::{RandomRead, Storage, TablePath};
use bytes::Bytes;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read};
use std::sync::{Arc, mpsc};

/// Completion times of archived instants by requested time.
#[derive(Debug, Default)]
pub(super) struct History {
    completions: HashMap<InstantTime, InstantTime>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    files: Vec<ManifestFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestFile {
    file_name: String,
}

const VERSION_LEN_MAX: u64 = 64;
const MANIFEST_LEN_MAX: u64 = 64 << 20;
/// Rows read at once.
const BATCH: usize = 8192;
/// Bytes read at once where the length is not known.
const READ_LEN: usize = 64 << 10;

impl Timeline {
    /// When the instant completed; `None` if it has not, or if neither the active timeline nor the history knows it.
    ///
    /// Only layout 2 records it. A one-timestamp instant there completed when its file was last changed. Instants that are
    /// not on the active timeline are looked up in the history, which is read at the first such question.
    pub fn completion_time(&self, storage: &dyn Storage, time: InstantTime) -> Result<Option<InstantTime>> {
        if !self.config().version().slices_by_completion_time() {
            return Ok(None);
        }
        let start = self.instants().partition_point(|i| i.requested < time);
        let same = self.instants().iter().skip(start).take_while(|i| i.requested == time);
        if let Some(instant) = same.into_iter().find(|i| i.is_completed()) {
            return match instant.completion {
                Some(at) => Ok(Some(at)),
                None => {
                    let modified = storage.stat(&self.file_of(instant)?)?.modified_ms;
                    // Hudi formats this one in the machine's zone, whatever the table's.
                    Ok(InstantTime::from_epoch_ms(modified, crate::format::instant::Zone::Local))
                }
            };
        }
        // Not by whether it is older than the timeline's start: cleans, rollbacks and savepoints stay longer than the writes after
        // them, and a metadata table's late index is bootstrapped under an instant of zeros.
        if self.instants().iter().any(|i| i.requested == time) {
            return Ok(None);
        }
        Ok(self.history(storage)?.completions.get(&time).copied())
    }

    /// Number of archived instants whose completion times are known; reads the history.
    pub fn archived_len(&self, storage: &dyn Storage) -> Result<usize> {
        Ok(self.history(storage)?.completions.len())
    }

    fn history(&self, storage: &dyn Storage) -> Result<Arc<History>> {
        if let Some(history) = self.0.contents.history() {
            return Ok(history);
        }
        let outside = |e: Error| Error::corrupt(e.message()).context("history folder");
        let folder = self.root().join(&self.config().history_folder()).map_err(outside)?;
        let history = read(storage, &folder).map_err(|e| e.context(format!("history {folder}")))?;
        let history = Arc::new(history);
        self.0.contents.keep_history(&history);
        Ok(history)
    }
}

/// The archived instants with their actions, oldest first.
pub(super) fn instants(storage: &dyn Storage, folder: &TablePath) -> Result<Vec<Instant>> {
    let mut found = BTreeMap::new();
    for (path, name) in files(storage, folder)? {
        for row in read_file_guarded(storage, &path, true).map_err(|e| e.context(&name))? {
            let action = row.action.as_deref().and_then(Action::from_name);
            let action = action.ok_or_else(|| Error::corrupt(format!("{name}: action {:?}", row.action)))?;
            let completion = Some(row.completion.unwrap_or(row.time));
            let instant = Instant { requested: row.time, action, state: State::Completed, completion };
            found.entry((row.time, action)).or_insert(instant);
        }
    }
    Ok(found.into_values().collect())
}

fn read(storage: &dyn Storage, folder: &TablePath) -> Result<History> {
    let mut history = History::default();
    for (path, name) in files(storage, folder)? {
        for row in read_file_guarded(storage, &path, false).map_err(|e| e.context(&name))? {
            // An instant that was archived without a completion time completed when it was requested, as in Hudi.
            history.completions.entry(row.time).or_insert(row.completion.unwrap_or(row.time));
        }
    }
    Ok(history)
}

/// The live files, as the newest manifest has them, with their names.
fn files(storage: &dyn Storage, folder: &TablePath) -> Result<Vec<(TablePath, String)>> {
    let Some(version) = newest_version(storage, folder)? else { return Ok(Vec::new()) };
    let path = folder.join(&format!("manifest_{version}"))?;
    let manifest = storage.read(&path, MANIFEST_LEN_MAX).map_err(|e| e.context(format!("manifest {version}")))?;
    let manifest: Manifest = serde_json::from_slice(&manifest)
        .map_err(|e| Error::corrupt(format!("manifest {version} is not JSON of a manifest: {e}")).with_source(e))?;
    let outside = |e: Error| Error::corrupt(e.message()).context(format!("manifest {version}"));
    let path_of = |file: ManifestFile| Ok((folder.join(&file.file_name).map_err(outside)?, file.file_name));
    manifest.files.into_iter().map(path_of).collect()
}

/// The number in `_version_`, else the largest of a manifest; `None` without any.
fn newest_version(storage: &dyn Storage, folder: &TablePath) -> Result<Option<u64>> {
    match storage.read(&folder.join("_version_")?, VERSION_LEN_MAX) {
        Ok(bytes) => {
            if let Some(version) = std::str::from_utf8(&bytes).ok().and_then(|t| t.trim().parse().ok()) {
                return Ok(Some(version));
            }
        }
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {}
        Err(e) => return Err(e),
    }
    let entries = match storage.list(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(entries.iter().filter_map(|e| e.name.strip_prefix("manifest_")?.parse().ok()).max())
}

/// What is read of an instant.
struct Row {
    time: InstantTime,
    completion: Option<InstantTime>,
    /// Where it was asked for.
    action: Option<String>,
}

/// The Parquet library panics over some damaged footers (negative lengths, for one); here that is a damaged file like others.
fn read_file_guarded(storage: &dyn Storage, path: &TablePath, actions: bool) -> Result<Vec<Row>> {
    let read = std::panic::AssertUnwindSafe(|| read_file(storage, path, actions));
    std::panic::catch_unwind(read)
        .unwrap_or_else(|_| Err(Error::corrupt("cannot be read as Parquet: its footer or a page makes no sense")))
}

fn read_file(storage: &dyn Storage, path: &TablePath, actions: bool) -> Result<Vec<Row>> {
    let mut found = Vec::new();
    let bad = |e: ParquetError| Error::corrupt(format!("cannot be read as Parquet: {e}")).with_source(e);
    let reader = SerializedFileReader::new(Ranges(storage.open(path, None)?)).map_err(bad)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let column = |name: &str| {
        let found = schema.columns().iter().position(|c| c.path().string() == name);
        found.ok_or_else(|| Error::corrupt(format!("has no column {name}")))
    };
    let (time, completion) = (column("instantTime")?, column("completionTime")?);
    let action = if actions { Some(column("action")?) } else { None };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(bad)?;
        let read = |column: usize| read_column(group.get_column_reader(column).map_err(bad)?);
        let mut actions = action.map(read).transpose()?.unwrap_or_default().into_iter();
        for (time, completion) in read(time)?.iter().zip(read(completion)?) {
            let action = actions.next().flatten().map(|a| String::from_utf8_lossy(a.data()).into_owned());
            let (time, completion) = (instant(time.as_ref())?, instant(completion.as_ref())?);
            found.extend(time.map(|time| Row { time, completion, action }));
        }
    }
    Ok(found)
}

fn instant(value: Option<&ByteArray>) -> Result<Option<InstantTime>> {
    let parse = |v: &ByteArray| std::str::from_utf8(v.data()).ok().and_then(InstantTime::parse);
    let bad = || Error::corrupt("holds an instant time that is not digits");
    value.map(|v| parse(v).ok_or_else(bad)).transpose()
}

/// One column of strings, `None` for null.
fn read_column(column: ColumnReader) -> Result<Vec<Option<ByteArray>>> {
    let ColumnReader::ByteArrayColumnReader(mut column) = column else {
        return Err(Error::corrupt("a column of instants is not of strings"));
    };
    let mut values_read = Vec::new();
    loop {
        let (mut values, mut levels): (Vec<ByteArray>, Vec<i16>) = (Vec::new(), Vec::new());
        let (rows, _, _) = column
            .read_records(BATCH, Some(&mut levels), None, &mut values)
            .map_err(|e| Error::corrupt(format!("cannot be read as Parquet: {e}")).with_source(e))?;
        if rows == 0 {
            return Ok(values_read);
        }
        let mut values = values.into_iter();
        // A column that cannot be null has no levels: each row has a value.
        let present = (0..rows).map(|row| levels.get(row).is_none_or(|l| *l > 0));
        for present in present.collect::<Vec<bool>>() {
            values_read.push(if present { values.next() } else { None });
        }
    }
}

/// Ranges of an open object, for the Parquet reader.
struct Ranges(Arc<dyn RandomRead>);

impl Ranges {
    fn get(&self, offset: u64, len: usize) -> Result<Bytes> {
        let (sender, receiver) = mpsc::channel();
        let len = u32::try_from(len).map_err(|_| Error::corrupt("a read of over 4 GiB"))?;
        let send = move |result| {
            // A receiver that is gone has no use for the result.
            let _ = sender.send(result);
        };
        self.0.read_at(offset, len, Box::new(send));
        receiver.recv().map_err(|_| Error::internal("a read ended without a result"))?
    }
}

impl Length for Ranges {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

impl ChunkReader for Ranges {
    type T = BufReader<RangeReader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::with_capacity(READ_LEN, RangeReader { ranges: Ranges(self.0.clone()), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let in_file = start.checked_add(length as u64).is_some_and(|end| end <= self.0.size());
        let bytes = if in_file { self.get(start, length) } else { Err(Error::corrupt("a range beyond the end")) };
        let bytes = bytes.map_err(|e| ParquetError::External(Box::new(e)))?;
        if bytes.len() < length { Err(ParquetError::EOF("a short read".to_owned())) } else { Ok(bytes) }
    }
}

/// Reads on from a place in an object.
struct RangeReader {
    ranges: Ranges,
    at: u64,
}

impl Read for RangeReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.ranges.0.size().saturating_sub(self.at);
        let len = buffer.len().min(READ_LEN).min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        let bytes = self.ranges.get(self.at, len).map_err(std::io::Error::other)?;
        let len = bytes.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
        }
        self.at += len as u64;
        Ok(len)
    }
}
