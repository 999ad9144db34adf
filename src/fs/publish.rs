//! A new generation, and what the kernel must forget.
//!
//! The order is what makes it right: changed parts are marked first (and parts that come up now begin with the new generation), then the one pointer is switched, then it is collected what the
//! kernel may know. A lookup that remembers an absent name and then still sees the old pointer is therefore collected; one
//! that sees the new pointer answers from it.

use super::node::{Dir, Place, ROOT};
use super::source::{Changed, Source, View};
use super::state::{ViewState, lock};
use super::table_fs::{Mounted, TableFs, Tables};
use super::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::TablePath;
use crate::telemetry::EventCode;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError};

/// Partitions that are loaded again at once after a commit changed them, because somebody had looked at them.
const RELOAD_MAX: usize = 2000;
/// A listing that was read within this time may still be on its way into the kernel's cache, milliseconds.
const RECENT_MS: u64 = 5000;

/// What the kernel must forget of one table after a change of the tree. Opaque: hand it to [`crate::fuse::Session::notify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the kernel goes on showing the old tree until it is told"]
pub struct Invalidation {
    /// The table; the root for what lies above all tables. Those of different tables may be told in any order.
    pub table: TablePath,
    /// Inodes whose attributes and listings or pages are to be forgotten.
    pub inodes: Vec<u64>,
    /// Names to forget: parent inode and name.
    pub entries: Vec<(u64, Box<str>)>,
    /// Those of `inodes` whose old listing may be on its way to the kernel: to be told again after it has arrived.
    pub in_flight: Vec<u64>,
}

impl Invalidation {
    /// True if nothing needs to be told.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.inodes.is_empty()
    }
}

impl TableFs {
    /// Switches a table (the root path where the mount is one table) to a newer view, for the whole tree at once.
    /// On an error the old generation stays. The caller hands the result to [`crate::fuse::Session::notify`].
    pub fn publish(&self, table: &TablePath, new: Arc<dyn View>) -> Result<Invalidation> {
        let _one_at_a_time = lock(&self.publishing);
        let Some(state) = self.serving(table) else {
            return Err(Error::not_found(format!("the mount has no table at {:?}", table.as_str())));
        };
        if state.pinned.is_some() {
            return Ok(Invalidation::default());
        }
        let old = state.generation();
        let changed = new.changed_since(&*old.view)?;
        let old_tree = old.loaded_tree();
        // Without a tree nobody has seen a partition.
        let new_tree = match old_tree {
            None => None,
            Some(tree) => {
                let partitions = new.partitions()?;
                let same = *partitions == **tree.partitions();
                Some(if same { tree.clone() } else { Arc::new(Tree::build(partitions)) })
            }
        };
        if let (Some(old_tree), Some(new_tree)) = (old_tree, &new_tree)
            && !Arc::ptr_eq(old_tree, new_tree)
        {
            state.unvanish(new_tree);
            state.vanish(old_tree.paths().filter(|p| !new_tree.contains(p)).cloned());
        }
        state.coming.store(old.number + 1, SeqCst);
        let reload = mark(&state, &changed, old.number + 1);
        self.recount(table, old.number + 1, if let Changed::Partitions(p) = &changed { Some(p) } else { None });
        let (_, generation) = state.switch(new, new_tree);
        // What status told a moment ago is no longer so.
        lock(&self.contents).clear();
        let told = self.collect(&state, &changed);
        for part in reload {
            let generation = generation.clone();
            self.workers.run_ahead(move || {
                let _ = part.load_quietly(&generation);
            });
        }
        Ok(told)
    }

    /// What the kernel may know of a table that has changed.
    fn collect(&self, state: &Arc<ViewState>, changed: &Changed) -> Invalidation {
        let mut told = Invalidation { table: state.table.path.clone(), ..Invalidation::default() };
        let touched = touched(changed);
        let recent = self.now_ms().saturating_sub(RECENT_MS);
        let mut dirs: Vec<Arc<Dir>> = Vec::new();
        for (ino, place) in lock(&self.nodes).places() {
            match place {
                Place::Dir(dir)
                    if Arc::ptr_eq(&dir.part.state, state)
                        && touched.as_ref().is_none_or(|t| t.contains(&dir.part.path)) =>
                {
                    dirs.push(dir.clone());
                }
                Place::Latest(s) | Place::Moments(s) | Place::Hudifs(Some(s)) if Arc::ptr_eq(s, state) => {
                    told.inodes.push(ino);
                }
                _ => {}
            }
        }
        for dir in dirs {
            told.inodes.push(dir.ino);
            if dir.read_ms.load(Relaxed) > recent {
                told.in_flight.push(dir.ino);
            }
            // The kernel asks again for all names that it took for absent: few, and cheaper than to find out which are new.
            let absent = std::mem::take(&mut *lock(&dir.absent));
            told.entries.extend(absent.into_iter().map(|name| (dir.ino, name)));
        }
        told
    }

