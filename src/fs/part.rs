//! [`Part`]: the files of one directory of a view, loaded when it is looked at, dropped when memory is short, and loaded again.
//!
//! A loaded list of files holds for every generation from the part's floor (the last one that changed it) to the present one, so a
//! commit costs nothing for the partitions that it does not touch. A list that a commit replaces is kept for a while for listings
//! that were begun with it. One thread loads a part; others that want it wait for that one. Nothing is locked meanwhile.

use super::errno::{Fault, Wait};
use super::ino::{Number, Seed};
use super::source::View;
use super::state::{Generation, ViewState, lock};
use crate::error::{Error, ErrorKind};
use crate::storage::TablePath;
use crate::telemetry::{Cache, EventCode, metric};
use crate::view::{FileRef, PartitionView};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Replaced lists that are kept for listings begun with them.
const RETIRED_MAX: usize = 4;
/// How long they are kept.
const RETIRED_AGE_MAX: Duration = Duration::from_secs(600);
/// How long a failure is answered again without another try.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(1);

/// The files of one directory.
pub struct Part {
    /// Unique in this process.
    pub id: u32,
    /// The view that it is part of.
    pub state: Arc<ViewState>,
    /// The directory.
    pub path: TablePath,
    /// The inode numbers of its files grow from this.
    pub seed: Seed,
    inner: Mutex<Inner>,
    ready: Condvar,
    used: AtomicU64,
}

#[derive(Default)]
struct Inner {
    floor: u64,
    /// The list, and the floor that it was loaded above.
    loaded: Option<(u64, Arc<Files>)>,
    retired: VecDeque<Retired>,
    loading: bool,
    failed: Option<(u64, Instant, Fault)>,
}

struct Retired {
    since: u64,
    until: u64,
    at: Instant,
    files: Arc<Files>,
}

/// A loaded list of files.
pub struct Files {
    /// The list.
    pub view: PartitionView,
    touched: AtomicBool,
    /// Indexes sorted by inode number; made when it is first needed.
    by_number: OnceLock<Box<[u32]>>,
}

impl Part {
    /// A part that is not yet loaded.
    pub fn new(id: u32, state: Arc<ViewState>, path: TablePath) -> Part {
        let seed = state.table.seed.child("f").child(path.as_str());
        let inner = Inner { floor: state.coming.load(SeqCst), ..Inner::default() };
        let (inner, ready, used) = (Mutex::new(inner), Condvar::new(), AtomicU64::new(0));
        Part { id, state, path, seed, inner, ready, used }
    }

