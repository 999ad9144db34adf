//! Tables on a local disk.
//!
//! Rooted at a directory's descriptor: every open goes through module `beneath`, so no link leads out of the table. Only regular
//! files are read: pipes, sockets and devices are refused without waiting for them. The bytes of an open file are those of
//! one inode, and a read that finds size or time changed since the open answers `Stale`: a file rewritten in place.

mod beneath;
mod directory;
mod dirty;
mod file;
mod folder;
mod write;

use super::{
    DirEntry, EntryKind, ObjectMeta, ObjectWriter, RandomRead, Removal, Storage, StorageStats, TablePath, VersionTag,
    location,
};
use crate::error::{Error, ErrorKind, Result};
use beneath::Beneath;
use bytes::Bytes;
use directory::Stat;
use file::LocalFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Times that a small file may change under [`Storage::read`] before that is an error.
const REREADS_MAX: u32 = 5;

/// A table's directory on a local disk.
#[derive(Debug)]
pub struct LocalStorage {
    uri: String,
    beneath: Arc<Beneath>,
    stats: Arc<StorageStats>,
    dirty: Arc<dirty::Dirty>,
}

impl LocalStorage {
    /// Opens the directory; links in `path` itself are followed.
    pub fn new(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|e| Error::io(path.display(), e))?;
        Ok(LocalStorage {
            uri: location::file_uri(&path),
            beneath: Arc::new(Beneath::new(&path)?),
            stats: Arc::new(StorageStats::default()),
            dirty: Arc::default(),
        })
    }

    fn directory(&self, dir: &TablePath) -> Result<std::fs::File> {
        self.beneath.open(dir.as_str(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NONBLOCK)
    }

    /// What a link in `dir` means.
    fn follow(&self, path: &TablePath) -> Result<Stat> {
        let file = self.beneath.open(path.as_str(), libc::O_PATH)?;
        let meta = file.metadata().map_err(|e| Error::io(self.full(path).display(), e))?;
        Ok(match meta.file_type() {
            t if t.is_file() => Stat::File(file::object_meta(&meta)),
            t if t.is_dir() => Stat::Dir,
            _ => Stat::Special,
        })
    }

    fn resolve(&self, path: &TablePath, stat: Stat) -> Result<ObjectMeta> {
        let stat = match stat {
            Stat::Link => self.follow(path)?,
            other => other,
        };
        match stat {
            Stat::File(meta) => Ok(meta),
            Stat::Dir => Err(is_directory(&self.full(path))),
            Stat::Link | Stat::Special => Err(not_regular(&self.full(path))),
        }
    }

    fn entry(&self, dir: &TablePath, raw: directory::RawEntry) -> Option<DirEntry> {
        let name = String::from_utf8(raw.name)
            .inspect_err(|e| {
                let name = String::from_utf8_lossy(e.as_bytes());
                tracing::warn!(directory = %self.full(dir).display(), %name, "a name that is not UTF-8 is left out");
            })
            .ok()?;
        let kind = match raw.kind {
            libc::DT_DIR => EntryKind::Dir,
            // What cannot be followed is listed as a file, so that its own stat or open says why.
            libc::DT_LNK | libc::DT_UNKNOWN => match dir.join(&name).and_then(|path| self.follow(&path)) {
                Ok(Stat::Dir) => EntryKind::Dir,
                _ => EntryKind::File { size: None },
            },
            _ => EntryKind::File { size: None },
        };
        Some(DirEntry { name, kind })
    }

    fn open_file(&self, path: &TablePath) -> Result<LocalFile> {
        StorageStats::add(&self.stats.gets, 1);
        // Without O_NONBLOCK, opening a pipe waits for its writer.
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
        LocalFile::new(self.beneath.open(path.as_str(), flags)?, self.full(path), self.stats.clone())
    }

    fn count_puts(&self, n: usize) {
        StorageStats::add(&self.stats.puts, u64::try_from(n).unwrap_or(u64::MAX));
    }

    fn full(&self, path: &TablePath) -> PathBuf {
        self.beneath.root_path().join(path.as_str())
    }
}

impl Storage for LocalStorage {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn read(&self, path: &TablePath, limit: u64) -> Result<Bytes> {
        // Small files such as hoodie.properties are rewritten in place: one that changes under the read is read again.
        let mut result = self.open_file(path)?.read_all(limit);
        for _ in 0..REREADS_MAX {
            match &result {
                Err(e) if e.kind() == ErrorKind::Stale => result = self.open_file(path)?.read_all(limit),
                _ => break,
            }
        }
        result
    }

