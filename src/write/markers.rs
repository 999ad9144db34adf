//! Markers: a file's name, written down before the file.
//!
//! `.hoodie/.temp/<instant>/<partition>/<file>.marker.<kind>`, empty. Whoever rolls a failed write back finds its files by
//! them, and a commit finds the files that its own retries left behind. They are written directly, one each, with no `MARKERS.type`
//! file; those of a timeline server, which Hudi's own writers leave, are read as well. Format: docs/format.md, "Markers".

use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::storage::{EntryKind, Removal, Storage, TablePath};
use bytes::Bytes;
use std::fmt;

const FOLDER: &str = ".hoodie/.temp";
const MARK: &str = ".marker.";
const TYPE_FILE: &str = "MARKERS.type";
const CHECKSUM: &str = ".crc";
const SERVER_FILE: &str = "MARKERS";
/// Largest file of a timeline server accepted, bytes.
const LEN_MAX: u64 = 1 << 30;
/// Folders within folders.
const DEPTH_MAX: usize = 64;

/// What is done to the file that a marker names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MarkerKind {
    /// The first base file of a new file group.
    Create,
    /// A new base file of a file group.
    Merge,
    /// A log file.
    Append,
}

/// One marker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Marker {
    /// The partition's path.
    pub partition: String,
    /// The file's name.
    pub file: String,
    /// What is done to it.
    pub kind: MarkerKind,
}

impl MarkerKind {
    /// Hudi's name.
    pub fn name(self) -> &'static str {
        match self {
            MarkerKind::Create => "CREATE",
            MarkerKind::Merge => "MERGE",
            MarkerKind::Append => "APPEND",
        }
    }

    fn from_name(name: &str) -> Option<MarkerKind> {
        [MarkerKind::Create, MarkerKind::Merge, MarkerKind::Append].into_iter().find(|k| k.name() == name)
    }
}

impl Marker {
    /// Reads `<partition>/<file>.marker.<kind>`; `None` for anything else.
    pub fn parse(path: &str) -> Option<Marker> {
        let (file, kind) = path.rsplit_once(MARK)?;
        let kind = MarkerKind::from_name(kind)?;
        let (partition, file) = file.rsplit_once('/').unwrap_or(("", file));
        TablePath::parse(partition).ok()?.join(file).ok()?;
        (!file.is_empty()).then(|| Marker { partition: partition.to_owned(), file: file.to_owned(), kind })
    }

    /// The path of the file that it names.
    pub fn path(&self) -> Result<TablePath> {
        TablePath::parse(&self.partition)?.join(&self.file)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.partition.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}{MARK}{}", self.partition, self.file, self.kind.name())
    }
}

/// Writes markers down; one that is there already is fine.
pub fn create(storage: &dyn Storage, instant: InstantTime, markers: &[Marker]) -> Result<()> {
    let folder = folder(instant)?;
    let files = markers.iter().map(|m| Ok((folder.join(&m.to_string())?, Bytes::new())));
    for (result, marker) in storage.create_many(&files.collect::<Result<Vec<_>>>()?).into_iter().zip(markers) {
        match result {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            other => other.map_err(|e| e.context("writing a marker").in_partition(&marker.partition))?,
        }
    }
    Ok(())
}

/// The markers of a write, sorted; `None` if it has no marker folder at all.
pub fn read(storage: &dyn Storage, instant: InstantTime) -> Result<Option<Vec<Marker>>> {
    let folder = folder(instant)?;
    let Some(files) = files_below(storage, &folder)? else { return Ok(None) };
    let mut markers = Vec::new();
    for file in &files {
        match file.as_str() {
            TYPE_FILE => {}
            _ if file.starts_with(SERVER_FILE) && !file.contains('/') => {
                let text = storage.read(&folder.join(file)?, LEN_MAX)?;
                let text = String::from_utf8_lossy(&text);
                for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
                    markers.push(Marker::parse(line).ok_or_else(|| not_a_marker(&folder, line))?);
                }
            }
            _ => markers.push(Marker::parse(file).ok_or_else(|| not_a_marker(&folder, file))?),
        }
    }
    markers.sort();
    markers.dedup();
    Ok(Some(markers))
}

/// Removes the markers of a write.
pub fn delete(storage: &dyn Storage, instant: InstantTime) -> Result<()> {
    storage.delete(&Removal::markers(instant))
}

/// The writes that have markers.
pub fn instants(storage: &dyn Storage) -> Result<Vec<InstantTime>> {
    let entries = match storage.list(&TablePath::parse(FOLDER)?) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    Ok(entries.iter().filter_map(|e| InstantTime::parse(&e.name)).collect())
}

