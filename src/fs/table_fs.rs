//! [`TableFs`]: the tree of one table or of a warehouse. The operations on it are in the files beside this one.

use super::node::{Dir, Nodes, Place, ROOT, Scope};
use super::open::Opens;
use super::part::{Budget, Files, Part};
use super::state::{Generation, Table, ViewState, load_ahead, lock};
use super::statfs::Totals;
use super::workers::Workers;
use super::{Attr, Fault, Host, Invalidation, Kind, Pins, Source, VirtualFile, Wait};
use crate::error::{Error, Result};
use crate::storage::TablePath;
use crate::telemetry::metric;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How the tree looks, and what it may use.
#[derive(Clone, Debug)]
pub struct FsOptions {
    /// Owner of every node.
    pub uid: u32,
    /// Group of every node.
    pub gid: u32,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub dir_mode: u16,
    /// How long the kernel may keep names and attributes; changes are announced to it whatever the value.
    pub ttl: Duration,
    /// Bytes that loaded partitions may take before the least recently used are dropped.
    pub memory_target: u64,
    /// What nobody has used for so long is let go: views as of an instant, and directories that are no longer listed.
    pub idle_max: Duration,
    /// Shows the tables' roots as of this moment instead of the newest commit.
    pub as_of: Option<String>,
}

impl Default for FsOptions {
    /// The caller's uid and gid, 0644 and 0755 (so that copies can be written to; the tree itself cannot), an hour, 256 MiB.
    fn default() -> Self {
        // SAFETY: both calls have no preconditions and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        FsOptions {
            uid,
            gid,
            file_mode: 0o644,
            dir_mode: 0o755,
            ttl: Duration::from_secs(3600),
            memory_target: 256 << 20,
            idle_max: Duration::from_secs(900),
            as_of: None,
        }
    }
}

/// Numbers for status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    /// Inodes that the kernel knows.
    pub inodes: u64,
    /// Open files.
    pub open_files: u64,
    /// Partitions that are loaded.
    pub partitions_loaded: u64,
    /// Bytes that they take.
    pub partition_bytes: u64,
    /// Views as of an instant that are in memory.
    pub moments: u64,
}

/// What lies at a table's path.
#[derive(Clone)]
pub(super) enum Mounted {
    Serving(Arc<ViewState>),
    Failed,
}

/// The tables of the mount by path; the root path alone where the mount is one table.
pub(super) type Tables = BTreeMap<TablePath, Mounted>;

/// What virtual files held when they were last made; those of the whole mount have no table.
type Contents = HashMap<(Option<TablePath>, VirtualFile), (Instant, Arc<[u8]>)>;

/// The tree of one table or of a warehouse.
pub struct TableFs {
    pub(super) options: FsOptions,
    pub(super) host: Arc<dyn Host>,
    pub(super) nodes: Mutex<Nodes>,
    pub(super) tables: RwLock<Arc<Tables>>,
    pub(super) single: bool,
    pub(super) workers: Arc<Workers>,
    pub(super) budget: Arc<Budget>,
    pub(super) opens: Opens,
    pub(super) totals: Mutex<HashMap<TablePath, Arc<Totals>>>,
    pub(super) contents: Mutex<Contents>,
    pub(super) old_sizes: Mutex<HashMap<(u64, u32), u64>>,
    pub(super) publishing: Mutex<()>,
    pub(super) started: Instant,
    pins: Pins,
}

impl TableFs {
    /// A tree whose root is the root of one table.
    pub fn single(source: Arc<dyn Source>, host: Arc<dyn Host>, options: FsOptions) -> Result<Arc<TableFs>> {
        let fs = Self::new(host, options, true, source.storage().local_path(&TablePath::root()).is_some());
        let state = fs.root_state(TablePath::root(), source)?;
        let dir = fs.root_dir(&state, ROOT, ROOT);
        lock(&fs.nodes).set_root(Place::Dir(dir));
        *fs.tables.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new([(TablePath::root(), Mounted::Serving(state))].into());
        Ok(Arc::new(fs))
    }

    /// A tree without tables; [`TableFs::add_table`] gives it some.
    pub fn warehouse(host: Arc<dyn Host>, options: FsOptions) -> Arc<TableFs> {
        let fs = Self::new(host, options, false, false);
        lock(&fs.nodes).set_root(Place::Namespace(TablePath::root()));
        Arc::new(fs)
    }

    fn new(host: Arc<dyn Host>, options: FsOptions, single: bool, local: bool) -> TableFs {
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        // Remote stores are waited for, local disks keep a core busy.
        let threads = if local { cpus.clamp(4, 8) } else { 32 };
        let budget = Budget::new(options.memory_target);
        TableFs {
            options,
            host,
            nodes: Mutex::default(),
            tables: RwLock::default(),
            single,
            workers: Arc::new(Workers::new(threads)),
            budget,
            opens: Opens::default(),
            totals: Mutex::default(),
            contents: Mutex::default(),
            old_sizes: Mutex::default(),
            publishing: Mutex::default(),
            started: Instant::now(),
            pins: Pins::default(),
        }
    }

