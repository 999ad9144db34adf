//! When to look for commits: at once when inotify reports a change of a timeline folder, else from time to time.
//!
//! One thread decides and refreshes. A finished file (closed after writing, or moved into place) triggers at once; a file that
//! was only created may still be empty, so it is given a moment. Reading the timeline makes inotify events too, which are
//! ignored, or a refresh would cause the next. Where inotify works, polling goes on rarely, as a safety net.

use super::PollInterval;
use super::service::{Entry, Service, Watched};
use crate::storage::{Storage, TablePath};
use crate::telemetry::event::{Event, EventCode};
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Time given to a file that was created and not yet closed.
const SETTLE: Duration = Duration::from_millis(100);
/// Time after which the beginning of a write is looked at: it changes no view, only the timeline that is shown.
const BEGUN: Duration = Duration::from_secs(1);
/// Longest time between looks where inotify works.
const SAFETY_NET: Duration = Duration::from_secs(30);
/// Longest wait of the thread, so that it meets every change of the list of tables.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Tables refreshed at once.
const PARALLEL: usize = 8;

enum Signal {
    /// Something in a watched folder changed, and is to be looked at after a while.
    Changed {
        folder: PathBuf,
        after: Duration,
    },
    /// Events were lost.
    Lost,
    Stop,
}

/// The watching thread; stops when dropped.
pub struct Watcher {
    signals: Sender<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches the tables of a service from a thread of its own.
    pub fn spawn(service: Arc<Service>, inotify: bool, poll: PollInterval) -> Watcher {
        let (signals, received) = channel();
        let for_events = signals.clone();
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let inotify = if inotify { Inotify::new(for_events) } else { None };
            Loop { service, inotify, poll, due: BTreeMap::new(), looked: Instant::now() }.run(&received);
        });
        if let Err(error) = &thread {
            Event::new(EventCode::WatchFailed, format!("the watching thread cannot start: {error}"))
                .hint("commits are seen on SIGHUP and `hudifs refresh` only")
                .record();
        }
        Watcher { signals, thread: thread.ok() }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.signals.send(Signal::Stop);
        if let Some(thread) = self.thread.take() {
            // A refresh in progress may wait for a store that is gone: do not wait for it for ever.
            let limit = Instant::now() + Duration::from_secs(2);
            while !thread.is_finished() && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

struct Loop {
    service: Arc<Service>,
    inotify: Option<Inotify>,
    poll: PollInterval,
    /// When to look at a table next, by name.
    due: BTreeMap<String, Instant>,
    /// When a warehouse was last searched for tables.
    looked: Instant,
}

impl Loop {
    fn run(mut self, received: &Receiver<Signal>) {
        loop {
            self.adopt_tables();
            let now = Instant::now();
            let next = self.due.values().min().copied().unwrap_or(now + WAIT_MAX).min(now + WAIT_MAX);
            match received.recv_timeout(next.saturating_duration_since(now)) {
                Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(signal) => self.note(signal),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // One commit makes several events: take what is there before looking.
            while let Ok(signal) = received.try_recv() {
                match signal {
                    Signal::Stop => return,
                    signal => self.note(signal),
                }
            }
            self.look();
        }
    }

    /// Starts to watch tables that are new, and forgets those that are gone.
    fn adopt_tables(&mut self) {
        let entries = self.service.entries();
        self.due.retain(|name, _| entries.iter().any(|e| e.name() == name));
        for entry in &entries {
            let told = self.inotify.as_mut().map_or(Told::Never, |inotify| inotify.watch(entry));
            let watched = match self.poll {
                _ if told != Told::Never => Watched::Inotify,
                PollInterval::Never => Watched::No,
                PollInterval::Every(_) => Watched::Poll,
            };
            entry.set_watched(watched);
            if told == Told::FromNowOn {
                // What came before the watch, and after the table was loaded, nobody tells.
                self.due.insert(entry.name().to_owned(), Instant::now());
            } else if !self.due.contains_key(entry.name()) {
                self.schedule(entry);
            }
        }
    }

    fn schedule(&mut self, entry: &Entry) {
        match (self.poll, entry.watched()) {
            (PollInterval::Never, _) => drop(self.due.remove(entry.name())),
            (PollInterval::Every(time), Watched::Inotify) => {
                self.due.insert(entry.name().to_owned(), Instant::now() + time.max(SAFETY_NET));
            }
            (PollInterval::Every(time), _) => {
                self.due.insert(entry.name().to_owned(), Instant::now() + time);
            }
        }
    }

    fn note(&mut self, signal: Signal) {
        let now = Instant::now();
        match signal {
            Signal::Changed { folder, after } => {
                let Some(name) = self.inotify.as_ref().and_then(|i| i.table_of(&folder)) else { return };
                let at = now + after;
                let due = self.due.entry(name).or_insert(at);
                *due = (*due).min(at);
            }
            Signal::Lost => self.due.values_mut().for_each(|due| *due = now),
            Signal::Stop => {}
        }
    }

    /// Refreshes what is due.
    fn look(&mut self) {
        let now = Instant::now();
        if let PollInterval::Every(time) = self.poll
            && self.service.is_warehouse()
            && now.duration_since(self.looked) >= time.max(self.service.search_interval_min())
        {
            self.looked = now;
            guarded(|| self.service.discover_again());
        }
        let due: Vec<Arc<Entry>> =
            self.service.entries().into_iter().filter(|e| self.due.get(e.name()).is_some_and(|d| *d <= now)).collect();
        for entry in &due {
            self.due.remove(entry.name());
        }
        for chunk in due.chunks(PARALLEL) {
            refresh(&self.service, chunk);
        }
        for entry in &due {
            if !self.due.contains_key(entry.name()) {
                self.schedule(entry);
            }
        }
    }
}

fn refresh(service: &Service, entries: &[Arc<Entry>]) {
    let one = |entry: &Entry| guarded(|| drop(service.refresh_table(entry)));
    match entries {
        [only] => one(only),
        several => std::thread::scope(|scope| {
            for entry in several {
                scope.spawn(|| one(entry));
            }
        }),
    }
}

/// A mistake in one refresh must not end the watch for all tables.
fn guarded(work: impl FnOnce()) {
    // What the work shares is behind locks whose holders leave it whole.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        Event::new(EventCode::Internal, "a look for new commits failed by a mistake of hudifs")
            .hint("the last view stays; report it with the log's lines around it")
            .record();
    }
}

/// Whether the kernel tells of changes in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Never,
    FromNowOn,
    Already,
}

