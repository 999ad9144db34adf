//! [`Session`]: one table and how it is written: its lock, its heartbeats, what is done about failed writes.
//!
//! [`Session::critical`] is the one way into a critical section: the lock is held, and the timeline was loaded under it.
//! Whatever decides by the timeline and then creates an instant goes through there: new times, conflicts, rollbacks, commits.
//!
//! Every write of hudifs takes the lock and beats, also where Hudi's settings speak of a single writer, so that its
//! processes exclude each other with no configuration. `hoodie.clean.failed.writes.policy=EAGER` is for tables that nobody else
//! writes to: then whatever is pending when a write begins has failed, and no heartbeat is waited for.

use super::heartbeat::BeatSettings;
use super::lock::{Guard, TableLock};
use super::options::WriterOptions;
use super::rollback;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime};
use crate::format::properties::TableConfig;
use crate::storage::{Removal, Storage, TablePath};
use crate::timeline::{InstantWriter, Timeline, load_config};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

const POLICY: &str = "hoodie.clean.failed.writes.policy";
const POLICY_OLD: &str = "hoodie.cleaner.policy.failed.writes";
const PROPERTIES: &str = ".hoodie/hoodie.properties";
const BACKUP: &str = ".hoodie/hoodie.properties.backup";
/// Largest properties file accepted, bytes.
const PROPERTIES_MAX: u64 = 16 << 20;
/// An update of the properties takes a few requests.
const UPDATE_MAX: Duration = Duration::from_secs(60);
/// Times tried for one instant: another writer without our lock may have taken some.
const TIMES_MAX: u32 = 20;

/// What is done about writes that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedWrites {
    /// Rolled back by the next write, whoever they were of.
    Eager,
    /// Rolled back by the next write if they do not beat any more.
    Lazy,
    /// Left alone.
    Never,
}

/// One table and how it is written.
#[derive(Debug)]
pub struct Session {
    storage: Arc<dyn Storage>,
    options: WriterOptions,
    lock: TableLock,
    beat: BeatSettings,
    failed: FailedWrites,
    /// What others left behind has been looked for.
    tidied: AtomicBool,
}

impl Session {
    /// For the table in `storage`, by the settings in `options`. Reads nothing yet.
    pub fn new(storage: Arc<dyn Storage>, options: WriterOptions) -> Result<Session> {
        let lock = TableLock::new(&storage, &options)?;
        let (beat, failed) = (BeatSettings::new(&options)?, policy(&options)?);
        Ok(Session { storage, options, lock, beat, failed, tidied: AtomicBool::new(false) })
    }

    /// Where the table is.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The settings.
    pub fn options(&self) -> &WriterOptions {
        &self.options
    }

    /// How writes beat.
    pub fn beat(&self) -> BeatSettings {
        self.beat
    }

    /// What is done about failed writes.
    pub fn failed_writes(&self) -> FailedWrites {
        self.failed
    }

    /// The table's timeline as it is now, with its properties as they are now.
    pub fn timeline(&self) -> Result<Timeline> {
        let root = TablePath::root();
        let config = load_config(&*self.storage, &root)?;
        Timeline::load(&*self.storage, &root, &config)
    }

    /// Takes the table's lock and loads the timeline. The lock is released when what is returned is dropped. The first time,
    /// what writers that died left behind is removed.
    pub fn critical(&self) -> Result<Critical> {
        let guard = self.lock.lock()?;
        let first = !self.tidied.load(Ordering::Relaxed);
        if first {
            recover_properties(&*self.storage)?;
        }
        let timeline = self.timeline()?;
        let instants = InstantWriter::new(self.storage.clone(), &timeline)?;
        let critical = Critical { storage: self.storage.clone(), timeline, instants, guard };
        if first {
            rollback::sweep(self, &critical)?;
            self.tidied.store(true, Ordering::Relaxed);
        }
        Ok(critical)
    }
}

/// A critical section: the table's lock is held.
pub struct Critical {
    storage: Arc<dyn Storage>,
    timeline: Timeline,
    instants: InstantWriter,
    guard: Guard,
}

