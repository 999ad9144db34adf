//! [`ViewState`]: what a table's root shows: a sequence of generations, or one view as of an instant.
//!
//! A [`Generation`] is a view with a number. Numbers grow by one and go into directory offsets, so a listing that was begun in an older
//! generation goes on in it: the last few are kept, older ones are asked for again by their instant.

use super::errno::{Fault, Wait, errno};
use super::ino::Seed;
use super::part::{Budget, Part};
use super::source::{Source, View};
use super::tree::Tree;
use super::workers::Workers;
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::storage::TablePath;
use crate::telemetry::{Event, EventCode};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

/// Older generations that are kept whole.
const HISTORY_MAX: usize = 16;
/// Older generations whose instants are kept.
const INSTANTS_MAX: usize = 100_000;
/// Vanished partitions that can still be looked up.
const VANISHED_MAX: usize = 100_000;

/// A lock whose holders cannot leave it half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A table of the mount.
pub struct Table {
    /// Its path in the mount; empty where the mount is one table.
    pub path: TablePath,
    /// The inode numbers of everything in it grow from this.
    pub seed: Seed,
    /// Where its views come from.
    pub source: Arc<dyn Source>,
    /// True where the store is the local disk.
    pub local: bool,
    /// Views as of instants that somebody uses.
    pub moments: Mutex<HashMap<InstantTime, Weak<ViewState>>>,
}

impl Table {
    /// A table at a path of the mount.
    pub fn new(path: TablePath, source: Arc<dyn Source>) -> Table {
        let local = source.storage().local_path(&TablePath::root()).is_some();
        // The path counts too: a warehouse may show one table at two places, and a directory can be at one only.
        let seed = if path.is_root() { Seed::new(source.uri()) } else { Seed::new(source.uri()).child(path.as_str()) };
        Table { path, seed, source, local, moments: Mutex::default() }
    }

    /// An event about this table.
    pub fn event(&self, code: EventCode, error: &Error) -> Event {
        let name = if self.path.is_root() { self.source.uri() } else { self.path.as_str() };
        Event::from_error(code, error).table(name)
    }
}

/// A view with a number.
pub struct Generation {
    /// Grows by one with each published view.
    pub number: u64,
    /// The view.
    pub view: Arc<dyn View>,
    tree: OnceLock<Arc<Tree>>,
    tree_loading: Mutex<()>,
}

impl Generation {
    fn new(number: u64, view: Arc<dyn View>, tree: Option<Arc<Tree>>) -> Arc<Generation> {
        let cell = OnceLock::new();
        if let Some(tree) = tree {
            // The cell is new, so it is empty.
            let _ = cell.set(tree);
        }
        Arc::new(Generation { number, view, tree: cell, tree_loading: Mutex::default() })
    }

    /// The directories, if they were asked for before.
    pub fn loaded_tree(&self) -> Option<&Arc<Tree>> {
        self.tree.get()
    }

    /// The directories.
    pub fn tree(&self, table: &Table, wait: Wait) -> Result<&Arc<Tree>, Fault> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        if wait == Wait::No {
            return Err(Fault::WouldBlock);
        }
        let _one_at_a_time = lock(&self.tree_loading);
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let partitions = self.view.partitions().map_err(|error| {
            table.event(EventCode::TableFailed, &error).record();
            match errno(&error) {
                libc::ENOENT => Fault::IO,
                other => Fault::Errno(other),
            }
        })?;
        Ok(self.tree.get_or_init(|| Arc::new(Tree::build(partitions))))
    }
}

/// What a root shows.
pub struct ViewState {
    /// The table.
    pub table: Arc<Table>,
    /// The instant, for a view that never changes.
    pub pinned: Option<InstantTime>,
    current: RwLock<Arc<Generation>>,
    parts: Mutex<HashMap<TablePath, Arc<Part>>>,
    past: Mutex<Past>,
    /// Every part is taken as changed by this generation.
    pub floor: AtomicU64,
    /// The newest generation, or the one that is being published: parts that come up meanwhile begin with it, because the
    /// publisher marks only those that it finds.
    pub coming: AtomicU64,
    /// What loaded parts may take.
    pub budget: Arc<Budget>,
    /// Detects walks.
    pub walk: Mutex<Walk>,
    /// When it was last used, for a view that never changes.
    used: Mutex<Instant>,
}

