//! open, read, release.
//!
//! An inode that is open has one [`OpenFile`], shared by all its handles, so that whoever serves it can keep one thing of its own
//! for each open inode. It stays for a short while after the last close, because the next open is then cheap; not longer,
//! because it keeps the disk space of a file that a cleaner removes.

use super::node::Place;
use super::part::Part;
use super::state::{Table, lock};
use super::table_fs::TableFs;
use super::{Attr, Fault, Wait};
use crate::error::{Error, ErrorKind, Result as CrateResult};
use crate::storage::{RandomRead, TablePath};
use crate::telemetry::EventCode;
use bytes::Bytes;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Most closed files that are kept open.
const IDLE_MAX: usize = 128;

/// An open inode.
pub struct OpenFile {
    /// Its attributes when it was opened.
    pub attr: Attr,
    /// A place for whoever serves the file, as long as it is open.
    pub kernel: OnceLock<Box<dyn Any + Send + Sync>>,
    content: Content,
}

enum Content {
    Stored { reader: Arc<dyn RandomRead>, part: Arc<Part>, stored: TablePath },
    Memory(Arc<[u8]>),
}

impl OpenFile {
    /// Reads for somebody who may wait: hands at most `len` bytes at `offset` to `done`, fewer only at the end, at once or from
    /// another thread.
    pub fn read(self: &Arc<Self>, offset: u64, len: u32, done: impl FnOnce(Result<Bytes, Fault>) + Send + 'static) {
        match &self.content {
            Content::Memory(content) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
                let end = start.saturating_add(len as usize).min(content.len());
                done(Ok(Bytes::copy_from_slice(content.get(start..end).unwrap_or_default())));
            }
            Content::Stored { reader, .. } => {
                let file = self.clone();
                reader.read_at(offset, len, Box::new(move |read| done(read.map_err(|e| file.read_failed(&e)))));
            }
        }
    }

    /// The open local file, for the kernel to read by itself.
    pub fn local_file(&self) -> Option<&std::fs::File> {
        match &self.content {
            Content::Stored { reader, .. } => reader.local_file(),
            Content::Memory(_) => None,
        }
    }

    /// True for content made for this open: the kernel must not keep its pages.
    pub fn is_virtual(&self) -> bool {
        matches!(self.content, Content::Memory(_))
    }

    fn read_failed(&self, error: &Error) -> Fault {
        let Content::Stored { part, stored, .. } = &self.content else { return Fault::IO };
        let (code, errno) = match error.kind() {
            ErrorKind::NotFound => (EventCode::CleanedUnderReader, libc::ESTALE),
            ErrorKind::Stale => (EventCode::ObjectReplaced, libc::ESTALE),
            ErrorKind::Denied => (EventCode::ReadFailed, libc::EACCES),
            _ => (EventCode::ReadFailed, libc::EIO),
        };
        let event = part.state.table.event(code, error).partition(part.path.as_str()).file(stored.file_name());
        if code == EventCode::CleanedUnderReader { event.hint(super::lookup::CLEANED_HINT) } else { event }.record();
        Fault::Errno(errno)
    }
}

/// Files that are open, and those that were until a moment ago.
#[derive(Default)]
pub struct Opens {
    inodes: Mutex<Inodes>,
    handles: Mutex<Handles>,
}

#[derive(Default)]
struct Inodes {
    open: HashMap<u64, Inode>,
    idle: VecDeque<(u64, Instant)>,
}

struct Inode {
    cell: Arc<Mutex<Option<Arc<OpenFile>>>>,
    handles: usize,
    idle_since: Option<Instant>,
}

#[derive(Default)]
struct Handles {
    files: Vec<Option<Arc<OpenFile>>>,
    free: Vec<usize>,
}

impl Opens {
    /// Number of handles.
    pub fn len(&self) -> usize {
        let handles = lock(&self.handles);
        handles.files.len() - handles.free.len()
    }

