//! readdir: listings that stay within one generation, without a directory handle.
//!
//! The offset of each entry of a table's directory carries the generation in its high half and the position in its low half:
//! 0 and 1 are `.` and `..`, then the directories, then a place for each committed file, listed or not. A stream that goes on
//! therefore names the generation that it was begun in, and the same offset means the same entry for ever.

use super::lookup::{NO_COMMIT_MS, stamp};
use super::node::{Dir, Place};
use super::special::{Names, names_of_moments};
use super::state::{ViewState, lock};
use super::table_fs::{Mounted, TableFs};
use super::{Attr, Fault, Kind, Wait};
use crate::storage::TablePath;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// One entry of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its inode number.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// Where the listing goes on after it.
    pub next: u64,
    /// Its attributes, where they were asked for.
    pub attr: Option<Attr>,
}

/// Takes the entries of a listing.
pub trait Sink {
    /// Takes an entry; false if there is no room for it, which ends the call.
    fn add(&mut self, item: &Item<'_>) -> bool;
}

const GENERATION_SHIFT: u32 = 32;
const POSITION_MASK: u64 = u32::MAX as u64;

impl TableFs {
    /// Lists a directory from `offset` on: 0, or the `next` of an entry. With `plus` each entry that is taken, except `.` and
    /// `..`, counts as a lookup.
    pub fn readdir(&self, ino: u64, offset: u64, plus: bool, wait: Wait, sink: &mut dyn Sink) -> Result<(), Fault> {
        let place = lock(&self.nodes).place(ino);
        match place {
            Some((Place::Dir(dir), _)) => self.readdir_dir(&dir, offset, plus, wait, sink),
            Some((Place::Namespace(path), parent)) => {
                let names = self.names_in_namespace(ino, &path);
                self.readdir_names((ino, parent), &names, offset, plus, sink)
            }
            Some((Place::Failed, _)) => Err(Fault::IO),
            Some((Place::Moment(_), _)) => Err(Fault::STALE),
            Some((Place::Hudifs(scope), parent)) => {
                let names = self.names_in_hudifs(&scope);
                self.readdir_names((ino, parent), &names, offset, plus, sink)
            }
            Some((Place::Moments(state), parent)) => {
                self.readdir_names((ino, parent), &names_of_moments(&state), offset, plus, sink)
            }
            Some(_) => Err(Fault::NOT_A_DIRECTORY),
            None if lock(&self.nodes).file(ino).is_some() => Err(Fault::NOT_A_DIRECTORY),
            None => Err(Fault::STALE),
        }
    }

    fn readdir_dir(
        &self,
        dir: &Arc<Dir>,
        offset: u64,
        plus: bool,
        wait: Wait,
        sink: &mut dyn Sink,
    ) -> Result<(), Fault> {
        let (part, state) = (&dir.part, &dir.part.state);
        let generation = match offset {
            0 => state.generation(),
            _ => state.generation_at(offset >> GENERATION_SHIFT, wait)?,
        };
        let tree = generation.tree(&state.table, wait)?;
        let files = match tree.is_partition(&part.path) {
            true => Some(self.files(part, &generation, wait)?),
            false => None,
        };
        dir.read_ms.store(self.now_ms(), Relaxed);
        let dirs = u64::from(tree.children_len(&part.path));
        let at = |position: u64| (generation.number << GENERATION_SHIFT) | position;
        let start = offset & POSITION_MASK;
        for position in start..2 + dirs {
            let next = at(position + 1);
            let taken = match position.checked_sub(2) {
                None => self.add_dot(sink, position, (dir.ino, dir.parent), next, plus),
                Some(n) => {
                    let path = u32::try_from(n).ok().and_then(|n| tree.child(&part.path, n)).ok_or(Fault::IO)?;
                    self.add_child(dir, path, &generation, next, plus, sink)?
                }
            };
            if !taken {
                return Ok(());
            }
        }
        let Some(files) = files else { return Ok(()) };
        let mut nodes = lock(&self.nodes);
        // Neighbours mostly come from one commit.
        let mut newest = (None, 0);
        let first = u32::try_from(start.saturating_sub(2 + dirs)).map_err(|_| Fault::STALE)?;
        for file in (first..files.view.len() as u32).filter_map(|i| files.view.get(i)).filter(|f| f.is_listed()) {
            // A file called like a directory beside it cannot be reached.
            if dirs > 0 && part.path.join(file.name()).is_ok_and(|p| tree.contains(&p)) {
                continue;
            }
            let number = part.number(&*generation.view, &file);
            let next = at(2 + dirs + u64::from(file.index()) + 1);
            let item = |ino, attr| Item { name: file.name(), ino, kind: Kind::File, next, attr };
            if !plus {
                if !sink.add(&item(nodes.peek(number), None)) {
                    break;
                }
                continue;
            }
            let ino = nodes.claim_file(number, part, file.index());
            if newest.0 != Some(file.instant()) {
                newest = (Some(file.instant()), stamp(&*generation.view, Some(file.instant())));
            }
            let mtime_ms = newest.1;
            let (size, mode) = (file.size().unwrap_or(0), self.options.file_mode);
            // A listed file's size is known; if it is not, the kernel asks again.
            let cacheable = file.size().is_some();
            let attr = Attr { ino, kind: Kind::File, size, mtime_ms, nlink: 1, mode, cacheable };
            if !sink.add(&item(ino, Some(attr))) {
                nodes.forget(ino, 1);
                break;
            }
        }
        Ok(())
    }

