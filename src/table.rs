//! A table: its configuration, its newest snapshot, and snapshots of the past.
//!
//! A [`Snapshot`] is the table as of an instant. It is immutable: the timeline, the replaced groups and the lister were fixed
//! when it was made, and a partition that is looked at later is resolved against them.
//! [`Table::refresh`] makes the next one when the timeline has moved; who holds the old one keeps it.
//!
//! Where files are listed from is decided here: the metadata table when the table says that it is in step, the storage
//! otherwise. A metadata table that cannot be read is reported and the storage is listed instead; both give the same tree.

mod changes;
pub mod lease;
mod listers;
mod moment;
mod slices;

pub use changes::Changed;
pub use listers::Listing;
pub use slices::{FileSlice, StoredFile};

use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::format::properties::TableConfig;
use crate::storage::{Storage, TablePath};
use crate::timeline::{self, Timeline};
use crate::view::{self, FileRef, PartitionView, ViewContext};
use listers::Listers;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Snapshots of the past that are kept, beside those that somebody holds.
const AS_OF_KEPT: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// How a table is opened.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Where files are listed from.
    pub listing: Listing,
    /// Pins the table to a moment: the newest completed commit at or before it.
    pub as_of: Option<String>,
}

/// An open table. Cheap to share; every method may be called from several threads.
#[derive(Debug)]
pub struct Table {
    storage: Arc<dyn Storage>,
    options: TableOptions,
    current: RwLock<Arc<Snapshot>>,
    /// Held while a snapshot is made, so that two refreshes do not race. Taken before `current`.
    refreshing: Mutex<()>,
    past: Mutex<LruCache<InstantTime, Arc<Snapshot>>>,
}

/// The table as of an instant.
#[derive(Debug)]
pub struct Snapshot {
    storage: Arc<dyn Storage>,
    config: TableConfig,
    timeline: Timeline,
    context: ViewContext,
    lister: Arc<Listers>,
    generation: u64,
    pinned: bool,
    partitions: OnceLock<Arc<[TablePath]>>,
    planned: OnceLock<ViewContext>,
    /// The step from the snapshot of that generation, once it is known.
    step: OnceLock<(u64, Changed)>,
}

impl Table {
    /// Opens the table and loads its newest snapshot, or the one that `options` pin.
    ///
    /// Errors: `NotFound` without `.hoodie/hoodie.properties`, `Unsupported` for versions and features that are refused by
    /// name, `Corrupt` for a timeline that cannot be trusted, and what the storage says.
    pub fn open(storage: Arc<dyn Storage>, options: TableOptions) -> Result<Arc<Table>> {
        let snapshot = Arc::new(load(&storage, &options)?);
        Ok(Arc::new(Table {
            storage,
            options,
            current: RwLock::new(snapshot),
            refreshing: Mutex::new(()),
            past: Mutex::new(LruCache::new(AS_OF_KEPT)),
        }))
    }

    /// The table's base URI.
    pub fn uri(&self) -> &str {
        self.storage.uri()
    }

    /// The storage, rooted at the table's base.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The newest loaded snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the timeline, and makes the next snapshot if it has moved; `None` if it has not, or if the table is pinned.
    ///
    /// On an error the newest snapshot stays what it was.
    pub fn refresh(&self) -> Result<Option<Arc<Snapshot>>> {
        if self.options.as_of.is_some() {
            return Ok(None);
        }
        let _one = lock(&self.refreshing);
        let old = self.snapshot();
        let config = timeline::load_config(&*self.storage, &TablePath::root())?;
        let same_config = config.properties() == old.config.properties();
        let timeline = match same_config {
            true => old.timeline.reload(&*self.storage)?,
            false => Timeline::load(&*self.storage, &TablePath::root(), &config)?,
        };
        if same_config && timeline.same_instants(&old.timeline) {
            return Ok(None);
        }
        let new = Arc::new(resolve(&self.storage, &self.options, config, timeline, old.generation + 1)?);
        new.inherit_partitions(&old);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        Ok(Some(new))
    }