#[derive(Default)]
struct Past {
    generations: VecDeque<Arc<Generation>>,
    instants: VecDeque<Replaced>,
    vanished: HashMap<TablePath, Vanished>,
}

/// A directory that is no longer listed.
struct Vanished {
    used: Instant,
    /// The kernel was told to forget it since.
    told: bool,
}

/// A generation that was replaced.
struct Replaced {
    number: u64,
    instant: Option<InstantTime>,
    at: Instant,
}

/// How far a walk through the partitions has come.
#[derive(Debug, Default)]
pub struct Walk {
    /// The partition that was last looked at for the first time.
    pub last: Option<usize>,
    /// How many in a row came in order.
    pub run: usize,
    /// Partitions below are loaded or about to be.
    pub ahead: usize,
}

impl ViewState {
    /// A root that shows `view`: for ever where `pinned`, else until the next one is published.
    pub fn new(
        table: Arc<Table>,
        view: Arc<dyn View>,
        pinned: Option<InstantTime>,
        budget: Arc<Budget>,
    ) -> Arc<ViewState> {
        Arc::new(ViewState {
            table,
            pinned,
            current: RwLock::new(Generation::new(1, view, None)),
            parts: Mutex::default(),
            past: Mutex::default(),
            floor: AtomicU64::new(1),
            coming: AtomicU64::new(1),
            budget,
            walk: Mutex::default(),
            used: Mutex::new(Instant::now()),
        })
    }