    /// The attributes of an inode that is open.
    pub fn attr(&self, ino: u64) -> Option<Attr> {
        let cell = lock(&self.inodes).open.get(&ino)?.cell.clone();
        // One that is just being opened has none yet; that may take as long as the store takes.
        let file = cell.try_lock().ok()?;
        file.as_ref().map(|f| f.attr)
    }

    /// Stored paths of a table's open files.
    pub fn stored(&self, table: &Arc<Table>) -> Vec<TablePath> {
        let handles = lock(&self.handles);
        let mut stored: Vec<TablePath> = handles
            .files
            .iter()
            .flatten()
            .filter_map(|f| match &f.content {
                Content::Stored { part, stored, .. } if Arc::ptr_eq(&part.state.table, table) => Some(stored.clone()),
                _ => None,
            })
            .collect();
        stored.sort_unstable();
        stored.dedup();
        stored
    }

    /// Closes what nobody has used for `age`.
    pub fn expire(&self, age: Duration) {
        let mut dropped = Vec::new();
        let mut inodes = lock(&self.inodes);
        while inodes.idle.front().is_some_and(|(_, at)| at.elapsed() >= age) {
            dropped.extend(inodes.drop_oldest());
        }
        drop(inodes);
        // Closing a file may take a moment: not under the lock.
        drop(dropped);
    }

    /// The open file of an inode, opened by `open` if it is not. Two callers never open one inode twice.
    fn acquire(&self, ino: u64, open: impl FnOnce() -> Result<OpenFile, Fault>) -> Result<Arc<OpenFile>, Fault> {
        let cell = {
            let mut inodes = lock(&self.inodes);
            let inode =
                inodes.open.entry(ino).or_insert_with(|| Inode { cell: Arc::default(), handles: 0, idle_since: None });
            inode.handles += 1;
            inode.idle_since = None;
            inode.cell.clone()
        };
        let mut slot = lock(&cell);
        if let Some(file) = &*slot {
            return Ok(file.clone());
        }
        match open() {
            Ok(file) => Ok(slot.insert(Arc::new(file)).clone()),
            Err(fault) => {
                drop(slot);
                self.release_inode(ino);
                Err(fault)
            }
        }
    }

    fn release_inode(&self, ino: u64) {
        let mut dropped = None;
        let mut inodes = lock(&self.inodes);
        let Some(inode) = inodes.open.get_mut(&ino) else { return };
        inode.handles = inode.handles.saturating_sub(1);
        if inode.handles > 0 {
            return;
        }
        if lock(&inode.cell).is_none() {
            inodes.open.remove(&ino);
            return;
        }
        let now = Instant::now();
        inode.idle_since = Some(now);
        inodes.idle.push_back((ino, now));
        if inodes.idle.len() > IDLE_MAX {
            dropped = inodes.drop_oldest();
        }
        drop(inodes);
        drop(dropped);
    }

    fn add_handle(&self, file: Arc<OpenFile>) -> u64 {
        let mut handles = lock(&self.handles);
        let at = match handles.free.pop() {
            Some(at) => at,
            None => {
                handles.files.push(None);
                handles.files.len() - 1
            }
        };
        if let Some(slot) = handles.files.get_mut(at) {
            *slot = Some(file);
        }
        at as u64
    }
}

impl Inodes {
    fn drop_oldest(&mut self) -> Option<Inode> {
        let (ino, at) = self.idle.pop_front()?;
        // It may have been opened again, and even closed again, since.
        if self.open.get(&ino).is_some_and(|i| i.idle_since == Some(at)) { self.open.remove(&ino) } else { None }
    }
}

