//! lookup(2) and getattr: from a name or an inode number to attributes.
//!
//! A name is looked for among all committed versions, not only those that are listed. Names that do not exist may be kept by
//! the kernel; those that a later commit could bring are remembered, so that the kernel is told when it does.

use super::node::{Dir, KnownFile, Place};
use super::part::{Files, Part};
use super::state::{Generation, lock};
use super::table_fs::{Mounted, TableFs};
use super::{Attr, Fault, Kind, View, Wait};
use crate::error::ErrorKind;
use crate::format::instant::InstantTime;
use crate::storage::path::NAME_LEN_MAX;
use crate::telemetry::{Event, EventCode};
use crate::view::FileRef;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most names for each directory that the kernel is told not to exist; further ones it asks for each time.
const ABSENT_MAX: usize = 10_000;
/// Most sizes of older versions that are remembered.
const OLD_SIZES_MAX: usize = 100_000;
/// The time of a directory of which no commit is known: not zero, which readers take for missing.
pub(super) const NO_COMMIT_MS: i64 = 1000;

/// The answer to a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The name's node, counted once for the kernel. `keep`: the kernel may keep the name.
    Found {
        /// Its attributes.
        attr: Attr,
        /// True if the kernel may keep the name until it is told otherwise.
        keep: bool,
    },
    /// There is no such name.
    Absent {
        /// True if the kernel may keep that answer until it is told otherwise.
        keep: bool,
    },
}

impl Lookup {
    pub(super) fn keep(attr: Attr) -> Lookup {
        Lookup::Found { attr, keep: attr.cacheable }
    }
}

impl TableFs {
    /// Looks a name up in a directory.
    pub fn lookup(&self, parent: u64, name: &OsStr, wait: Wait) -> Result<Lookup, Fault> {
        if name.len() > NAME_LEN_MAX {
            return Err(Fault::Errno(libc::ENAMETOOLONG));
        }
        // No table has names that are not UTF-8.
        let Some(name) = name.to_str() else { return Ok(Lookup::Absent { keep: true }) };
        let place = lock(&self.nodes).place(parent).map(|(place, _)| place);
        match place {
            Some(Place::Dir(dir)) => self.lookup_in_dir(&dir, name, wait),
            Some(Place::Namespace(path)) => self.lookup_in_namespace(parent, &path, name),
            Some(Place::Failed) => Err(Fault::IO),
            Some(Place::Moment(_)) => Err(Fault::STALE),
            Some(Place::Hudifs(scope)) => self.lookup_in_hudifs(parent, &scope, name, wait),
            Some(Place::Moments(state)) => self.lookup_moment(parent, &state, name, wait),
            Some(Place::Virtual(..) | Place::Socket | Place::Latest(_)) => Err(Fault::NOT_A_DIRECTORY),
            None if lock(&self.nodes).file(parent).is_some() => Err(Fault::NOT_A_DIRECTORY),
            None => Err(Fault::STALE),
        }
    }

    /// The attributes of an inode.
    pub fn getattr(&self, ino: u64, wait: Wait) -> Result<Attr, Fault> {
        let place = lock(&self.nodes).place(ino).map(|(place, _)| place);
        if let Some(place) = place {
            return self.place_attr(ino, &place, wait);
        }
        let known = lock(&self.nodes).file(ino);
        let Some(known) = known else { return self.opens.attr(ino).ok_or(Fault::STALE) };
        match self.known_file(&known, wait) {
            Ok((generation, files, index)) => {
                let file = files.view.get(index).ok_or(Fault::STALE)?;
                self.file_attr(ino, &known.part, &generation, &file, wait)
            }
            // An open file has attributes although its name is gone.
            Err(fault) => self.opens.attr(ino).ok_or(fault),
        }
    }

    /// Where a file that the kernel knows is listed now, or was last.
    pub(super) fn known_file(
        &self,
        known: &KnownFile,
        wait: Wait,
    ) -> Result<(Arc<Generation>, Arc<Files>, u32), Fault> {
        let generation = known.part.state.generation();
        let files = known.part.files(&generation, wait)?;
        let view = &*generation.view;
        if let Some(index) = known.part.find(view, &files, known.number, known.index) {
            return Ok((generation, files, index));
        }
        for files in known.part.retired() {
            if let Some(index) = known.part.find(view, &files, known.number, known.index) {
                return Ok((generation, files, index));
            }
        }
        Err(Fault::STALE)
    }