    /// The files as of a generation.
    pub fn files(self: &Arc<Self>, generation: &Arc<Generation>, wait: Wait) -> Result<Arc<Files>, Fault> {
        self.used.store(self.state.budget.tick(), Relaxed);
        let mut inner = lock(&self.inner);
        loop {
            if let Some(files) = self.at_hand(&inner, generation.number) {
                return Ok(files);
            }
            if let Some((number, at, fault)) = inner.failed
                && number == generation.number
                && at.elapsed() < FAILURE_AGE_MAX
            {
                return Err(fault);
            }
            if wait == Wait::No {
                return Err(Fault::WouldBlock);
            }
            if !inner.loading {
                break;
            }
            inner = self.ready.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.loading = true;
        drop(inner);
        let loading = Loading(self);
        let loaded = self.load(generation);
        self.keep(generation, loaded, loading)
    }

    /// Like [`Part::files`] without an event or a wait for others: for loading ahead.
    pub fn load_quietly(self: &Arc<Self>, generation: &Arc<Generation>) -> Result<(), Fault> {
        if self.state.budget.is_full() || lock(&self.inner).loading {
            return Ok(());
        }
        self.files(generation, Wait::Yes).map(|_| ())
    }

    /// True the first time that a list is looked at after it was loaded.
    pub fn first_touch(&self, files: &Files) -> bool {
        !files.touched.swap(true, Relaxed)
    }

    /// The lists that commits replaced, newest first.
    pub fn retired(&self) -> Vec<Arc<Files>> {
        lock(&self.inner).retired.iter().rev().map(|r| r.files.clone()).collect()
    }

    /// True if the newest list is loaded.
    pub fn is_loaded(&self) -> bool {
        lock(&self.inner).loaded.is_some()
    }

    /// From generation `floor` on, what is loaded no longer holds.
    pub fn change(&self, floor: u64) {
        let mut inner = lock(&self.inner);
        inner.floor = floor;
        if let Some((since, files)) = inner.loaded.take() {
            let retired = Retired { since, until: floor.saturating_sub(1), at: Instant::now(), files };
            inner.retired.push_back(retired);
        }
        self.trim(&mut inner);
    }

    /// The inode number of a file, before it is known whether another file has it.
    pub fn number(&self, view: &dyn View, file: &FileRef<'_>) -> Number {
        // Marked names are unique by the stored name, which holds the instant.
        if file.is_external()
            && let Ok(stored) = view.stored_path(&self.path, file)
        {
            return self.seed.number(stored.file_name());
        }
        self.seed.number(file.name())
    }

    /// The index of the file with that number; `hint` is tried first.
    pub fn find(&self, view: &dyn View, files: &Files, number: Number, hint: u32) -> Option<u32> {
        let is = |index: u32| files.view.get(index).is_some_and(|f| self.number(view, &f).check == number.check);
        if files.view.get(hint).is_some_and(|f| self.number(view, &f) == number) {
            return Some(hint);
        }
        let ino = |index: &u32| files.view.get(*index).map_or(0, |f| self.number(view, &f).ino);
        let sorted = files.by_number.get_or_init(|| {
            let mut all: Vec<(u64, u32)> = (0..files.view.len() as u32).map(|i| (ino(&i), i)).collect();
            all.sort_unstable();
            all.into_iter().map(|(_, i)| i).collect()
        });
        let start = sorted.partition_point(|i| ino(i) < number.ino);
        let found = sorted.iter().skip(start).take_while(|i| ino(i) == number.ino).find(|i| is(**i)).copied();
        // A file whose number another one had moved elsewhere: so rare that a walk does.
        found.or_else(|| (0..files.view.len() as u32).find(|i| is(*i)))
    }

    fn at_hand(&self, inner: &Inner, number: u64) -> Option<Arc<Files>> {
        let floor = self.floor(inner);
        if number >= floor
            && let Some((since, files)) = &inner.loaded
            && *since == floor
        {
            return Some(files.clone());
        }
        inner.retired.iter().find(|r| r.since <= number && number <= r.until).map(|r| r.files.clone())
    }

    fn floor(&self, inner: &Inner) -> u64 {
        inner.floor.max(self.state.floor.load(Relaxed))
    }

    fn load(&self, generation: &Generation) -> Result<PartitionView, Error> {
        let started = Instant::now();
        let loaded = generation.view.partition(&self.path);
        metric::PARTITION_LOAD.observe((), started.elapsed());
        match loaded {
            // A partition that is gone has no files any more; one that is listed and cannot be found is damage.
            Err(e) if e.kind() == ErrorKind::NotFound && self.state.vanished(&self.path) => {
                match generation.loaded_tree().is_some_and(|tree| tree.is_partition(&self.path)) {
                    true => Err(e),
                    false => Ok(PartitionView::default()),
                }
            }
            other => other,
        }
    }

    fn keep(
        self: &Arc<Self>,
        generation: &Generation,
        loaded: Result<PartitionView, Error>,
        loading: Loading<'_>,
    ) -> Result<Arc<Files>, Fault> {
        let mut inner = lock(&self.inner);
        let view = match loaded {
            Ok(view) => view,
            Err(error) => {
                let fault = if error.kind() == ErrorKind::Denied { libc::EACCES } else { libc::EIO };
                inner.failed = Some((generation.number, Instant::now(), Fault::Errno(fault)));
                drop(inner);
                drop(loading);
                self.state.table.event(EventCode::PartitionFailed, &error).partition(self.path.as_str()).record();
                return Err(Fault::Errno(fault));
            }
        };
        let files = Arc::new(Files { view, touched: AtomicBool::new(false), by_number: OnceLock::new() });
        let floor = self.floor(&inner);
        inner.failed = None;
        self.state.budget.add(files.bytes());
        if generation.number >= floor {
            if let Some((_, older)) = inner.loaded.replace((floor, files.clone())) {
                self.state.budget.remove(older.bytes());
            }
        } else {
            // A commit came in between, or an old listing goes on: this list holds for that generation alone.
            let (since, until) = (generation.number, generation.number);
            inner.retired.push_back(Retired { since, until, at: Instant::now(), files: files.clone() });
            self.trim(&mut inner);
        }
        drop(inner);
        drop(loading);
        self.state.budget.register(self);
        Ok(files)
    }

    fn trim(&self, inner: &mut Inner) {
        while inner.retired.len() > RETIRED_MAX
            || inner.retired.front().is_some_and(|r| r.at.elapsed() > RETIRED_AGE_MAX)
        {
            if let Some(old) = inner.retired.pop_front() {
                self.state.budget.remove(old.files.bytes());
            }
        }
    }

    /// Drops what is loaded. It is loaded again when somebody looks.
    fn unload(&self) {
        let mut inner = lock(&self.inner);
        let dropped = inner
            .loaded
            .take()
            .map(|(_, f)| f)
            .into_iter()
            .chain(inner.retired.drain(..).map(|r| r.files).collect::<Vec<_>>());
        let bytes = dropped.map(|f| f.bytes()).sum();
        self.state.budget.remove(bytes);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.unload();
    }
}

/// Ends the loading, also when it panics.
struct Loading<'a>(&'a Part);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        lock(&self.0.inner).loading = false;
        self.0.ready.notify_all();
    }
}