    /// Shows a table at a path of a warehouse. `Invalid` where the mount is one table or the path lies above or below
    /// another table's; `AlreadyExists` at another table's own path, unless that one had failed.
    pub fn add_table(&self, path: &TablePath, source: Arc<dyn Source>) -> Result<Invalidation> {
        let _one_at_a_time = lock(&self.publishing);
        self.check_free(path)?;
        let state = self.root_state(path.clone(), source)?;
        Ok(self.change_tables(path, |tables| {
            tables.insert(path.clone(), Mounted::Serving(state));
        }))
    }

    /// Shows a directory that answers EIO for a table that cannot be opened, so that its absence is not mistaken for emptiness.
    pub fn add_failed_table(&self, path: &TablePath, error: Error) -> Result<Invalidation> {
        let _one_at_a_time = lock(&self.publishing);
        self.check_free(path)?;
        crate::telemetry::Event::from_error(EventCode::TableFailed, &error).table(path.as_str()).record();
        Ok(self.change_tables(path, |tables| {
            tables.insert(path.clone(), Mounted::Failed);
        }))
    }

    /// Takes a table out of a warehouse. Open files stay readable.
    pub fn remove_table(&self, path: &TablePath) -> Invalidation {
        let _one_at_a_time = lock(&self.publishing);
        let state = self.serving(path);
        let told = self.change_tables(path, |tables| {
            tables.remove(path);
        });
        lock(&self.totals).remove(path);
        if let Some(state) = state {
            state.clear();
        }
        told
    }

    fn check_free(&self, path: &TablePath) -> Result<()> {
        if self.single || path.is_root() {
            return Err(Error::invalid("a mount of one table takes no other"));
        }
        if path.as_str().split('/').next() == Some(".hudifs") {
            return Err(Error::invalid(format!("a table cannot lie at {path}")));
        }
        let tables = self.tables();
        if let Some(Mounted::Serving(_)) = tables.get(path) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("the mount already has a table at {path}")));
        }
        let nested =
            |a: &TablePath, b: &TablePath| b.as_str().strip_prefix(a.as_str()).is_some_and(|r| r.starts_with('/'));
        match tables.keys().find(|t| nested(t, path) || nested(path, t)) {
            Some(other) => Err(Error::invalid(format!("table {path} and table {other} lie one in the other"))),
            None => Ok(()),
        }
    }

    /// Changes the table list, and tells what the kernel knows of it: the directories above the path, and what was at it.
    fn change_tables(&self, path: &TablePath, change: impl FnOnce(&mut Tables)) -> Invalidation {
        {
            let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
            let mut new = Tables::clone(&tables);
            change(&mut new);
            *tables = Arc::new(new);
        }
        let mut told = Invalidation::default();
        let above: BTreeSet<TablePath> =
            std::iter::successors(Some(path.parent()), |p| (!p.is_root()).then(|| p.parent())).collect();
        for (ino, place) in lock(&self.nodes).places() {
            if let Place::Namespace(at) = place
                && above.contains(at)
            {
                told.inodes.push(ino);
                let rest = path.as_str().strip_prefix(at.as_str()).unwrap_or_default().trim_start_matches('/');
                told.entries.push((ino, rest.split('/').next().unwrap_or_default().into()));
            }
        }
        if !told.inodes.contains(&ROOT) {
            told.inodes.push(ROOT);
        }
        told
    }
}

/// Marks what a commit changed; returns the parts that somebody had looked at.
fn mark(state: &Arc<ViewState>, changed: &Changed, floor: u64) -> Vec<Arc<super::part::Part>> {
    let parts = match changed {
        Changed::Everything => {
            state.floor.store(floor, Relaxed);
            state.known_parts()
        }
        Changed::Partitions(paths) => paths.iter().filter_map(|p| state.known_part(p)).collect(),
    };
    let mut reload = Vec::new();
    for part in parts {
        if part.is_loaded() && reload.len() < RELOAD_MAX {
            reload.push(part.clone());
        }
        part.change(floor);
    }
    reload
}

/// The changed partitions and every directory above one, whose time changes with it; `None` for all.
fn touched(changed: &Changed) -> Option<HashSet<TablePath>> {
    let Changed::Partitions(paths) = changed else { return None };
    let mut touched = HashSet::from([TablePath::root()]);
    for path in paths {
        let mut path = path.clone();
        while !path.is_root() && touched.insert(path.clone()) {
            path = path.parent();
        }
    }
    Some(touched)
}
