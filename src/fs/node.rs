//! What an inode number stands for, and how often the kernel has been given it.
//!
//! Files are many, so an entry is small: the part, an index into its list as a hint, the check and the count. Everything else is
//! a [`Place`]. One lock guards all; nothing is asked of anybody under it.

use super::host::VirtualFile;
use super::ino::{Number, Seed};
use super::part::Part;
use super::state::{Table, ViewState};
use crate::storage::TablePath;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// The root's inode number.
pub const ROOT: u64 = 1;

/// A directory of a table's tree.
pub struct Dir {
    /// Its inode number.
    pub ino: u64,
    /// The inode number of the directory that holds it.
    pub parent: u64,
    /// The numbers of the directories below the same root grow from this.
    pub seed: Seed,
    /// Its files.
    pub part: Arc<Part>,
    /// Its name, for the root of a view as of an instant.
    pub moment: Option<Box<str>>,
    /// Names that the kernel has been told not to exist.
    pub absent: Mutex<HashSet<Box<str>>>,
    /// When its listing was last read, milliseconds since the tree was made; 0 for never.
    pub read_ms: AtomicU64,
}

/// The scope of a `.hudifs`: a table's live root, or the whole mount.
pub type Scope = Option<Arc<ViewState>>;

/// Everything that is not a data file.
#[derive(Clone)]
pub enum Place {
    /// A directory of a table's tree.
    Dir(Arc<Dir>),
    /// A directory of a warehouse above its tables.
    Namespace(TablePath),
    /// The directory of a table that cannot be opened.
    Failed,
    /// `.hudifs`
    Hudifs(Scope),
    /// A file whose content is made when it is looked at.
    Virtual(Scope, VirtualFile),
    /// `.hudifs/control.sock`
    Socket,
    /// `.hudifs/read_optimized`
    Moments(Arc<ViewState>),
    /// A view as of an instant that was listed and not yet looked up.
    Moment(Arc<ViewState>),
    /// `.hudifs/read_optimized/latest`
    Latest(Arc<ViewState>),
}

impl Place {
    /// The table that it belongs to.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Place::Dir(dir) => Some(&dir.part.state.table),
            Place::Moments(s)
            | Place::Moment(s)
            | Place::Latest(s)
            | Place::Hudifs(Some(s))
            | Place::Virtual(Some(s), _) => Some(&s.table),
            _ => None,
        }
    }
}

struct PlaceNode {
    place: Place,
    parent: u64,
    check: u32,
    lookups: u64,
}

struct FileNode {
    part: u32,
    index: u32,
    check: u32,
    lookups: u32,
}

/// A data file that the kernel knows.
pub struct KnownFile {
    /// Where it is.
    pub part: Arc<Part>,
    /// Its index in the part's list when it was last looked at.
    pub index: u32,
    /// Its number.
    pub number: Number,
}

/// All nodes that the kernel knows.
#[derive(Default)]
pub struct Nodes {
    files: HashMap<u64, FileNode, BuildHasherDefault<Spread>>,
    places: HashMap<u64, PlaceNode, BuildHasherDefault<Spread>>,
    parts: HashMap<u32, (Arc<Part>, u32), BuildHasherDefault<Spread>>,
    /// Things whose own number another thing had.
    moved: HashMap<(u64, u32), u64>,
}

impl Nodes {
    /// The inode number that a thing has or would get.
    pub fn peek(&self, number: Number) -> u64 {
        if let Some(ino) = (!self.moved.is_empty()).then(|| self.moved.get(&(number.ino, number.check))).flatten() {
            return *ino;
        }
        let mut at = number;
        while self.check_of(at.ino).is_some_and(|check| check != number.check) {
            at = at.next();
        }
        at.ino
    }

    /// Counts one lookup of a file, and returns its inode number.
    pub fn claim_file(&mut self, number: Number, part: &Arc<Part>, index: u32) -> u64 {
        let ino = self.settle(number);
        match self.files.entry(ino) {
            Entry::Occupied(mut node) => {
                let node = node.get_mut();
                node.lookups = node.lookups.saturating_add(1);
                if node.part == part.id {
                    node.index = index;
                }
            }
            Entry::Vacant(vacant) => {
                vacant.insert(FileNode { part: part.id, index, check: number.check, lookups: 1 });
                self.parts.entry(part.id).or_insert_with(|| (part.clone(), 0)).1 += 1;
            }
        }
        ino
    }

    /// Counts one lookup of a place, which `make` makes for its inode number where it is new.
    pub fn claim_place(&mut self, number: Number, parent: u64, make: impl FnOnce(u64) -> Place) -> (u64, Place) {
        let ino = self.settle(number);
        let mut make = Some(make);
        let node = self.places.entry(ino).or_insert_with(|| {
            let place = make.take().map_or(Place::Socket, |make| make(ino));
            PlaceNode { place, parent, check: number.check, lookups: 0 }
        });
        node.lookups = node.lookups.saturating_add(1);
        if let Some(make) = make {
            // What a listing only named is now looked up.
            if matches!(node.place, Place::Moment(_)) {
                node.place = make(ino);
            }
        }
        (ino, node.place.clone())
    }