    /// The present generation.
    pub fn generation(&self) -> Arc<Generation> {
        if self.pinned.is_some() {
            self.touch();
        }
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An earlier generation, or the present one.
    pub fn generation_at(&self, number: u64, wait: Wait) -> Result<Arc<Generation>, Fault> {
        let current = self.generation();
        if number == current.number {
            return Ok(current);
        }
        let instant = {
            let past = lock(&self.past);
            if let Some(found) = past.generations.iter().find(|g| g.number == number) {
                return Ok(found.clone());
            }
            past.instants.iter().find(|r| r.number == number).and_then(|r| r.instant)
        };
        let Some(instant) = instant else { return Err(Fault::STALE) };
        if wait == Wait::No {
            return Err(Fault::WouldBlock);
        }
        let view = self.table.source.as_of(instant.as_str()).map_err(|error| {
            self.table.event(EventCode::ViewFailed, &error).record();
            Fault::STALE
        })?;
        Ok(Generation::new(number, view, None))
    }

    /// Switches to a newer view; returns the generation before and the new one. `tree` where the directories are known.
    /// The caller publishes one view at a time, and has marked the changed parts before.
    pub fn switch(&self, view: Arc<dyn View>, tree: Option<Arc<Tree>>) -> (Arc<Generation>, Arc<Generation>) {
        let old = self.generation();
        let new = Generation::new(old.number + 1, view, tree);
        // The old one can be found again before it is replaced: a listing goes on at any moment.
        let mut past = lock(&self.past);
        past.instants.push_back(Replaced { number: old.number, instant: old.view.instant(), at: Instant::now() });
        past.generations.push_back(old.clone());
        while past.generations.len() > HISTORY_MAX {
            past.generations.pop_front();
        }
        while past.instants.len() > INSTANTS_MAX {
            past.instants.pop_front();
        }
        drop(past);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        (old, new)
    }

    /// Instants of the generations that were replaced within `age`.
    pub fn replaced_within(&self, age: Duration) -> Vec<InstantTime> {
        let past = lock(&self.past);
        past.instants.iter().rev().take_while(|r| r.at.elapsed() <= age).filter_map(|r| r.instant).collect()
    }

    /// Remembers directories that are no longer listed, so that names which were listed can still be opened.
    pub fn vanish(&self, paths: impl IntoIterator<Item = TablePath>) {
        let mut past = lock(&self.past);
        for path in paths {
            if past.vanished.len() < VANISHED_MAX {
                past.vanished.insert(path, Vanished { used: Instant::now(), told: false });
            }
        }
    }

    /// Forgets that directories had vanished: they are listed again.
    pub fn unvanish(&self, tree: &Tree) {
        lock(&self.past).vanished.retain(|path, _| !tree.contains(path));
    }

    /// True for a directory that an earlier generation listed.
    pub fn vanished(&self, path: &TablePath) -> bool {
        lock(&self.past).vanished.contains_key(path)
    }

    /// True if any directory has vanished that can still be looked up.
    pub fn has_vanished(&self) -> bool {
        !lock(&self.past).vanished.is_empty()
    }

    /// The same for somebody who looks it up: it stays for a while.
    pub fn look_at_vanished(&self, path: &TablePath) -> bool {
        let mut past = lock(&self.past);
        let Some(vanished) = past.vanished.get_mut(path) else { return false };
        *vanished = Vanished { used: Instant::now(), told: false };
        true
    }

    /// Vanished directories that nobody has looked up for `age`. Those of which the kernel still knows are returned, to be
    /// forgotten by it; the others are gone for good, with their files.
    pub fn expire_vanished(&self, age: Duration, kernel_knows: impl Fn(&TablePath) -> bool) -> Vec<TablePath> {
        let mut past = lock(&self.past);
        let (mut to_tell, mut gone) = (Vec::new(), Vec::new());
        for (path, vanished) in past.vanished.iter_mut().filter(|(_, v)| v.told || v.used.elapsed() >= age) {
            match kernel_knows(path) {
                false => gone.push(path.clone()),
                // Somebody holds on to it: asked again when as much time has passed once more.
                true if vanished.told && vanished.used.elapsed() < age => {}
                true => {
                    *vanished = Vanished { used: Instant::now(), told: true };
                    to_tell.push(path.clone());
                }
            }
        }
        for path in &gone {
            past.vanished.remove(path);
        }
        drop(past);
        gone.iter().for_each(|path| self.forget_part(path));
        to_tell
    }

    /// A view that never changes is in use.
    pub fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// How long nobody has used a view that never changes.
    pub fn idle(&self) -> Duration {
        lock(&self.used).elapsed()
    }

    /// The part of a directory.
    pub fn part(self: &Arc<Self>, path: &TablePath) -> Arc<Part> {
        static LAST_ID: AtomicU32 = AtomicU32::new(0);
        let mut parts = lock(&self.parts);
        if let Some(part) = parts.get(path) {
            return part.clone();
        }
        let part = Arc::new(Part::new(LAST_ID.fetch_add(1, Relaxed) + 1, self.clone(), path.clone()));
        parts.insert(path.clone(), part.clone());
        part
    }

    /// The part of a directory that was looked at before.
    pub fn known_part(&self, path: &TablePath) -> Option<Arc<Part>> {
        lock(&self.parts).get(path).cloned()
    }

    /// All parts that were looked at.
    pub fn known_parts(&self) -> Vec<Arc<Part>> {
        lock(&self.parts).values().cloned().collect()
    }

    /// Breaks the circle of parts and state when the root is taken away.
    pub fn clear(&self) {
        lock(&self.parts).clear();
    }

    /// Drops the parts of a view as of an instant that nobody refers to: they hold the state as it holds them.
    pub fn free_parts(&self) {
        // Whoever takes a part out takes the lock first, so a part that only the map has stays that way meanwhile.
        let mut parts = lock(&self.parts);
        let freed: Vec<_> = parts.extract_if(|_, part| Arc::strong_count(part) == 1).collect();
        drop(parts);
        drop(freed);
    }

    /// Drops a part that nothing refers to; views as of instants come and go.
    pub fn forget_part(&self, path: &TablePath) {
        lock(&self.parts).remove(path);
    }
}

/// Loads partitions that a walk is about to reach. Called when a partition is looked at for the first time since it was loaded.
pub fn load_ahead(part: &Arc<Part>, generation: &Arc<Generation>, workers: &Arc<Workers>) {
    let Some(tree) = generation.loaded_tree() else { return };
    let partitions = tree.partitions().clone();
    let Ok(at) = partitions.binary_search(&part.path) else { return };
    let span = if part.state.table.local { 64 } else { 256 };
    let range = {
        let mut walk = lock(&part.state.walk);
        match walk.last {
            Some(last) if last == at => return,
            Some(last) if last < at && at - last <= 2 => walk.run += 1,
            _ => *walk = Walk { last: None, run: 0, ahead: at + 1 },
        }
        walk.last = Some(at);
        // Two in a row may be chance.
        if walk.run < 2 {
            return;
        }
        let end = (at + 1 + (walk.run * 4).min(span)).min(partitions.len());
        let start = walk.ahead.max(at + 1);
        // Topped up in steps, not one by one.
        if start >= end || (start > at + 1 && end - start < span / 8 && end < partitions.len()) {
            return;
        }
        walk.ahead = end;
        start..end
    };
    for path in partitions.get(range).unwrap_or_default() {
        let (state, generation, path, weak) =
            (part.state.clone(), generation.clone(), path.clone(), Arc::downgrade(workers));
        workers.run_ahead(move || {
            if weak.upgrade().is_some() && state.generation().number == generation.number {
                let _ = state.part(&path).load_quietly(&generation);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Changed;
    use super::*;
    use crate::storage::{LocalStorage, Storage};
    use crate::view::{FileRef, NewFile, PartitionView};
    use std::sync::atomic::Ordering::SeqCst;

    /// A table whose views have one partition with one file, named after the view.
    struct One(Arc<dyn Storage>);
    struct OneView(&'static str);

    impl Source for One {
        fn uri(&self) -> &str {
            "file:///one"
        }
        fn current(&self) -> Arc<dyn View> {
            Arc::new(OneView("first"))
        }
        fn as_of(&self, moment: &str) -> Result<Arc<dyn View>> {
            Err(Error::not_found(moment))
        }
        fn storage(&self) -> &Arc<dyn Storage> {
            &self.0
        }
    }

    impl View for OneView {
        fn instant(&self) -> Option<InstantTime> {
            None
        }
        fn instants(&self) -> Vec<InstantTime> {
            Vec::new()
        }
        fn partitions(&self) -> Result<Arc<[TablePath]>> {
            Ok([TablePath::root()].into())
        }
        fn partition(&self, _: &TablePath) -> Result<PartitionView> {
            let instant = InstantTime::zero();
            let file = NewFile { name: self.0, file_id: self.0, instant, size: 1, listed: true, external: false };
            Ok(PartitionView::build([file], 0))
        }
        fn changed_since(&self, _: &dyn View) -> Result<Changed> {
            Ok(Changed::Everything)
        }
        fn instant_ms(&self, _: &InstantTime) -> i64 {
            0
        }
        fn stored_path(&self, _: &TablePath, file: &FileRef<'_>) -> Result<TablePath> {
            TablePath::parse(file.name())
        }
    }

    /// Between the marking of changed parts and the switch, a part that nobody had looked at before is loaded.
    #[test]
    fn a_part_that_comes_up_during_a_publication_does_not_outlive_it() {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(dir.path()).unwrap());
        let source = Arc::new(One(storage));
        let view = source.current();
        let table = Arc::new(Table::new(TablePath::root(), source));
        let state = ViewState::new(table, view, None, Budget::new(1 << 20));
        state.coming.store(2, SeqCst);
        let part = state.part(&TablePath::root());
        let old = state.generation();
        assert!(part.files(&old, Wait::Yes).unwrap().view.find("first").is_some());
        let (_, new) = state.switch(Arc::new(OneView("second")), None);
        assert!(part.files(&new, Wait::Yes).unwrap().view.find("second").is_some());
        assert!(part.files(&old, Wait::No).unwrap().view.find("first").is_some(), "for listings that go on");
    }
}