/// The kernel's watches on timeline folders.
struct Inotify {
    watcher: RecommendedWatcher,
    /// Table names by watched folder; shared with the thread that filters events.
    folders: Arc<Mutex<HashMap<PathBuf, String>>>,
    /// Folders by table name, to see when a table's folders have changed.
    tables: HashMap<String, Vec<Folder>>,
}

impl Inotify {
    fn new(signals: Sender<Signal>) -> Option<Inotify> {
        let folders: Arc<Mutex<HashMap<PathBuf, String>>> = Arc::default();
        let handler = move |event: notify::Result<notify::Event>| {
            for signal in signals_of(event) {
                // The receiver is gone when the daemon stops.
                let _ = signals.send(signal);
            }
        };
        match notify::recommended_watcher(handler) {
            Ok(watcher) => Some(Inotify { watcher, folders, tables: HashMap::new() }),
            Err(error) => {
                watch_failed(&format!("inotify is not available: {error}"));
                None
            }
        }
    }

    fn table_of(&self, folder: &Path) -> Option<String> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).get(folder).cloned()
    }

    /// Watches a table's folders.
    fn watch(&mut self, entry: &Entry) -> Told {
        let Some(folders) = folders_of(entry) else { return Told::Never };
        if self.tables.get(entry.name()) == Some(&folders) {
            return Told::Already;
        }
        for Folder { path, .. } in self.tables.remove(entry.name()).unwrap_or_default() {
            let _ = self.watcher.unwatch(&path);
            self.folders.lock().unwrap_or_else(PoisonError::into_inner).remove(&path);
        }
        for Folder { path: folder, .. } in &folders {
            if let Err(error) = self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                watch_failed(&format!("{}: {error}", folder.display()));
                return Told::Never;
            }
            let mut known = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(folder.clone(), entry.name().to_owned());
        }
        self.tables.insert(entry.name().to_owned(), folders);
        Told::FromNowOn
    }
}

fn watch_failed(message: &str) {
    Event::new(EventCode::WatchFailed, message)
        .hint("hudifs polls instead; fs.inotify.max_user_watches and max_user_instances bound what can be watched")
        .record();
}

/// A watched folder. The kernel's watch belongs to the folder itself: one that was made anew in its place is another one.
#[derive(Debug, PartialEq, Eq)]
struct Folder {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Where the filesystem knows: a new folder often gets the inode number of the one before.
    born: Option<SystemTime>,
}

impl Folder {
    fn at(path: PathBuf) -> Option<Folder> {
        let found = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_dir)?;
        Some(Folder { path, device: found.dev(), inode: found.ino(), born: found.created().ok() })
    }
}