    /// The table as of a moment: an instant time, a date, or a date and time, resolved to the newest completed commit at or
    /// before it. `latest` is the newest snapshot.
    ///
    /// Errors: `Invalid` for what is no moment, `NotFound` before the first commit that is still known.
    pub fn as_of(&self, moment: &str) -> Result<Arc<Snapshot>> {
        let current = self.snapshot();
        if moment == "latest" {
            return Ok(current);
        }
        let instant = current.resolve(moment)?;
        if current.instant() == Some(instant) {
            return Ok(current);
        }
        if let Some(kept) = lock(&self.past).get(&instant) {
            return Ok(kept.clone());
        }
        let past = Arc::new(current.as_of(instant)?);
        lock(&self.past).put(instant, past.clone());
        Ok(past)
    }
}

impl Snapshot {
    /// The newest completed commit that it shows; `None` for a table without one.
    pub fn instant(&self) -> Option<InstantTime> {
        self.context.as_of()
    }

    /// Counts up with every snapshot that a table makes; a snapshot of the past has that of the one it was made from.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The storage, rooted at the table's base.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The table's configuration.
    pub fn config(&self) -> &TableConfig {
        &self.config
    }

    /// The whole active timeline, pending instants and those after a pinned instant included.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What the slicing rules go by.
    pub fn context(&self) -> &ViewContext {
        &self.context
    }

    /// `metadata_table` or `storage`.
    pub fn lister_name(&self) -> &'static str {
        self.lister.name()
    }

    /// What was noticed on the way and does not stop the table from being right, a line each.
    pub fn warnings(&self) -> Vec<String> {
        self.timeline.warnings()
    }

    /// All partitions in byte order, loaded once; the base itself for a non-partitioned table.
    pub fn partitions(&self) -> Result<Arc<[TablePath]>> {
        if let Some(partitions) = self.partitions.get() {
            return Ok(partitions.clone());
        }
        let mut partitions = self.lister.partitions()?;
        partitions.sort();
        partitions.dedup();
        Ok(self.partitions.get_or_init(|| partitions.into()).clone())
    }

    /// Takes over the partitions that an older snapshot knows, with those that commits since added: finding partitions in storage
    /// is a walk over the table, or a listing of all of it. After a clean, which may remove partitions, they are listed anew.
    fn inherit_partitions(&self, older: &Snapshot) {
        let Some(known) = older.partitions.get() else { return };
        if self.lister.name() != "storage" || older.lister.name() != "storage" {
            return;
        }
        let step = changes::step(self, older);
        // Whoever shows this snapshot next asks the same.
        let (_, changed) = self.step.get_or_init(|| (older.generation, step.changed));
        let Changed::Partitions(touched) = changed else { return };
        if step.may_drop_partitions {
            return;
        }
        let mut partitions = known.to_vec();
        for new in touched.iter().filter(|p| known.binary_search(p).is_err()) {
            match self.lister.has_partition(new) {
                Ok(true) => partitions.push(new.clone()),
                // Without a partition metafile it is no partition, as the walk would have it.
                Ok(false) => {}
                Err(_) => return,
            }
        }
        partitions.sort();
        let _ = self.partitions.set(partitions.into());
    }

    /// Resolves one partition: lists it and applies the slicing rules. Not cached here.
    ///
    /// Sizes of the listed files are known; those of older versions only where the listing tells them.
    /// Errors: `NotFound` for a folder that is no partition, `Stale` where a cleaner removes files while they are listed.
    pub fn partition(&self, partition: &TablePath) -> Result<PartitionView> {
        match self.load_partition(partition) {
            // A file may have gone between the listing and the look at its size: a cleaner is at work. Once more.
            Err(error) if error.kind() == ErrorKind::NotFound && self.is_partition(partition) => {
                self.load_partition(partition).map_err(gone)
            }
            other => other,
        }
        .map_err(|e| e.context(format!("partition {:?}", partition.as_str())))
    }

    fn load_partition(&self, partition: &TablePath) -> Result<PartitionView> {
        let (files, is_record) = self.lister.files(partition)?;
        view::load_listed(&*self.storage, &self.context, partition, &files, is_record)
    }

    fn is_partition(&self, partition: &TablePath) -> bool {
        self.partitions().is_ok_and(|known| known.binary_search(partition).is_ok())
    }

    /// Where a file's bytes are.
    pub fn stored_path(&self, partition: &TablePath, file: &FileRef<'_>) -> Result<TablePath> {
        partition.join(file.stored_path())
    }

    /// The partitions in which this snapshot may differ from an older one of the same table.
    pub fn changed_since(&self, older: &Snapshot) -> Changed {
        match self.step.get() {
            Some((from, changed)) if *from == older.generation && !older.pinned => changed.clone(),
            _ => changes::step(self, older).changed,
        }
    }

    /// Milliseconds since the epoch of an instant, in the table's time zone; 0 for instants that are no dates.
    pub fn instant_ms(&self, instant: InstantTime) -> i64 {
        instant.epoch_ms(self.config.zone()).unwrap_or(0)
    }

    /// The newest completed commit at or before a moment.
    pub fn resolve(&self, moment: &str) -> Result<InstantTime> {
        commit_at(&*self.storage, &self.timeline, moment)
    }

    fn as_of(&self, instant: InstantTime) -> Result<Snapshot> {
        let context = ViewContext::load(&*self.storage, &self.timeline, &self.config, Some(instant))?;
        Ok(Snapshot {
            storage: self.storage.clone(),
            config: self.config.clone(),
            timeline: self.timeline.clone(),
            context,
            lister: self.lister.clone(),
            generation: self.generation,
            pinned: true,
            partitions: OnceLock::new(),
            planned: OnceLock::new(),
            step: OnceLock::new(),
        })
    }

    /// True for a snapshot of the past, which no later commit changes.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }
}