impl Files {
    fn bytes(&self) -> u64 {
        (self.view.memory_bytes() + std::mem::size_of::<Files>()) as u64
    }

    /// The newest instant that a file of the list has.
    pub fn newest(&self) -> Option<crate::format::instant::InstantTime> {
        self.view.newest_instant().or_else(|| self.view.all().map(|f| f.instant()).max())
    }
}

/// What all loaded parts may take together.
pub struct Budget {
    target: u64,
    bytes: AtomicU64,
    clock: AtomicU64,
    loaded: Mutex<HashMap<u32, Weak<Part>>>,
}

impl Budget {
    /// A budget of that many bytes.
    pub fn new(target: u64) -> Arc<Budget> {
        Arc::new(Budget { target, bytes: AtomicU64::new(0), clock: AtomicU64::new(0), loaded: Mutex::default() })
    }

    /// Bytes taken now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Number of loaded parts.
    pub fn parts(&self) -> u64 {
        lock(&self.loaded).values().filter_map(Weak::upgrade).filter(|p| p.is_loaded()).count() as u64
    }

    /// True when loading ahead would push out what somebody uses.
    pub fn is_full(&self) -> bool {
        self.bytes() > self.target / 4 * 3
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn remove(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    fn register(&self, part: &Arc<Part>) {
        let mut parts: Vec<Arc<Part>> = {
            let mut loaded = lock(&self.loaded);
            loaded.insert(part.id, Arc::downgrade(part));
            if self.bytes() <= self.target {
                return;
            }
            loaded.drain().filter_map(|(_, p)| p.upgrade()).collect()
        };
        parts.sort_by_key(|p| p.used.load(Relaxed));
        let (mut kept, mut dropped) = (Vec::new(), 0);
        for part in parts {
            if self.bytes() > self.target / 4 * 3 {
                part.unload();
                dropped += 1;
            } else {
                kept.push((part.id, Arc::downgrade(&part)));
            }
        }
        metric::CACHE_EVICTIONS.add(Cache::Partition, dropped);
        lock(&self.loaded).extend(kept);
    }
}
