//! The file-system view: which base file stands for each file group, as of an instant.
//!
//! [`PartitionView`] is what the rest of the crate reads. It is compact, because a table may have a million files: names lie
//! end to end in one buffer, and an entry is 32 bytes. It is immutable and shared by `Arc`.

mod cleaned;
mod context;
mod lister;
mod merged;
mod partition;
mod slice;

pub use context::ViewContext;
pub use lister::StorageLister;
pub use merged::{GroupHistory, MergedSlice, PastSlice, group_histories, merged_slices};
pub use partition::{load_listed, load_partition};
pub use slice::{Sliced, slice};

use crate::error::Result;
use crate::format::instant::InstantTime;
use crate::storage::TablePath;

/// The size of a version that nobody has asked for yet: older versions are not stat'ed when a partition is listed.
pub const SIZE_UNKNOWN: u64 = u64::MAX;

/// One committed base file.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name_start: u32,
    /// Where the file id begins: in the name itself for native files, behind it for external ones.
    file_id_start: u32,
    name_len: u16,
    file_id_len: u16,
    instant: u32,
    size: u64,
    flags: u8,
}

const LISTED: u8 = 1;
const EXTERNAL: u8 = 2;

/// The committed base files of one partition as of an instant: the ones that the read-optimized view lists, and the older
/// versions that can still be opened by name.
#[derive(Debug, Default)]
pub struct PartitionView {
    names: String,
    instants: Vec<InstantTime>,
    entries: Vec<Entry>,
    listed: u32,
    listed_bytes: u64,
    log_only_groups: u32,
    newest: Option<InstantTime>,
}

/// One committed base file of a [`PartitionView`].
#[derive(Clone, Copy)]
pub struct FileRef<'a> {
    view: &'a PartitionView,
    index: u32,
}

/// What goes into a [`PartitionView`].
#[derive(Clone, Debug)]
pub struct NewFile<'a> {
    /// The name under which the file is served, without the partition.
    pub name: &'a str,
    /// The file group's id.
    pub file_id: &'a str,
    /// The instant that wrote it.
    pub instant: InstantTime,
    /// Bytes, or [`SIZE_UNKNOWN`].
    pub size: u64,
    /// In the read-optimized view, or an older version.
    pub listed: bool,
    /// Written by another engine and registered under a marked name.
    pub external: bool,
}

impl NewFile<'_> {
    /// The file id where it has to be kept beside the name.
    fn file_id_apart(&self) -> &str {
        if self.name.starts_with(self.file_id) { "" } else { self.file_id }
    }
}

