//! Whole tables in memory, one of whose files is what the fuzzer makes of it.
//!
//! The tables are unpacked by `scripts/fuzz` below `HUDIFS_FUZZ_TABLES`. An input of `table` begins with the number of a table
//! and, in two bytes, of a file in it; one of `history` with the number of a file of an archived timeline.

use bytes::Bytes;
use hudifs::storage::{DirEntry, EntryKind, ObjectMeta, RandomRead, ReadDone, Storage, StorageStats, TablePath};
use hudifs::table::{Listing, Table, TableOptions};
use hudifs::timeline::{Timeline, load_config};
use hudifs::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// Name and files of each table.
static TABLES: LazyLock<Vec<(String, Files)>> = LazyLock::new(|| {
    let folder =
        std::env::var_os("HUDIFS_FUZZ_TABLES").expect("HUDIFS_FUZZ_TABLES names the folder of unpacked tables");
    let mut tables: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    tables.sort();
    tables.iter().map(|t| (t.file_name().unwrap().to_string_lossy().into_owned(), Files::of(t))).collect()
});

/// Opens a table one of whose files is damaged, and looks at all of it.
pub fn table(input: &[u8]) {
    let Some(([table, high, low], bytes)) = input.split_first_chunk() else { return };
    let Some((_, files)) = TABLES.get(usize::from(*table)) else { return };
    let Some(path) = files.0.keys().nth(usize::from(*high) << 8 | usize::from(*low)) else { return };
    // Damaged settings are read several times, with waits: they have a target of their own.
    if path.ends_with("hoodie.properties") {
        return;
    }
    let storage: Arc<dyn Storage> = Arc::new(Memory::new(files.with(path, bytes)));
    for listing in [Listing::Auto, Listing::Storage] {
        let Ok(table) = Table::open(storage.clone(), TableOptions { listing, ..TableOptions::default() }) else {
            continue;
        };
        let snapshot = table.snapshot();
        let _ = snapshot.context().with_plans(&*storage);
        for partition in snapshot.partitions().iter().flat_map(|p| p.iter()) {
            let Ok(view) = snapshot.partition(partition) else { continue };
            for file in view.all() {
                let _ = snapshot.stored_path(partition, &file);
            }
        }
        let instants: Vec<String> = snapshot.timeline().writes().map(|i| i.requested.to_string()).collect();
        for instant in instants.iter().take(3) {
            let Ok(past) = table.as_of(instant) else { continue };
            for partition in past.partitions().iter().flat_map(|p| p.iter()) {
                let _ = past.partition(partition);
            }
            let _ = snapshot.changed_since(&past);
        }
    }
}

/// Reads an archived timeline one of whose files is damaged.
pub fn history(input: &[u8]) {
    let Some((number, bytes)) = input.split_first() else { return };
    let Some((_, files)) = TABLES.iter().find(|(name, _)| name.contains("archived")) else { return };
    let is_history = |path: &&String| path.starts_with(".hoodie/timeline/history/");
    let Some(path) = files.0.keys().filter(is_history).nth(usize::from(*number)) else { return };
    let storage = Memory::new(files.with(path, bytes));
    let root = TablePath::root();
    let config = load_config(&storage, &root).unwrap();
    let timeline = Timeline::load(&storage, &root, &config).unwrap();
    let _ = timeline.archived_len(&storage);
}

/// Contents by path.
#[derive(Clone)]
struct Files(BTreeMap<String, Bytes>);

impl Files {
    fn of(folder: &Path) -> Files {
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, std::fs::read(path).unwrap().into());
                }
            }
        }
        Files(files)
    }

    fn with(&self, path: &str, bytes: &[u8]) -> Files {
        let mut files = self.clone();
        files.0.insert(path.to_owned(), Bytes::copy_from_slice(bytes));
        files
    }
}

struct Memory {
    files: Files,
    stats: StorageStats,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    fn new(files: Files) -> Memory {
        Memory { files, stats: StorageStats::default() }
    }

    fn get(&self, path: &TablePath) -> Result<&Bytes> {
        self.files.0.get(path.as_str()).ok_or_else(|| Error::not_found(path.as_str()))
    }
}

impl Storage for Memory {
    fn uri(&self) -> &str {
        "memory:"
    }

    fn read(&self, path: &TablePath, limit: u64) -> Result<Bytes> {
        let bytes = self.get(path)?;
        if bytes.len() as u64 > limit { Err(Error::corrupt("too long")) } else { Ok(bytes.clone()) }
    }

    fn read_range(&self, path: &TablePath, offset: u64, len: u64) -> Result<Bytes> {
        let bytes = self.get(path)?;
        let end = offset.checked_add(len).filter(|end| *end <= bytes.len() as u64);
        end.map(|end| bytes.slice(offset as usize..end as usize)).ok_or_else(|| Error::corrupt("shorter"))
    }

    fn stat(&self, path: &TablePath) -> Result<ObjectMeta> {
        self.get(path).map(|b| ObjectMeta { size: b.len() as u64, modified_ms: 0, etag: None })
    }

    fn stat_many(&self, dir: &TablePath, names: &[&str]) -> Vec<Result<ObjectMeta>> {
        names.iter().map(|name| self.stat(&dir.join(name)?)).collect()
    }

    fn list(&self, dir: &TablePath) -> Result<Vec<DirEntry>> {
        let prefix = if dir.is_root() { String::new() } else { format!("{dir}/") };
        let mut folders = BTreeSet::new();
        let mut entries = Vec::new();
        for (path, bytes) in self.files.0.range(prefix.clone()..) {
            let Some(rest) = path.strip_prefix(&prefix) else { break };
            match rest.split_once('/') {
                Some((folder, _)) => drop(folders.insert(folder.to_owned())),
                None => entries
                    .push(DirEntry { name: rest.to_owned(), kind: EntryKind::File { size: Some(bytes.len() as u64) } }),
            }
        }
        entries.extend(folders.into_iter().map(|name| DirEntry { name, kind: EntryKind::Dir }));
        if entries.is_empty() { Err(Error::not_found(dir.as_str())) } else { Ok(entries) }
    }

    fn is_object_store(&self) -> bool {
        false
    }

    fn list_flat(&self, _dir: &TablePath) -> Option<Result<Vec<(String, u64)>>> {
        None
    }

    fn open(&self, path: &TablePath, _expected_size: Option<u64>) -> Result<Arc<dyn RandomRead>> {
        Ok(Arc::new(InMemory(self.get(path)?.clone())))
    }

    fn local_path(&self, _path: &TablePath) -> Option<PathBuf> {
        None
    }

    fn rooted_at(&self, _dir: &TablePath) -> Result<Arc<dyn Storage>> {
        Err(Error::internal("not needed here"))
    }

    fn stats(&self) -> &StorageStats {
        &self.stats
    }
}

#[derive(Debug)]
struct InMemory(Bytes);

impl RandomRead for InMemory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, len: u32, done: ReadDone) {
        let start = offset.min(self.size()) as usize;
        let end = start.saturating_add(len as usize).min(self.0.len());
        done(Ok(self.0.slice(start..end)));
    }

    fn local_file(&self) -> Option<&File> {
        None
    }
}