    /// The attributes of a file; the store is asked only for the size of a version that is no longer listed.
    pub(super) fn file_attr(
        &self,
        ino: u64,
        part: &Part,
        generation: &Generation,
        file: &FileRef<'_>,
        wait: Wait,
    ) -> Result<Attr, Fault> {
        let size = match file.size() {
            Some(size) => size,
            None => self.old_size(part, generation, file, wait)?,
        };
        let mtime_ms = stamp(&*generation.view, Some(file.instant()));
        Ok(Attr { ino, kind: Kind::File, size, mtime_ms, nlink: 1, mode: self.options.file_mode, cacheable: true })
    }

    fn old_size(&self, part: &Part, generation: &Generation, file: &FileRef<'_>, wait: Wait) -> Result<u64, Fault> {
        let number = part.number(&*generation.view, file);
        let key = (number.ino, number.check);
        if let Some(size) = lock(&self.old_sizes).get(&key) {
            return Ok(*size);
        }
        let table = &part.state.table;
        if wait == Wait::No && !table.local {
            return Err(Fault::WouldBlock);
        }
        let stored = generation.view.stored_path(&part.path, file);
        match stored.and_then(|path| table.source.storage().stat(&path)) {
            Ok(meta) => {
                let mut sizes = lock(&self.old_sizes);
                if sizes.len() >= OLD_SIZES_MAX {
                    sizes.clear();
                }
                sizes.insert(key, meta.size);
                Ok(meta.size)
            }
            Err(error) => Err(self.gone(part, file.name(), &error)),
        }
    }

    /// The answer for a committed file that the store does not give, and an event that says why.
    pub(super) fn gone(&self, part: &Part, name: &str, error: &crate::error::Error) -> Fault {
        let (code, errno) = match error.kind() {
            ErrorKind::NotFound => (EventCode::CleanedUnderReader, libc::ESTALE),
            ErrorKind::Stale => (EventCode::ObjectReplaced, libc::ESTALE),
            ErrorKind::Denied => (EventCode::ReadFailed, libc::EACCES),
            _ => (EventCode::ReadFailed, libc::EIO),
        };
        let mut event = part.state.table.event(code, error).partition(part.path.as_str()).file(name);
        if code == EventCode::CleanedUnderReader {
            event = event.hint(CLEANED_HINT);
        }
        event.record();
        Fault::Errno(errno)
    }

    fn lookup_in_dir(&self, dir: &Arc<Dir>, name: &str, wait: Wait) -> Result<Lookup, Fault> {
        let state = &dir.part.state;
        if name == ".hudifs" && dir.part.path.is_root() && self.is_live_root(dir) {
            let scope = Some(state.clone());
            let number = state.table.seed.child("v").number("");
            let (ino, place) = lock(&self.nodes).claim_place(number, dir.ino, |_| Place::Hudifs(scope));
            return self.place_attr(ino, &place, wait).map(Lookup::keep);
        }
        loop {
            let generation = state.generation();
            if let Some(found) = self.lookup_at(dir, &generation, name, wait)? {
                return Ok(found);
            }
            if state.pinned.is_some() {
                return Ok(Lookup::Absent { keep: true });
            }
            {
                let mut absent = lock(&dir.absent);
                if absent.len() >= ABSENT_MAX && !absent.contains(name) {
                    return Ok(Lookup::Absent { keep: false });
                }
                absent.insert(name.into());
            }
            // A generation that was published after the name was remembered will tell the kernel; one that came before has not.
            if state.generation().number == generation.number {
                return Ok(Lookup::Absent { keep: true });
            }
        }
    }