impl Critical {
    /// The timeline as it was loaded under the lock, or reloaded.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The settings that were loaded with it.
    pub fn config(&self) -> &TableConfig {
        self.timeline.config()
    }

    /// Writes instants. Completing goes through [`Critical::complete`], which makes sure of the lock.
    pub fn instants(&self) -> &InstantWriter {
        &self.instants
    }

    /// Loads the timeline again, after instants were written here.
    pub fn reload(&mut self) -> Result<()> {
        self.timeline = self.timeline.reload(&*self.storage)?;
        Ok(())
    }

    /// Loads the properties and the timeline again, after the properties were changed here.
    pub fn reload_all(&mut self) -> Result<()> {
        let root = TablePath::root();
        let config = load_config(&*self.storage, &root)?;
        self.timeline = Timeline::load(&*self.storage, &root, &config)?;
        Ok(())
    }

    /// A new instant, requested. `before` is called with each time that is tried, before its file is created.
    pub fn request(
        &self,
        action: Action,
        content: Bytes,
        mut before: impl FnMut(InstantTime) -> Result<()>,
    ) -> Result<Instant> {
        for _ in 0..TIMES_MAX {
            let time = self.instants.new_time(&self.timeline)?;
            before(time)?;
            match self.instants.request(time, action, content.clone()) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("{}: every instant time is taken", self.storage.uri())))
    }

    /// Makes sure that the lock is still held. Right before anything that must not happen twice.
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// Creates the completed file: the commit point. Not, if the lock was lost.
    pub fn complete(&self, pending: &Instant, content: Bytes) -> Result<Instant> {
        self.check()?;
        match self.instants.complete(pending, &self.timeline, content) {
            Err(e) if e.kind() == ErrorKind::Unavailable => match self.instants.is_completed(pending) {
                Ok(false) => Err(e),
                // It completed, only under which time is not known; or nobody can tell.
                Ok(true) => self.find_completed(pending),
                Err(_) => Err(e.with_hint(format!(
                    "whether {} completed is not known; see the timeline once the store answers",
                    pending.requested
                ))),
            },
            other => other,
        }
    }

    fn find_completed(&self, pending: &Instant) -> Result<Instant> {
        let timeline = self.timeline.reload(&*self.storage)?;
        let same = |i: &&Instant| i.requested == pending.requested && i.action == pending.action.completes_as();
        timeline.completed().find(same).copied().ok_or_else(|| Error::internal(format!("{pending} vanished")))
    }
}

/// Ends an update of `hoodie.properties` that was cut off: the file is put back, and its copy removed. A copy that is young
/// may be of an update that is under way.
fn recover_properties(storage: &dyn Storage) -> Result<()> {
    let backup = TablePath::parse(BACKUP)?;
    let modified = match storage.stat(&backup) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?.modified_ms,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if now.saturating_sub(Duration::from_millis(u64::try_from(modified).unwrap_or(0))) < UPDATE_MAX {
        return Ok(());
    }
    let path = TablePath::parse(PROPERTIES)?;
    let whole = storage.read(&path, PROPERTIES_MAX).and_then(|bytes| TableConfig::parse(&bytes));
    match whole {
        Ok(_) => {}
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {
            let bytes = storage.read(&backup, PROPERTIES_MAX)?;
            TableConfig::parse(&bytes).map_err(|e| e.context(&backup))?;
            tracing::warn!("an update of {PROPERTIES} was cut off: its copy is put back");
            storage.put(&path, bytes)?;
        }
        Err(e) => return Err(e.context(&path)),
    }
    storage.delete(&Removal::properties_backup())
}

fn policy(options: &WriterOptions) -> Result<FailedWrites> {
    let text = options.setting(POLICY).or_else(|| options.setting(POLICY_OLD)).unwrap_or("LAZY");
    match text.trim().to_ascii_uppercase().as_str() {
        "EAGER" => Ok(FailedWrites::Eager),
        "LAZY" => Ok(FailedWrites::Lazy),
        "NEVER" => Ok(FailedWrites::Never),
        _ => Err(Error::invalid(format!("{POLICY}={text:?}"))
            .in_column(POLICY)
            .with_hint("the policies are EAGER, LAZY and NEVER")),
    }
}