fn folder(instant: InstantTime) -> Result<TablePath> {
    TablePath::parse(&format!("{FOLDER}/{instant}"))
}

/// All files below a folder, relative to it; `None` if there is no such folder.
fn files_below(storage: &dyn Storage, folder: &TablePath) -> Result<Option<Vec<String>>> {
    let mut files = all_below(storage, folder)?;
    if let Some(files) = &mut files {
        // Hadoop puts a file's checksum beside it on local disks.
        files.retain(|path| !path.ends_with(CHECKSUM));
    }
    Ok(files)
}

fn all_below(storage: &dyn Storage, folder: &TablePath) -> Result<Option<Vec<String>>> {
    if let Some(files) = storage.list_flat(folder) {
        let files: Vec<String> = files?.into_iter().map(|(name, _)| name).collect();
        return Ok((!files.is_empty()).then_some(files));
    }
    let mut found = Vec::new();
    let mut todo = vec![(String::new(), 0)];
    while let Some((below, depth)) = todo.pop() {
        let entries = match storage.list(&folder.join(&below)?) {
            Err(e) if e.kind() == ErrorKind::NotFound && below.is_empty() => return Ok(None),
            other => other?,
        };
        for entry in entries {
            let path = if below.is_empty() { entry.name } else { format!("{below}/{}", entry.name) };
            match entry.kind {
                EntryKind::Dir if depth < DEPTH_MAX => todo.push((path, depth + 1)),
                EntryKind::Dir => return Err(Error::corrupt(format!("{folder}/{path}: folders too deep"))),
                EntryKind::File { .. } => found.push(path),
            }
        }
    }
    Ok(Some(found))
}

fn not_a_marker(folder: &TablePath, line: &str) -> Error {
    Error::corrupt(format!("{folder} names {line:?}, which is no marker"))
        .with_hint("without it the files of that write are not known; roll the instant back with Hudi")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{self, StorageOptions};

    #[test]
    fn names_go_there_and_back() {
        for (text, partition, file, kind) in [
            ("f.parquet.marker.CREATE", "", "f.parquet", MarkerKind::Create),
            ("a=1/b/f.parquet.marker.MERGE", "a=1/b", "f.parquet", MarkerKind::Merge),
            ("p/.f_1.log.1_0-0-0.marker.APPEND", "p", ".f_1.log.1_0-0-0", MarkerKind::Append),
            ("x.marker.y/f.marker.CREATE", "x.marker.y", "f", MarkerKind::Create),
        ] {
            let marker = Marker::parse(text).unwrap();
            assert_eq!((marker.partition.as_str(), marker.file.as_str(), marker.kind), (partition, file, kind));
            assert_eq!(marker.to_string(), text);
        }
        for text in ["", "f.parquet", "f.marker.OTHER", "../f.marker.CREATE", "p/.marker.CREATE", "a//f.marker.CREATE"]
        {
            assert_eq!(Marker::parse(text), None, "{text}");
        }
    }

    #[test]
    fn both_ways_of_writing_them_down_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let storage = storage::open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap();
        let time = InstantTime::parse("20260101000000000").unwrap();
        assert_eq!(read(&*storage, time).unwrap(), None);
        let mut all: Vec<Marker> = ["p/a.marker.CREATE", "p/b.marker.MERGE", "q/r/c.marker.APPEND", "d.marker.CREATE"]
            .map(|t| Marker::parse(t).unwrap())
            .to_vec();
        all.sort();
        create(&*storage, time, &all).unwrap();
        create(&*storage, time, &all[..2]).unwrap();
        assert_eq!(read(&*storage, time).unwrap().unwrap(), all);
        let folder = dir.path().join(".hoodie/.temp/20260101000000000");
        std::fs::write(folder.join("MARKERS.type"), "TIMELINE_SERVER_BASED").unwrap();
        std::fs::write(folder.join("MARKERS0"), "p/e.marker.CREATE\nz/f.marker.MERGE\n").unwrap();
        std::fs::write(folder.join("MARKERS13"), "").unwrap();
        std::fs::write(folder.join("p/.a.marker.CREATE.crc"), "crc").unwrap();
        std::fs::write(folder.join(".MARKERS0.crc"), "crc").unwrap();
        assert_eq!(read(&*storage, time).unwrap().unwrap().len(), 6);
        std::fs::write(folder.join("MARKERS1"), "p/what\n").unwrap();
        assert_eq!(read(&*storage, time).unwrap_err().kind(), ErrorKind::Corrupt);
        delete(&*storage, time).unwrap();
        delete(&*storage, time).unwrap();
        assert_eq!(read(&*storage, time).unwrap(), None);
    }
}