/// The folders whose changes mean that a commit may have happened; `None` where inotify cannot tell.
fn folders_of(entry: &Entry) -> Option<Vec<Folder>> {
    let table = entry.opened_table()?;
    let storage: &dyn Storage = &**table.storage();
    let mut folders = vec![storage.local_path(&TablePath::parse(".hoodie").ok()?)?];
    let timeline = TablePath::parse(&table.snapshot().config().timeline_folder()).ok()?;
    // A table without its timeline folder yet is watched through the folder above.
    folders.extend(storage.local_path(&timeline).filter(|f| f.is_dir()));
    folders.dedup();
    if !folders.iter().all(|f| sees_every_change(f)) {
        return None;
    }
    folders.into_iter().map(Folder::at).collect()
}

/// False on network filesystems, where inotify misses what other machines do.
fn sees_every_change(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    /// NFS, SMB, CIFS, SMB2, FUSE, 9P, Ceph, AFS, Lustre.
    const REMOTE: [u32; 9] =
        [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400, 0x5346_414F, 0x0BD0_0BD0];
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `path` ends with NUL and `found` has room for the answer.
    if unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded and has filled the value.
    let kind = unsafe { found.assume_init() }.f_type;
    // The kernel's magic numbers have 32 bits, whatever the field's width.
    !REMOTE.contains(&(kind as u32))
}

fn signals_of(event: notify::Result<notify::Event>) -> Vec<Signal> {
    let event = match event {
        Ok(event) if event.need_rescan() => return vec![Signal::Lost],
        Ok(event) => event,
        Err(error) => {
            watch_failed(&error.to_string());
            return vec![Signal::Lost];
        }
    };
    let gone = matches!(event.kind, EventKind::Remove(_));
    let after = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Remove(_) => Duration::ZERO,
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)) => SETTLE,
        // Opening, reading and attributes: our own doing, or nothing to see.
        _ => return Vec::new(),
    };
    let changed = event.paths.iter().filter_map(|path| {
        let after = if !gone && begins_write(path) { BEGUN } else { after };
        may_be_instant(path).then(|| Some(Signal::Changed { folder: path.parent()?.to_owned(), after }))?
    });
    changed.collect()
}

/// False for the checksum and temporary files that Hadoop writes beside the real ones.
fn may_be_instant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !(name.ends_with(".crc") || name.ends_with(".tmp") || name.starts_with(".tmp"))
}

/// True for the file of an instant that is not completed. Where such a file goes away, a write was undone.
fn begins_write(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "requested" || extension == "inflight")
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind, RenameMode};

    fn after(kind: EventKind, name: &str) -> Option<Duration> {
        let event = notify::Event::new(kind).add_path(Path::new("/t/.hoodie").join(name));
        signals_of(Ok(event)).first().map(|signal| match signal {
            Signal::Changed { folder, after } => {
                assert_eq!(folder, Path::new("/t/.hoodie"));
                *after
            }
            _ => panic!("another signal"),
        })
    }

    #[test]
    fn a_panic_in_one_refresh_is_recorded_and_goes_no_further() {
        guarded(|| panic!("a mistake on purpose"));
        let events = crate::telemetry::event::recent();
        assert!(
            events.iter().any(|e| e.code == EventCode::Internal && e.message.starts_with("a look for new commits"))
        );
    }

    #[test]
    fn what_completes_is_looked_at_at_once_and_reading_never() {
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let removed = EventKind::Remove(RemoveKind::File);
        assert_eq!(after(closed, "1.commit"), Some(Duration::ZERO));
        assert_eq!(after(EventKind::Modify(ModifyKind::Name(RenameMode::To)), "1.commit"), Some(Duration::ZERO));
        assert_eq!(after(EventKind::Create(CreateKind::File), "1.commit"), Some(SETTLE));
        assert_eq!(after(EventKind::Modify(ModifyKind::Data(DataChange::Any)), "1.commit"), Some(SETTLE));
        assert_eq!(after(closed, "1.commit.requested"), Some(BEGUN));
        assert_eq!(after(closed, "1.inflight"), Some(BEGUN));
        assert_eq!(after(removed, "1.inflight"), Some(Duration::ZERO), "undone");
        for kind in [
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            EventKind::Access(AccessKind::Close(AccessMode::Read)),
            EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
        ] {
            assert_eq!(after(kind, "1.commit"), None);
        }
        assert_eq!(after(closed, ".1.commit.crc"), None);
    }
}