    /// The pins of all tables.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// How the tree looks.
    pub fn options(&self) -> &FsOptions {
        &self.options
    }

    /// The threads that may wait for the store.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// True if every table lies on the local disk.
    pub fn is_local(&self) -> bool {
        self.tables().values().all(|m| match m {
            Mounted::Serving(state) => state.table.local,
            Mounted::Failed => true,
        })
    }

    /// Local folders that hold the tables.
    pub fn local_roots(&self) -> Vec<std::path::PathBuf> {
        let root = TablePath::root();
        let tables = self.tables();
        let states = tables.values().filter_map(|m| if let Mounted::Serving(s) = m { Some(s) } else { None });
        states.filter_map(|s| s.table.source.storage().local_path(&root)).collect()
    }

    /// Numbers for status.
    pub fn stats(&self) -> FsStats {
        FsStats {
            inodes: lock(&self.nodes).len() as u64,
            open_files: self.opens.len() as u64,
            partitions_loaded: self.budget.parts(),
            partition_bytes: self.budget.bytes(),
            moments: self.moments_in_use(),
        }
    }

    /// The kernel gives back `count` lookups of an inode.
    pub fn forget(&self, ino: u64, count: u64) {
        let released = lock(&self.nodes).forget(ino, count);
        // Parts of live roots stay: their lists are dropped when memory is short.
        if let Some(part) = released
            && part.state.pinned.is_some()
        {
            part.state.forget_part(&part.path);
        }
    }

    /// Housekeeping, every few seconds: closes files that nobody has used for a while, counts, and tells what the kernel should
    /// forget so that it can be let go.
    pub fn tick(&self) -> Vec<Invalidation> {
        self.opens.expire(Duration::from_secs(10));
        let mut nodes = lock(&self.nodes);
        nodes.shrink();
        metric::INODES.set((), i64::try_from(nodes.len()).unwrap_or(i64::MAX));
        drop(nodes);
        let bytes = i64::try_from(self.budget.bytes()).unwrap_or(i64::MAX);
        metric::CACHE_BYTES.set(crate::telemetry::Cache::Partition, bytes);
        lock(&self.contents).retain(|_, (at, _)| at.elapsed() < Duration::from_secs(2));
        self.expire_idle()
    }

    pub(super) fn tables(&self) -> Arc<Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The view that a table's root shows when it is mounted.
    pub(super) fn root_state(&self, path: TablePath, source: Arc<dyn Source>) -> Result<Arc<ViewState>> {
        let table = Arc::new(Table::new(path, source));
        let (view, pinned) = match &self.options.as_of {
            None => (table.source.current(), None),
            Some(moment) => {
                let view = table.source.as_of(moment)?;
                let instant = view.instant().ok_or_else(|| Error::not_found(format!("no commit as of {moment}")))?;
                (view, Some(instant))
            }
        };
        Ok(ViewState::new(table, view, pinned, self.budget.clone()))
    }

    pub(super) fn root_dir(&self, state: &Arc<ViewState>, ino: u64, parent: u64) -> Arc<Dir> {
        let seed = state.table.seed.child("d");
        let part = state.part(&TablePath::root());
        Arc::new(Dir { ino, parent, seed, part, moment: None, absent: Mutex::default(), read_ms: AtomicU64::new(0) })
    }

    /// Milliseconds since the tree was made, never 0.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// A part's files, and more loaded ahead where this is a walk.
    pub(super) fn files(
        &self,
        part: &Arc<Part>,
        generation: &Arc<Generation>,
        wait: Wait,
    ) -> Result<Arc<Files>, Fault> {
        let files = part.files(generation, wait)?;
        if part.first_touch(&files) {
            load_ahead(part, generation, &self.workers);
        }
        Ok(files)
    }

    pub(super) fn dir_attr_with(&self, ino: u64, mtime_ms: i64, leaf: bool) -> Attr {
        let nlink = if leaf { 2 } else { 1 };
        // One link means "not known" to those who count directories by links.
        Attr { ino, kind: Kind::Dir, size: 4096, mtime_ms, nlink, mode: self.options.dir_mode, cacheable: true }
    }

    /// The content of a virtual file, at most a second old, so that its size and its bytes agree for whoever asks for both.
    pub(super) fn content(&self, scope: &Scope, file: VirtualFile) -> Arc<[u8]> {
        let table = scope.as_ref().map(|s| s.table.path.clone());
        let key = (table, file);
        if let Some((at, content)) = lock(&self.contents).get(&key)
            && at.elapsed() < Duration::from_secs(1)
        {
            return content.clone();
        }
        let content: Arc<[u8]> = self.host.content(key.0.as_ref().map(TablePath::as_str), file).into();
        lock(&self.contents).insert(key, (Instant::now(), content.clone()));
        content
    }
}