fn load(storage: &Arc<dyn Storage>, options: &TableOptions) -> Result<Snapshot> {
    let config = timeline::load_config(&**storage, &TablePath::root())?;
    let timeline = Timeline::load(&**storage, &TablePath::root(), &config)?;
    resolve(storage, options, config, timeline, 1)
}

fn resolve(
    storage: &Arc<dyn Storage>,
    options: &TableOptions,
    config: TableConfig,
    timeline: Timeline,
    generation: u64,
) -> Result<Snapshot> {
    let as_of = match &options.as_of {
        None => None,
        Some(moment) => Some(commit_at(&**storage, &timeline, moment)?),
    };
    let context = ViewContext::load(&**storage, &timeline, &config, as_of)?;
    let lister = Arc::new(Listers::choose(storage, options.listing, &context)?);
    Ok(Snapshot {
        storage: storage.clone(),
        config,
        timeline,
        context,
        lister,
        generation,
        pinned: as_of.is_some(),
        partitions: OnceLock::new(),
        planned: OnceLock::new(),
        step: OnceLock::new(),
    })
}

/// The newest completed commit at or before a moment.
fn commit_at(storage: &dyn Storage, timeline: &Timeline, moment: &str) -> Result<InstantTime> {
    let wanted = moment::parse(moment)?;
    timeline.latest_write_at(wanted).ok_or_else(|| {
        let first = timeline.writes().next().map(|i| i.requested);
        let error = Error::not_found(format!("{} has no completed commit at or before {moment}", storage.uri()));
        error.with_hint(match first {
            Some(first) => format!("the oldest one that is still on the timeline is {first}"),
            None => "the table has no completed commit yet".to_owned(),
        })
    })
}

fn gone(error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::new(ErrorKind::Stale, error.message())
        .with_hint("a cleaner removes files while they are listed; its retention must exceed the longest query")
}

/// A panic elsewhere does not make the data behind these locks wrong: each holds one value that is replaced whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