    /// Puts the root in place, for ever.
    pub fn set_root(&mut self, place: Place) {
        self.places.insert(ROOT, PlaceNode { place, parent: ROOT, check: 0, lookups: u64::MAX });
    }

    /// The place with that inode number, and its parent's.
    pub fn place(&self, ino: u64) -> Option<(Place, u64)> {
        self.places.get(&ino).map(|n| (n.place.clone(), n.parent))
    }

    /// The file with that inode number.
    pub fn file(&self, ino: u64) -> Option<KnownFile> {
        let node = self.files.get(&ino)?;
        let (part, _) = self.parts.get(&node.part)?;
        Some(KnownFile { part: part.clone(), index: node.index, number: Number { ino, check: node.check } })
    }

    /// True if the kernel knows a file with that number.
    pub fn knows_file(&self, number: Number) -> bool {
        self.files.get(&self.peek(number)).is_some_and(|n| n.check == number.check)
    }

    /// All places.
    pub fn places(&self) -> impl Iterator<Item = (u64, &Place)> {
        self.places.iter().map(|(ino, n)| (*ino, &n.place))
    }

    /// The kernel gives back `count` lookups. Returns the part that nothing refers to any more.
    pub fn forget(&mut self, ino: u64, count: u64) -> Option<Arc<Part>> {
        if let Some(node) = self.files.get_mut(&ino) {
            // A count that reached its limit is no longer exact: such a node stays.
            if node.lookups == u32::MAX {
                return None;
            }
            node.lookups = node.lookups.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
            if node.lookups == 0 {
                let part = node.part;
                self.files.remove(&ino);
                return self.release_part(part);
            }
        } else if let Some(node) = self.places.get_mut(&ino)
            && ino != ROOT
        {
            node.lookups = node.lookups.saturating_sub(count);
            if node.lookups == 0
                && let Some(PlaceNode { place: Place::Dir(dir), .. }) = self.places.remove(&ino)
                && !self.parts.contains_key(&dir.part.id)
            {
                return Some(dir.part.clone());
            }
        }
        None
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.files.len() + self.places.len()
    }

    /// Lets maps that have become much too large shrink.
    pub fn shrink(&mut self) {
        if self.files.capacity() > 1024 && self.files.len() * 4 < self.files.capacity() {
            self.files.shrink_to_fit();
        }
    }

    fn release_part(&mut self, id: u32) -> Option<Arc<Part>> {
        let (_, files) = self.parts.get_mut(&id)?;
        *files -= 1;
        if *files > 0 {
            return None;
        }
        self.parts.remove(&id).map(|(part, _)| part)
    }

    fn settle(&mut self, number: Number) -> u64 {
        let ino = self.peek(number);
        if ino != number.ino {
            tracing::debug!(ino, own = number.ino, "two things hash to one inode number");
            self.moved.insert((number.ino, number.check), ino);
        }
        ino
    }

    fn check_of(&self, ino: u64) -> Option<u32> {
        self.files.get(&ino).map(|n| n.check).or_else(|| self.places.get(&ino).map(|n| n.check))
    }
}

/// Inode numbers are hashes already; their top bit is always clear, which the map's tags should not inherit. Parts are counted.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> impl FnOnce(u64) -> Place {
        |_| Place::Failed
    }

    #[test]
    fn things_with_one_number_get_different_ones_and_keep_them() {
        let mut nodes = Nodes::default();
        let number = |check| Number { ino: 1 << 40, check };
        let inos: Vec<u64> = (0..5).map(|check| nodes.claim_place(number(check), ROOT, place()).0).collect();
        assert_eq!(inos[0], 1 << 40, "the first has its own");
        let distinct: HashSet<_> = inos.iter().collect();
        assert_eq!(distinct.len(), 5);
        for (check, ino) in (0..).zip(&inos) {
            assert_eq!(nodes.peek(number(check)), *ino);
            assert_eq!(nodes.claim_place(number(check), ROOT, place()).0, *ino);
        }
        // When the first is forgotten, the others stay where the kernel knows them, and nobody takes a number in use.
        nodes.forget(inos[0], 2);
        assert!(nodes.place(inos[0]).is_none());
        for (check, ino) in (1..).zip(&inos[1..]) {
            assert_eq!(nodes.peek(number(check)), *ino);
        }
        assert!(!inos[1..].contains(&nodes.claim_place(number(77), ROOT, place()).0));
    }

    #[test]
    fn the_root_cannot_be_forgotten() {
        let mut nodes = Nodes::default();
        nodes.set_root(Place::Failed);
        nodes.forget(ROOT, u64::MAX);
        assert!(nodes.place(ROOT).is_some());
        nodes.forget(12345, 1);
    }
}
