//! [`Service`]: the tables of a mount and every question about them.
//!
//! One value answers the control socket, the virtual files of the mount and, without a mount, the command line.
//! A table that cannot be opened stays in the list as failed, does not disturb the others, and is tried again.

mod answers;
mod lease;
mod refresh;
mod status;
mod writable;

pub use lease::Renewal;
pub use status::table_type_name;

use super::leases::Keeper;
use crate::control::problem::{Failure, Problem};
use crate::control::types::{LeaseStatus, Passthrough};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::TableFs;
use crate::fuse::{Serving, Session};
use crate::storage::{Storage, StorageOptions, TablePath};
use crate::table::{Listing, Snapshot, Table, TableOptions};
use crate::telemetry::event::{Event, EventCode};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a service is told once.
#[derive(Clone, Debug, Default)]
pub struct ServiceOptions {
    /// How stores are reached.
    pub storage: StorageOptions,
    /// Where files are listed from.
    pub listing: Listing,
    /// The moment that roots show instead of the newest commit.
    pub as_of: Option<String>,
    /// What the user would have the memory stay below, bytes.
    pub memory_target_bytes: Option<u64>,
    /// Nothing is written to the tables: no writes through the control socket, and no leases.
    pub read_only: bool,
    /// How long a lease lives unless it is renewed; `None` for the usual time.
    pub lease_life: Option<Duration>,
    /// The control socket's place.
    pub socket: Option<PathBuf>,
    /// Where the log is.
    pub log: Option<String>,
}

/// The tables of a mount.
pub struct Service {
    options: ServiceOptions,
    /// The store of the table, or of the warehouse.
    root: Arc<dyn Storage>,
    warehouse: bool,
    started_ms: i64,
    tables: RwLock<BTreeMap<String, Arc<Entry>>>,
    mounted: OnceLock<Mounted>,
    keeper: OnceLock<Keeper>,
}

/// The tree and its session, once mounted.
struct Mounted {
    fs: Arc<TableFs>,
    session: Session,
}

/// How commits by others are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The kernel tells.
    Inotify,
    /// By looking from time to time.
    Poll,
    /// Not at all.
    No,
}

/// One table.
pub struct Entry {
    /// Its name for people and for the control socket.
    name: String,
    /// Its path in the mount; the root where the mount is one table.
    path: TablePath,
    uri: String,
    state: Mutex<State>,
    /// The lease on the table; held while it is written. Taken before `state`.
    lease: Mutex<lease::Slot>,
    /// Held during a refresh, so that generations are published in order. Taken before `state`.
    refreshing: Mutex<()>,
}

struct State {
    table: Option<Arc<Table>>,
    /// The generation that the tree shows.
    published: u64,
    /// Why the table is stale or failed.
    error: Option<Problem>,
    refreshed_ms: Option<i64>,
    watched: Watched,
    lease: LeaseStatus,
}

impl Service {
    /// Opens one table. Fails if it cannot be opened.
    pub fn table(uri: &str, options: ServiceOptions) -> Result<Service> {
        let storage = crate::storage::open(uri, &options.storage)?;
        let table = open(storage.clone(), &options)?;
        let name = uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let service = Service::new(storage, false, options);
        service.insert(Entry::opened(name, TablePath::root(), table));
        Ok(service)
    }

    /// Finds and opens the tables of a warehouse. Fails only if the warehouse cannot be listed.
    pub fn warehouse(uri: &str, options: ServiceOptions) -> Result<Service> {
        let storage = crate::storage::open(uri, &options.storage)?;
        let service = Service::new(storage, true, options);
        service.discover()?;
        Ok(service)
    }

    fn new(root: Arc<dyn Storage>, warehouse: bool, options: ServiceOptions) -> Service {
        let started_ms = now_ms();
        crate::telemetry::metric::START_TIME.set((), started_ms / 1000);
        Service {
            options,
            root,
            warehouse,
            started_ms,
            tables: RwLock::new(BTreeMap::new()),
            mounted: OnceLock::new(),
            keeper: OnceLock::new(),
        }
    }

    /// The base of the table or warehouse.
    pub fn uri(&self) -> &str {
        self.root.uri()
    }

    /// True if the mount is a warehouse.
    pub fn is_warehouse(&self) -> bool {
        self.warehouse
    }

    /// How often a warehouse may be searched for tables: a search lists every folder, which object stores charge for.
    pub fn search_interval_min(&self) -> Duration {
        if self.root.is_object_store() { Duration::from_secs(60) } else { Duration::ZERO }
    }

