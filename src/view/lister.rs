//! [`StorageLister`]: partitions and files as the store itself lists them.
//!
//! A folder with a file whose name begins with `.hoodie_partition_metadata` is a partition, and is not looked into further; other
//! folders are. Only the base is looked into either way, as Hudi does. Without such a file a folder is no partition, whatever
//! it holds. A table that is not partitioned has the base as its only partition, with or without the file.
//! Format: docs/format.md, "Partitions".

use super::{ListedFile, Lister};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::{BaseName, PARTITION_METADATA};
use crate::format::properties::TableConfig;
use crate::storage::{DirEntry, EntryKind, ObjectMeta, Storage, TablePath};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that walk a local tree at once.
const THREADS: usize = 4;
/// Deepest folder looked into: a path of that many components is no partition.
const DEPTH_MAX: usize = 64;
/// Folders that are no partitions looked into, at most: two links to a folder above them already make a tree without end.
const FOLDERS_MAX: usize = 1_000_000;
/// Files that are looked at in a folder above partitions.
const LOOKS_MAX: usize = 10_000;
const META_FOLDER: &str = ".hoodie";

/// Lists by asking the store.
#[derive(Debug)]
pub struct StorageLister {
    storage: Arc<dyn Storage>,
    root: TablePath,
    partitioned: bool,
}

impl StorageLister {
    /// A lister of the table at `root`.
    pub fn new(storage: Arc<dyn Storage>, root: TablePath, config: &TableConfig) -> StorageLister {
        StorageLister { storage, root, partitioned: !config.partition_fields().is_empty() }
    }

    /// True if the folder has a partition metafile.
    pub fn has_partition(&self, partition: &TablePath) -> Result<bool> {
        match self.storage.list(&self.root.join(partition.as_str())?) {
            Ok(entries) => Ok(entries.iter().any(is_mark)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The partitions that one flat listing tells; `None` where the store has none to offer.
    fn partitions_of_flat_listing(&self) -> Option<Result<BTreeSet<String>>> {
        let files = match self.storage.list_flat(&self.root)? {
            Ok(files) => files,
            Err(e) => return Some(Err(e)),
        };
        let marked = files.iter().filter_map(|(path, _)| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let hidden = folder.split('/').any(|component| component == META_FOLDER);
            (!hidden && name.starts_with(PARTITION_METADATA)).then_some(folder)
        });
        let mut partitions: BTreeSet<&str> = marked.collect();
        // A folder below a partition belongs to it; only the base may hold partitions and be one.
        let outer = partitions.clone();
        partitions.retain(|p| {
            let mut above = p.rsplit_once('/').map(|(head, _)| head);
            while let Some(folder) = above {
                if outer.contains(folder) {
                    return false;
                }
                above = folder.rsplit_once('/').map(|(head, _)| head);
            }
            true
        });
        Some(Ok(partitions.into_iter().map(str::to_owned).collect()))
    }
}

impl Lister for StorageLister {
    fn partitions(&self) -> Result<Vec<TablePath>> {
        let mut found = match self.partitions_of_flat_listing() {
            Some(found) => found?,
            None => walk(&*self.storage, &self.root, FOLDERS_MAX)?,
        };
        if found.is_empty() && !self.partitioned {
            found.insert(String::new());
        }
        found.iter().map(|p| TablePath::parse(p)).collect()
    }

    fn files(&self, partition: &TablePath) -> Result<Vec<ListedFile>> {
        let entries = match self.storage.list(&self.root.join(partition.as_str())?) {
            Ok(entries) => entries,
            // A partition that was known may have been dropped meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let files = entries.into_iter().filter_map(|e| match e.kind {
            EntryKind::File { size } => Some(ListedFile { name: e.name, size }),
            // A folder in the place of a base file is listed, so that the look at its size says what is wrong.
            EntryKind::Dir if BaseName::parse(&e.name).is_some() => Some(ListedFile { name: e.name, size: None }),
            EntryKind::Dir => None,
        });
        Ok(files.collect())
    }

    fn name(&self) -> &'static str {
        "storage"
    }

    fn is_record(&self) -> bool {
        false
    }
}

/// Folders that wait to be looked into, and what was found.
#[derive(Default)]
struct Walk {
    waiting: Vec<TablePath>,
    busy: usize,
    partitions: BTreeSet<String>,
    /// Folders that turned out to be no partitions.
    folders: usize,
    failed: Option<Error>,
}

/// Looks into folders from the root down, several at once.
fn walk(storage: &dyn Storage, root: &TablePath, folders_max: usize) -> Result<BTreeSet<String>> {
    let state = Mutex::new(Walk { waiting: vec![root.clone()], ..Walk::default() });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| work(storage, root, folders_max, &state, &changed));
        }
        work(storage, root, folders_max, &state, &changed);
    });
    let walk = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match walk.failed {
        Some(e) => Err(e),
        None => Ok(walk.partitions),
    }
}