    fn lookup_at(
        &self,
        dir: &Arc<Dir>,
        generation: &Arc<Generation>,
        name: &str,
        wait: Wait,
    ) -> Result<Option<Lookup>, Fault> {
        let part = &dir.part;
        let tree = generation.tree(&part.state.table, wait)?;
        let Ok(path) = part.path.join(name) else { return Ok(Some(Lookup::Absent { keep: true })) };
        if tree.contains(&path) || part.state.look_at_vanished(&path) {
            let child = part.state.part(&path);
            let attr = self.child_dir_attr(&child, generation, wait)?;
            let (ino, _) = self.claim_dir(dir, child);
            return Ok(Some(Lookup::keep(Attr { ino, ..attr })));
        }
        let vanished = part.state.look_at_vanished(&part.path);
        if !tree.is_partition(&part.path) && !vanished {
            return Ok(None);
        }
        // Names of base files never begin with a dot: Hadoop's checksum files, editors' and shells' probes.
        if name.starts_with('.') {
            return Ok(Some(Lookup::Absent { keep: tree.children_len(&part.path) == 0 }));
        }
        let files = self.files(part, generation, wait)?;
        if let Some(file) = files.view.find(name) {
            return self.found_file(part, generation, &file, wait).map(Some);
        }
        // Listed before a commit that dropped it from the table: it can be opened for as long as its bytes exist.
        for files in part.retired() {
            if let Some(file) = files.view.find(name) {
                return self.found_file(part, generation, &file, wait).map(Some);
            }
        }
        if lock(&self.nodes).knows_file(part.seed.number(name)) {
            let message = format!("{name} is no longer part of the table");
            let event = Event::new(EventCode::CleanedUnderReader, message).hint(CLEANED_HINT);
            event.table(part.state.table.source.uri()).partition(part.path.as_str()).file(name).record();
            return Err(Fault::STALE);
        }
        Ok(None)
    }

    fn found_file(
        &self,
        part: &Arc<Part>,
        generation: &Generation,
        file: &FileRef<'_>,
        wait: Wait,
    ) -> Result<Lookup, Fault> {
        let attr = self.file_attr(0, part, generation, file, wait)?;
        let number = part.number(&*generation.view, file);
        let ino = lock(&self.nodes).claim_file(number, part, file.index());
        Ok(Lookup::keep(Attr { ino, ..attr }))
    }

    /// Counts a lookup of a directory below `parent`.
    pub(super) fn claim_dir(&self, parent: &Dir, part: Arc<Part>) -> (u64, Place) {
        let number = parent.seed.number(part.path.as_str());
        let (seed, up) = (parent.seed, parent.ino);
        lock(&self.nodes).claim_place(number, up, |ino| {
            let (absent, read_ms) = (Default::default(), AtomicU64::new(0));
            Place::Dir(Arc::new(Dir { ino, parent: up, seed, part, moment: None, absent, read_ms }))
        })
    }

    /// Attributes of a directory of a table's tree, without its number. A partition that cannot be loaded still has some:
    /// reading it is what fails.
    pub(super) fn child_dir_attr(
        &self,
        part: &Arc<Part>,
        generation: &Arc<Generation>,
        wait: Wait,
    ) -> Result<Attr, Fault> {
        let tree = generation.tree(&part.state.table, wait)?;
        let newest = stamp(&*generation.view, generation.view.instant());
        if !tree.is_partition(&part.path) {
            return Ok(self.dir_attr_with(0, newest, false));
        }
        let leaf = tree.children_len(&part.path) == 0;
        match self.files(part, generation, wait) {
            Ok(files) => Ok(self.dir_attr_with(0, stamp(&*generation.view, files.newest()), leaf)),
            Err(Fault::WouldBlock) => Err(Fault::WouldBlock),
            Err(Fault::Errno(_)) => Ok(Attr { cacheable: false, ..self.dir_attr_with(0, newest, leaf) }),
        }
    }

    /// True for the root that follows commits (or is pinned by the mount's own option), not for one below `read_optimized`.
    fn is_live_root(&self, dir: &Dir) -> bool {
        match self.tables().get(&dir.part.state.table.path) {
            Some(Mounted::Serving(state)) => Arc::ptr_eq(state, &dir.part.state),
            _ => false,
        }
    }
}

/// The time that a node shows for its commit. Tests and metadata tables have instants that are no dates.
pub(super) fn stamp(view: &dyn View, instant: Option<InstantTime>) -> i64 {
    instant.map(|i| view.instant_ms(&i)).filter(|ms| *ms > 0).unwrap_or(NO_COMMIT_MS)
}

/// What to do when files vanish below a reader.
pub(super) const CLEANED_HINT: &str = "another program's cleaner removed it while a reader still had its name; let the cleaner \
     retain commits for longer than the longest query, or read through .hudifs/read_optimized/<instant> with a retention to match";