    /// Every table, by name.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The table of that name; an empty name is the only table of a mount that has one.
    pub fn entry(&self, name: &str) -> Result<Arc<Entry>, Failure> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let only = if name.is_empty() && tables.len() == 1 { tables.values().next() } else { None };
        tables.get(name).or(only).cloned().ok_or_else(|| {
            let known: Vec<_> = tables.keys().take(5).map(String::as_str).collect();
            let more = if tables.len() > known.len() { ", …" } else { "" };
            let message = if name.is_empty() {
                "several tables are served; name one".to_owned()
            } else {
                format!("there is no table {name:?}")
            };
            let error = Error::not_found(message).with_hint(format!("served are: {}{more}", known.join(", ")));
            Failure::from(error).table(name)
        })
    }

    fn insert(&self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.tables.write().unwrap_or_else(PoisonError::into_inner).insert(entry.name.clone(), entry.clone());
        entry
    }

    fn remove(&self, name: &str) {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Where the tree is mounted, once it is.
    pub fn mount_point(&self) -> Option<PathBuf> {
        self.mounted.get().map(|m| m.session.mount_point().to_owned())
    }

    /// The session, once mounted.
    pub fn session(&self) -> Option<&Session> {
        self.mounted.get().map(|m| &m.session)
    }

    /// Puts every table into the tree: the last step before it is mounted.
    pub fn fill(&self, fs: &TableFs) -> Result<()> {
        for entry in self.entries() {
            match entry.opened_table() {
                // A failed table has no kernel caches to invalidate: nothing is mounted yet.
                Some(table) => drop(fs.add_table(&entry.path, table)?),
                None => drop(fs.add_failed_table(&entry.path, entry.failure())?),
            }
        }
        Ok(())
    }

    /// Tells the service where it is mounted.
    pub fn set_mounted(&self, fs: Arc<TableFs>, session: Session) -> Result<()> {
        let passthrough = passthrough(&session);
        if let Some(reason) = passthrough.reason {
            tracing::info!("reads are answered by the daemon: {reason}");
        }
        self.mounted.set(Mounted { fs, session }).map_err(|_| Error::internal("mounted twice"))
    }

    /// Starts to keep leases on the tables that readers look at.
    pub fn keep_leases(self: &Arc<Self>) {
        if !self.options.read_only {
            // Set once: a service has one such thread.
            let _ = self.keeper.set(Keeper::spawn(self));
        }
    }

    /// The snapshot that the root of a table shows.
    fn shown(&self, entry: &Entry) -> Result<Arc<Snapshot>, Failure> {
        let table = entry.opened_table().ok_or_else(|| Failure::from(entry.failure()).table(&entry.name))?;
        Ok(table.snapshot())
    }
}

impl Entry {
    fn opened(name: String, path: TablePath, table: Arc<Table>) -> Entry {
        let state = State {
            published: table.snapshot().generation(),
            error: None,
            refreshed_ms: Some(now_ms()),
            watched: Watched::No,
            lease: LeaseStatus::none(),
            table: Some(table.clone()),
        };
        Entry::new(name, path, table.uri().to_owned(), state)
    }

    fn failed(name: String, path: TablePath, uri: String, error: &Error) -> Entry {
        let state = State {
            table: None,
            published: 0,
            error: Some(Problem::from(error)),
            refreshed_ms: Some(now_ms()),
            watched: Watched::No,
            lease: LeaseStatus::none(),
        };
        Entry::new(name, path, uri, state)
    }

    fn new(name: String, path: TablePath, uri: String, state: State) -> Entry {
        let (lease, refreshing) = (Mutex::new(lease::Slot::new()), Mutex::new(()));
        Entry { name, path, uri, state: Mutex::new(state), lease, refreshing }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's base.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The table, unless it could not be opened.
    pub fn opened_table(&self) -> Option<Arc<Table>> {
        self.state().table.clone()
    }

    /// Notes how commits are noticed.
    pub fn set_watched(&self, watched: Watched) {
        self.state().watched = watched;
    }

    /// How commits are noticed.
    pub fn watched(&self) -> Watched {
        self.state().watched
    }

    /// Why the table cannot be served.
    fn failure(&self) -> Error {
        match &self.state().error {
            Some(problem) => problem.clone().into_error(),
            None => Error::internal(format!("table {} is not open", self.name)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Fields are replaced whole; a panic elsewhere leaves them usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a table, and says what its owner should know.
fn open(storage: Arc<dyn Storage>, options: &ServiceOptions) -> Result<Arc<Table>> {
    // A pinned table resolves its moment here, once: one that lies in the future does not move on with later commits.
    let table = Table::open(storage, TableOptions { listing: options.listing, as_of: options.as_of.clone() })?;
    note_warnings(table.uri(), &table.snapshot());
    Ok(table)
}

/// Leaves an event for each warning of a snapshot; a repeated one only counts.
fn note_warnings(table: &str, snapshot: &Snapshot) {
    for warning in snapshot.warnings() {
        Event::new(EventCode::TableWarning, warning)
            .table(table)
            .hint("`hudifs doctor` on the table explains it")
            .record();
    }
    let wanted = snapshot.config().metadata_partitions().contains(&"files");
    if wanted && snapshot.lister_name() != "metadata_table" {
        crate::telemetry::metric::METADATA_FALLBACKS.inc(());
        Event::new(EventCode::MetadataTableUnusable, "the storage is listed instead of the metadata table")
            .table(table)
            .hint("listing is right but slower; `hudifs doctor` on the table says what is wrong")
            .record();
    }
}

fn passthrough(session: &Session) -> Passthrough {
    match session.serving() {
        Serving::Passthrough => Passthrough { active: true, reason: None },
        Serving::Served(reason) => Passthrough { active: false, reason: Some(reason) },
    }
}

pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// True for errors that mean that a table has gone, not that it is broken.
fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}
