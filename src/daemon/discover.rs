//! Finding the tables of a warehouse: every directory with a `.hoodie` directory, none of them inside another.

use crate::error::{Error, Result};
use crate::storage::{EntryKind, Storage, TablePath};

/// Levels below the warehouse that are looked at.
const DEPTH_MAX: usize = 6;
/// Tables served by one mount.
const TABLES_MAX: usize = 10_000;
/// Directories looked at in one search.
const DIRECTORIES_MAX: usize = 100_000;

/// The tables found, and the directories that could not be looked at.
#[derive(Debug, Default)]
pub struct Found {
    /// Paths of tables below the warehouse, sorted.
    pub tables: Vec<TablePath>,
    /// What went wrong, directory by directory: tables below them are not known.
    pub errors: Vec<Error>,
}

/// Searches a warehouse. Fails only if the warehouse itself cannot be listed.
pub fn tables(storage: &dyn Storage) -> Result<Found> {
    let mut found = Found::default();
    let mut pending = vec![(TablePath::root(), 0)];
    let mut seen = 0;
    while let Some((dir, depth)) = pending.pop() {
        seen += 1;
        if seen > DIRECTORIES_MAX || found.tables.len() >= TABLES_MAX {
            found.errors.push(
                Error::invalid(format!("{}: the search for tables stopped after {seen} directories", storage.uri()))
                    .with_hint("mount a smaller part of it"),
            );
            break;
        }
        let entries = match storage.list(&dir) {
            Ok(entries) => entries,
            Err(error) if dir.is_root() => return Err(error),
            Err(error) => {
                found.errors.push(error);
                continue;
            }
        };
        let is_dir = |kind: &EntryKind| matches!(kind, EntryKind::Dir);
        if entries.iter().any(|e| e.name == ".hoodie" && is_dir(&e.kind)) {
            if dir.is_root() {
                return Err(Error::invalid(format!("{} is a table, not a warehouse", storage.uri()))
                    .with_hint("mount it without --warehouse"));
            }
            found.tables.push(dir);
            continue;
        }
        let below = entries.iter().filter(|e| is_dir(&e.kind) && !e.name.starts_with(['.', '_']));
        for entry in below.filter(|_| depth < DEPTH_MAX) {
            pending.push((dir.join(&entry.name)?, depth + 1));
        }
    }
    found.tables.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LocalStorage;

    #[test]
    fn tables_are_found_at_any_depth_and_not_inside_each_other() {
        let dir = tempfile::tempdir().unwrap();
        for path in
            ["t1/.hoodie", "db/t2/.hoodie", "db/t2/p=1/inner/.hoodie", "_tmp/t3/.hoodie", "a/b/c/d/e/f/g/.hoodie"]
        {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        std::fs::write(dir.path().join("db/.hoodie"), "a file").unwrap();
        let storage = LocalStorage::new(dir.path()).unwrap();
        let found = tables(&storage).unwrap();
        let names: Vec<_> = found.tables.iter().map(TablePath::as_str).collect();
        assert_eq!(names, ["db/t2", "t1"]);
        assert!(found.errors.is_empty());
        let inside = LocalStorage::new(&dir.path().join("t1")).unwrap();
        assert!(tables(&inside).unwrap_err().hint().unwrap().contains("--warehouse"));
    }
}