impl PartitionView {
    /// Builds a view; `files` may come in any order. Of several files with one name the first counts. Names are at most 255
    /// bytes, file ids at most 65,535.
    pub fn build<'a>(files: impl IntoIterator<Item = NewFile<'a>>, log_only_groups: u32) -> PartitionView {
        let mut files: Vec<NewFile<'a>> = files.into_iter().collect();
        files.sort_by(|a, b| a.name.cmp(b.name));
        files.dedup_by(|later, first| later.name == first.name);
        let mut instants: Vec<InstantTime> = files.iter().map(|f| f.instant).collect();
        instants.sort_unstable();
        instants.dedup();
        let mut view = PartitionView { log_only_groups, ..PartitionView::default() };
        view.names.reserve_exact(files.iter().map(|f| f.name.len() + f.file_id_apart().len()).sum());
        view.entries.reserve_exact(files.len());
        for file in files {
            let start = view.names.len() as u32;
            view.names.push_str(file.name);
            view.names.push_str(file.file_id_apart());
            let file_id_start = if file.file_id_apart().is_empty() { start } else { start + file.name.len() as u32 };
            let flags = if file.listed { LISTED } else { 0 } | if file.external { EXTERNAL } else { 0 };
            view.entries.push(Entry {
                name_start: start,
                file_id_start,
                name_len: file.name.len() as u16,
                file_id_len: file.file_id.len() as u16,
                instant: instants.partition_point(|i| *i < file.instant) as u32,
                flags,
                size: file.size,
            });
            if file.listed {
                view.listed += 1;
                view.listed_bytes = view.listed_bytes.saturating_add(file.size);
                view.newest = view.newest.max(Some(file.instant));
            }
        }
        view.instants = instants;
        view
    }

    /// The files of the read-optimized view, by name.
    pub fn listed(&self) -> impl Iterator<Item = FileRef<'_>> {
        self.all().filter(|f| f.is_listed())
    }

    /// Every committed version, by name.
    pub fn all(&self) -> impl Iterator<Item = FileRef<'_>> {
        (0..self.entries.len() as u32).map(|index| FileRef { view: self, index })
    }

    /// The version with that name.
    pub fn find(&self, name: &str) -> Option<FileRef<'_>> {
        let index = self.entries.binary_search_by(|e| self.name_of(e).cmp(name)).ok()?;
        Some(FileRef { view: self, index: index as u32 })
    }

    /// The version at an index below [`PartitionView::len`].
    pub fn get(&self, index: u32) -> Option<FileRef<'_>> {
        self.entries.get(index as usize).map(|_| FileRef { view: self, index })
    }

    /// Number of versions, listed or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without any version.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of files in the read-optimized view.
    pub fn listed_len(&self) -> usize {
        self.listed as usize
    }

    /// Bytes of the files in the read-optimized view.
    pub fn listed_bytes(&self) -> u64 {
        self.listed_bytes
    }

    /// File groups that have only log files: nothing of them is in the read-optimized view.
    pub fn log_only_groups(&self) -> u32 {
        self.log_only_groups
    }

    /// The newest instant among the listed files: the partition directory's time.
    pub fn newest_instant(&self) -> Option<InstantTime> {
        self.newest
    }

    /// Bytes of memory that this view holds.
    pub fn memory_bytes(&self) -> usize {
        self.names.capacity()
            + self.entries.capacity() * std::mem::size_of::<Entry>()
            + self.instants.capacity() * std::mem::size_of::<InstantTime>()
    }

    fn name_of(&self, entry: &Entry) -> &str {
        let start = entry.name_start as usize;
        self.names.get(start..start + entry.name_len as usize).unwrap_or_default()
    }

    fn file_id_of(&self, entry: &Entry) -> &str {
        let start = entry.file_id_start as usize;
        self.names.get(start..start + entry.file_id_len as usize).unwrap_or_default()
    }

    fn entry(&self, index: u32) -> Entry {
        self.entries.get(index as usize).copied().unwrap_or(Entry {
            name_start: 0,
            file_id_start: 0,
            name_len: 0,
            file_id_len: 0,
            instant: 0,
            flags: 0,
            size: SIZE_UNKNOWN,
        })
    }
}

impl<'a> FileRef<'a> {
    /// Its place in the view, below [`PartitionView::len`].
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The served name.
    pub fn name(&self) -> &'a str {
        self.view.name_of(&self.view.entry(self.index))
    }

    /// The file group's id.
    pub fn file_id(&self) -> &'a str {
        self.view.file_id_of(&self.view.entry(self.index))
    }

    /// Where its bytes lie, relative to the partition: the name itself, or for a file of another engine the path that its
    /// writer gave it, which may lead into a folder.
    pub fn stored_path(&self) -> &'a str {
        if self.is_external() { self.file_id() } else { self.name() }
    }

    /// The instant that wrote it.
    pub fn instant(&self) -> InstantTime {
        let entry = self.view.entry(self.index);
        // `build` puts every file's instant into `instants`.
        self.view.instants.get(entry.instant as usize).copied().unwrap_or_else(InstantTime::zero)
    }

    /// Size in bytes; `None` for an older version that has not been stat'ed.
    pub fn size(&self) -> Option<u64> {
        Some(self.view.entry(self.index).size).filter(|s| *s != SIZE_UNKNOWN)
    }

    /// In the read-optimized view; else an older version that is found by name only.
    pub fn is_listed(&self) -> bool {
        self.view.entry(self.index).flags & LISTED != 0
    }

    /// Written by another engine under a marked name.
    pub fn is_external(&self) -> bool {
        self.view.entry(self.index).flags & EXTERNAL != 0
    }
}

/// One name that a [`Lister`] reports in a partition, as stored (marked names still carry their mark).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// The stored name.
    pub name: String,
    /// Size in bytes where the listing tells it.
    pub size: Option<u64>,
}

/// Where partitions and their files are known from: a storage listing, or the metadata table.
pub trait Lister: Send + Sync + std::fmt::Debug {
    /// All partitions, in byte order of their paths; the base itself for a non-partitioned table.
    fn partitions(&self) -> Result<Vec<TablePath>>;

    /// Every file that the partition is known to have, committed or not, of any kind.
    fn files(&self, partition: &TablePath) -> Result<Vec<ListedFile>>;

    /// `metadata_table` or `storage`, for status.
    fn name(&self) -> &'static str;

    /// True where each name is on record as the table's own, so that one that makes no sense is an error; false where anybody
    /// may have put a file beside the table's.
    fn is_record(&self) -> bool {
        true
    }

    /// What was passed over or found odd while listing, a line each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