    fn read_range(&self, path: &TablePath, offset: u64, len: u64) -> Result<Bytes> {
        self.open_file(path)?.read_exact(offset, len)
    }

    fn stat(&self, path: &TablePath) -> Result<ObjectMeta> {
        StorageStats::add(&self.stats.heads, 1);
        let stat = self.follow(path)?;
        self.resolve(path, stat)
    }

    fn stat_many(&self, dir: &TablePath, names: &[&str]) -> Vec<Result<ObjectMeta>> {
        StorageStats::add(&self.stats.heads, u64::try_from(names.len()).unwrap_or(u64::MAX));
        let opened = match self.directory(dir) {
            Ok(opened) => opened,
            Err(e) => return names.iter().map(|_| Err(e.duplicate())).collect(),
        };
        directory::stat_many(&opened, names)
            .into_iter()
            .zip(names)
            .map(|(stat, name)| {
                let stat = stat.map_err(|e| e.context(self.full(dir).display()))?;
                match stat {
                    Stat::File(meta) => Ok(meta),
                    other => self.resolve(&dir.join(name)?, other),
                }
            })
            .collect()
    }

    fn list(&self, dir: &TablePath) -> Result<Vec<DirEntry>> {
        StorageStats::add(&self.stats.lists, 1);
        let opened = self.directory(dir)?;
        let raw = directory::read(&opened).map_err(|e| Error::io(self.full(dir).display(), e))?;
        Ok(raw.into_iter().filter_map(|raw| self.entry(dir, raw)).collect())
    }

    fn is_object_store(&self) -> bool {
        false
    }

    fn list_flat(&self, _dir: &TablePath) -> Option<Result<Vec<(String, u64)>>> {
        None
    }

    fn open(&self, path: &TablePath, expected_size: Option<u64>) -> Result<Arc<dyn RandomRead>> {
        let file = self.open_file(path)?;
        file.check_size(expected_size)?;
        Ok(Arc::new(file))
    }

    fn local_path(&self, path: &TablePath) -> Option<PathBuf> {
        self.beneath.open(path.as_str(), libc::O_PATH).ok().map(|_| self.full(path))
    }

    fn rooted_at(&self, dir: &TablePath) -> Result<Arc<dyn Storage>> {
        let beneath = Arc::new(self.beneath.below(dir.as_str())?);
        let uri = location::file_uri(beneath.root_path());
        Ok(Arc::new(LocalStorage { uri, beneath, stats: self.stats.clone(), dirty: self.dirty.clone() }))
    }

    fn stats(&self) -> &StorageStats {
        &self.stats
    }

    fn read_tagged(&self, path: &TablePath, limit: u64) -> Result<(Bytes, VersionTag)> {
        let file = self.open_file(path)?;
        Ok((file.read_all(limit)?, file.tag()?))
    }

    fn create(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        self.count_puts(1);
        self.write_small(path, &bytes, false)
    }

    fn create_many(&self, files: &[(TablePath, Bytes)]) -> Vec<Result<()>> {
        self.count_puts(files.len());
        let mut last: Option<(TablePath, Result<Arc<folder::Folder>>)> = None;
        let mut create = |(path, bytes): &(TablePath, Bytes)| {
            let dir = path.parent();
            let folder = match &last {
                Some((known, folder)) if *known == dir => folder,
                _ => &last.insert((dir.clone(), self.folder(&dir).map(Arc::new))).1,
            };
            self.write_marker(folder.as_ref().map_err(Error::duplicate)?, path.file_name(), bytes)
        };
        files.iter().map(&mut create).collect()
    }

    fn put(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        self.count_puts(1);
        self.write_small(path, &bytes, true)
    }

    fn put_if_match(&self, path: &TablePath, bytes: Bytes, expected: Option<&VersionTag>) -> Result<VersionTag> {
        self.count_puts(1);
        self.replace_if(path, &bytes, expected)
    }

    fn create_writer(&self, path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        self.count_puts(1);
        self.writer(path)
    }

    fn create_dir(&self, dir: &TablePath) -> Result<()> {
        self.folder(dir).map(drop)
    }

    fn sync(&self) -> Result<()> {
        self.dirty.sync()
    }

    fn delete(&self, what: &Removal) -> Result<()> {
        StorageStats::add(&self.stats.deletes, 1);
        self.remove(what)
    }
}

fn is_directory(path: &Path) -> Error {
    Error::not_found(format!("{}: is a directory, not a file", path.display()))
}

fn not_regular(path: &Path) -> Error {
    Error::corrupt(format!("{}: is a pipe, socket or device, not a regular file", path.display()))
        .with_hint("a table holds regular files only; remove it")
}