impl TableFs {
    /// Opens a file for reading; the handle is to be released. The caller has refused every other mode.
    pub fn open(&self, ino: u64, wait: Wait) -> Result<(u64, Arc<OpenFile>), Fault> {
        let place = lock(&self.nodes).place(ino).map(|(place, _)| place);
        if let Some(place) = place {
            return self.open_place(ino, &place, wait);
        }
        if let Some(at_hand) = self.open_again(ino) {
            return Ok(at_hand);
        }
        let known = lock(&self.nodes).file(ino).ok_or(Fault::STALE)?;
        if wait == Wait::No && !known.part.state.table.local {
            return Err(Fault::WouldBlock);
        }
        let (generation, files, index) = self.known_file(&known, wait)?;
        let file = files.view.get(index).ok_or(Fault::STALE)?;
        let attr = self.file_attr(ino, &known.part, &generation, &file, wait)?;
        let part = &known.part;
        let opened = self.opens.acquire(ino, || {
            let storage = part.state.table.source.storage();
            let stored =
                generation.view.stored_path(&part.path, &file).map_err(|e| self.gone(part, file.name(), &e))?;
            let reader =
                storage.open(&stored, Some(attr.size)).map_err(|e| self.open_failed(part, &stored, attr.size, e))?;
            let content = Content::Stored { reader, part: part.clone(), stored };
            Ok(OpenFile { attr, kernel: OnceLock::new(), content })
        })?;
        Ok((self.opens.add_handle(opened.clone()), opened))
    }

    /// Closes a handle.
    pub fn release(&self, handle: u64) {
        let mut handles = lock(&self.opens.handles);
        let Ok(at) = usize::try_from(handle) else { return };
        let Some(file) = handles.files.get_mut(at).and_then(Option::take) else { return };
        handles.free.push(at);
        drop(handles);
        if !file.is_virtual() {
            self.opens.release_inode(file.attr.ino);
        }
    }

    /// The open file behind a handle.
    pub fn handle(&self, handle: u64) -> Result<Arc<OpenFile>, Fault> {
        let handles = lock(&self.opens.handles);
        let file = usize::try_from(handle).ok().and_then(|at| handles.files.get(at)?.clone());
        file.ok_or(Fault::Errno(libc::EBADF))
    }

    /// An inode that is open, or was a moment ago.
    fn open_again(&self, ino: u64) -> Option<(u64, Arc<OpenFile>)> {
        let file = {
            let mut inodes = lock(&self.opens.inodes);
            let inode = inodes.open.get_mut(&ino)?;
            // A cell that is being filled is waited for on the other way.
            let file = inode.cell.try_lock().ok()?.as_ref()?.clone();
            inode.handles += 1;
            inode.idle_since = None;
            file
        };
        Some((self.opens.add_handle(file.clone()), file))
    }

    fn open_place(&self, ino: u64, place: &Place, wait: Wait) -> Result<(u64, Arc<OpenFile>), Fault> {
        let Place::Virtual(scope, file) = place else { return Err(Fault::IS_A_DIRECTORY) };
        let attr = self.place_attr(ino, place, wait)?;
        let content = Content::Memory(self.content(scope, *file));
        let opened = Arc::new(OpenFile { attr, kernel: OnceLock::new(), content });
        Ok((self.opens.add_handle(opened.clone()), opened))
    }

    /// Tells a file that is gone or was replaced from one that the table describes wrongly.
    fn open_failed(&self, part: &Part, stored: &TablePath, size: u64, error: Error) -> Fault {
        let storage = part.state.table.source.storage();
        let found: CrateResult<_> = storage.stat(stored);
        if error.kind() == ErrorKind::Stale
            && let Ok(found) = found
            && found.size != size
        {
            let error = Error::corrupt(format!("{stored}: has {} bytes, the table says {size}", found.size))
                .with_hint("the file or the table's metadata is damaged; run `hudifs doctor`");
            let event = part.state.table.event(EventCode::SizeMismatch, &error);
            event.partition(part.path.as_str()).file(stored.file_name()).record();
            return Fault::IO;
        }
        self.gone(part, stored.file_name(), &error)
    }
}