    fn add_dot(&self, sink: &mut dyn Sink, position: u64, inos: (u64, u64), next: u64, plus: bool) -> bool {
        let (name, ino) = if position == 0 { (".", inos.0) } else { ("..", inos.1) };
        // The kernel takes no attributes from these two.
        let attr = plus.then(|| Attr { cacheable: false, ..self.dir_attr_with(ino, 0, false) });
        sink.add(&Item { name, ino, kind: Kind::Dir, next, attr })
    }

    fn add_child(
        &self,
        dir: &Dir,
        path: &TablePath,
        generation: &Arc<super::state::Generation>,
        next: u64,
        plus: bool,
        sink: &mut dyn Sink,
    ) -> Result<bool, Fault> {
        let name = path.file_name();
        if !plus {
            let ino = lock(&self.nodes).peek(dir.seed.number(path.as_str()));
            return Ok(sink.add(&Item { name, ino, kind: Kind::Dir, next, attr: None }));
        }
        let child = dir.part.state.part(path);
        // A partition is not loaded for the sake of its parent's listing: its time is told when somebody asks.
        let attr = match generation.tree(&child.state.table, Wait::No)?.is_partition(path) && !child.is_loaded() {
            true => Attr { cacheable: false, ..self.dir_attr_with(0, NO_COMMIT_MS, true) },
            false => match self.child_dir_attr_quietly(&child, generation) {
                Some(attr) => attr,
                None => Attr { cacheable: false, ..self.dir_attr_with(0, NO_COMMIT_MS, true) },
            },
        };
        let (ino, _) = self.claim_dir(dir, child);
        let taken = sink.add(&Item { name, ino, kind: Kind::Dir, next, attr: Some(Attr { ino, ..attr }) });
        if !taken {
            self.forget(ino, 1);
        }
        Ok(taken)
    }

    fn child_dir_attr_quietly(
        &self,
        child: &Arc<super::part::Part>,
        generation: &Arc<super::state::Generation>,
    ) -> Option<Attr> {
        // Attributes of the present generation only: older ones may belong to a directory that has changed since.
        (child.state.generation().number == generation.number)
            .then(|| self.child_dir_attr(child, generation, Wait::No).ok())
            .flatten()
    }

    /// Lists names that a few lines compute; their attributes are left to lookups.
    fn readdir_names(
        &self,
        (ino, parent): (u64, u64),
        names: &Names,
        offset: u64,
        plus: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Fault> {
        let start = usize::try_from(offset).map_err(|_| Fault::STALE)?;
        for position in offset..2 {
            if !self.add_dot(sink, position, (ino, parent), position + 1, plus) {
                return Ok(());
            }
        }
        for (n, (name, named)) in names.iter().enumerate().skip(start.saturating_sub(2)) {
            let mut nodes = lock(&self.nodes);
            let child = match plus {
                true => nodes.claim_place(named.number, ino, |_| named.place.clone()).0,
                false => nodes.peek(named.number),
            };
            let attr = plus.then(|| {
                let nothing_known = self.dir_attr_with(child, 0, false);
                Attr { kind: named.kind, size: 0, cacheable: false, ..nothing_known }
            });
            if !sink.add(&Item { name, ino: child, kind: named.kind, next: n as u64 + 3, attr }) {
                if plus {
                    nodes.forget(child, 1);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// The target of a symbolic link.
    pub fn readlink(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        use std::os::unix::ffi::OsStrExt;
        let place = lock(&self.nodes).place(ino).map(|(place, _)| place);
        match place {
            Some(Place::Socket) => {
                let target = self.host.control_socket().ok_or(Fault::NOT_FOUND)?;
                Ok(target.as_os_str().as_bytes().to_vec())
            }
            Some(Place::Latest(state)) => {
                let instant = state.generation().view.instant().ok_or(Fault::NOT_FOUND)?;
                Ok(instant.as_str().as_bytes().to_vec())
            }
            Some(_) => Err(Fault::Errno(libc::EINVAL)),
            None => Err(Fault::STALE),
        }
    }

    /// The live state of a table, where it is served.
    pub(super) fn serving(&self, table: &TablePath) -> Option<Arc<ViewState>> {
        match self.tables().get(table) {
            Some(Mounted::Serving(state)) => Some(state.clone()),
            _ => None,
        }
    }
}