fn work(storage: &dyn Storage, root: &TablePath, folders_max: usize, state: &Mutex<Walk>, changed: &Condvar) {
    let mut guard = lock(state);
    loop {
        if guard.failed.is_some() || (guard.waiting.is_empty() && guard.busy == 0) {
            changed.notify_all();
            return;
        }
        let Some(folder) = guard.waiting.pop() else {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        guard.busy += 1;
        drop(guard);
        let looked = look_into(storage, root, &folder);
        guard = lock(state);
        guard.busy -= 1;
        match looked {
            Ok((partition, below)) => {
                guard.folders += usize::from(partition.is_none());
                guard.partitions.extend(partition);
                guard.waiting.extend(below);
                if guard.folders > folders_max {
                    guard.failed = Some(too_many(folders_max, &folder));
                }
            }
            Err(e) => guard.failed = Some(e),
        }
        changed.notify_all();
    }
}

fn too_many(folders_max: usize, last: &TablePath) -> Error {
    Error::unsupported(format!("more than {folders_max} folders without partition metadata, {last} the last of them"))
        .with_hint("look for links to a folder above them, or for a tree of other files below the table's base")
}

fn lock(state: &Mutex<Walk>) -> MutexGuard<'_, Walk> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of whatever kind: a folder of that name is damage, and must not hide the partition.
fn is_mark(entry: &DirEntry) -> bool {
    entry.name.starts_with(PARTITION_METADATA)
}

/// The folder's path below the root if it is a partition, and the folders to look into next.
fn look_into(storage: &dyn Storage, root: &TablePath, folder: &TablePath) -> Result<(Option<String>, Vec<TablePath>)> {
    let is_base = folder == root;
    let below_root = folder.as_str().strip_prefix(root.as_str()).unwrap_or(folder.as_str()).trim_start_matches('/');
    // One look at the usual name spares listing a folder that may hold thousands of files.
    if !is_base && storage.stat(&folder.join(PARTITION_METADATA)?).is_ok() {
        return Ok((Some(below_root.to_owned()), Vec::new()));
    }
    let entries = match storage.list(folder) {
        Ok(entries) => entries,
        // Dropped meanwhile.
        Err(e) if e.kind() == ErrorKind::NotFound && !is_base => return Ok((None, Vec::new())),
        // It may be a partition. As one it fails by itself and says why, and the others are listed.
        Err(e) if e.kind() == ErrorKind::Denied && !is_base => return Ok((Some(below_root.to_owned()), Vec::new())),
        Err(e) => return Err(e),
    };
    let partition = entries.iter().any(is_mark).then(|| below_root.to_owned());
    if (partition.is_some() && !is_base) || below_root.split('/').count() >= DEPTH_MAX {
        return Ok((partition, Vec::new()));
    }
    let folders = entries.iter().filter(|e| e.kind == EntryKind::Dir && e.name != META_FOLDER && !is_mark(e));
    let denied = if partition.is_none() { links_out(storage, folder, &entries) } else { Vec::new() };
    // A folder whose name cannot stand in a path cannot be a partition either.
    Ok((partition, folders.map(|e| &*e.name).chain(denied).filter_map(|n| folder.join(n).ok()).collect()))
}

/// Links that lead out of the table, as far as a local disk has any: each may have been a partition's folder. Above partitions
/// there is hardly a file, so that the looks cost nothing; a folder of very many files is not one of partitions.
fn links_out<'e>(storage: &dyn Storage, folder: &TablePath, entries: &'e [DirEntry]) -> Vec<&'e str> {
    let unknown = entries.iter().filter(|e| e.kind == EntryKind::File { size: None });
    let names: Vec<&str> = unknown.map(|e| &*e.name).take(LOOKS_MAX).collect();
    let metas = storage.stat_many(folder, &names);
    let denied = |meta: &Result<ObjectMeta>| meta.as_ref().is_err_and(|e| e.kind() == ErrorKind::Denied);
    names.into_iter().zip(&metas).filter(|(_, meta)| denied(meta)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LocalStorage;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_to_folders_above_end_the_walk() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/p")).unwrap();
        std::fs::write(dir.path().join("a/b/p").join(PARTITION_METADATA), b"").unwrap();
        let storage = LocalStorage::new(dir.path()).unwrap();
        assert_eq!(walk(&storage, &TablePath::root(), 500).unwrap().len(), 1);
        symlink("..", dir.path().join("a/b/up")).unwrap();
        symlink("..", dir.path().join("a/b/up2")).unwrap();
        let error = walk(&storage, &TablePath::root(), 500).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("more than 500 folders"), "{error}");
    }
}
