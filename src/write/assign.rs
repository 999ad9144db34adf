//! [`Assigner`]: which file group takes which row.
//!
//! Keys that are there go to the group that holds them. New rows first fill the small files of their partition, then new
//! groups, each up to the size that files are to have; a bucket index decides itself. Sizes are reckoned from the average
//! record of past commits (docs/format.md, "File sizing"), so that they come out about right, not exactly.

use crate::error::{Error, Result};
use crate::index::{Index, Key, Location};
use crate::storage::TablePath;
use crate::table::{FileSlice, Snapshot};
use std::collections::{HashMap, VecDeque};

/// Digits behind the bucket in the id of its group.
const BUCKET_TAIL: usize = 24;
/// Ids that are tried for a bucket's group: each was replaced once.
const BUCKET_IDS_MAX: usize = 100;

/// A target's place in [`Assigner::targets`].
pub(super) type TargetId = u32;

/// A file group that rows go to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The partition's path.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// What the group holds now; `None` for a new one.
    pub slice: Option<FileSlice>,
    /// Rows that replace or delete.
    pub updates: u64,
    /// Rows that are new.
    pub inserts: u64,
}

/// How large files are to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileSizes {
    /// Bytes that a file may have.
    pub max: u64,
    /// A base file below this takes new rows; 0: none does.
    pub small: u64,
    /// Bytes of an average record.
    pub record: u64,
    /// Groups with log files take new rows too, into their logs.
    pub fill_logs: bool,
}

/// Assigns rows to groups, as of one snapshot.
#[derive(Debug)]
pub(super) struct Assigner<'a> {
    snapshot: &'a Snapshot,
    index: &'a dyn Index,
    sizes: FileSizes,
    partitions: HashMap<String, Partition>,
    targets: Vec<Target>,
}

#[derive(Debug, Default)]
struct Partition {
    slices: HashMap<String, FileSlice>,
    known: HashMap<String, TargetId>,
    /// Groups that take new rows, with how many more.
    room: VecDeque<(TargetId, u64)>,
}

impl<'a> Assigner<'a> {
    /// Nothing is assigned yet.
    pub fn new(snapshot: &'a Snapshot, index: &'a dyn Index, sizes: FileSizes) -> Assigner<'a> {
        Assigner { snapshot, index, sizes, partitions: HashMap::new(), targets: Vec::new() }
    }

    /// The group that holds a key.
    pub fn located(&mut self, location: &Location) -> Result<TargetId> {
        let id = self.target(&location.partition, &location.file_id)?;
        if let Some(target) = self.targets.get_mut(id as usize) {
            target.updates += 1;
        }
        Ok(id)
    }

    /// The group that takes a new row.
    pub fn insert(&mut self, key: &Key<'_>) -> Result<TargetId> {
        let id = match self.index.place(key)? {
            Some(file_id) => self.placed(key.partition, file_id)?,
            None => self.with_room(key.partition)?,
        };
        if let Some(target) = self.targets.get_mut(id as usize) {
            target.inserts += 1;
        }
        Ok(id)
    }

    /// Every group that rows were assigned to.
    pub fn into_targets(self) -> Vec<Target> {
        self.targets
    }

    fn partition(&mut self, path: &str) -> Result<&mut Partition> {
        if !self.partitions.contains_key(path) {
            let slices = self.snapshot.file_slices(&TablePath::parse(path)?)?;
            let mut small: Vec<(u64, String)> = slices.iter().filter_map(|s| self.room_of(s)).collect();
            small.sort();
            let slices = slices.into_iter().map(|s| (s.file_id.clone(), s)).collect();
            self.partitions.insert(path.to_owned(), Partition { slices, ..Partition::default() });
            for (_, file_id) in small {
                let id = self.target(path, &file_id)?;
                let size = self.slice_size(id);
                let room = self.sizes.max.saturating_sub(size) / self.sizes.record.max(1);
                self.partition(path)?.room.push_back((id, room));
            }
        }
        self.partitions.get_mut(path).ok_or_else(|| Error::internal("a partition that was just loaded"))
    }

    /// The size of a group that takes new rows.
    fn room_of(&self, slice: &FileSlice) -> Option<(u64, String)> {
        let takes = slice.compaction.is_none() && (slice.log_files.is_empty() || self.sizes.fill_logs);
        let size = slice.base_file.as_ref()?.size;
        (takes && size < self.sizes.small).then(|| (size, slice.file_id.clone()))
    }

    fn slice_size(&self, id: TargetId) -> u64 {
        let slice = self.targets.get(id as usize).and_then(|t| t.slice.as_ref());
        slice.map_or(0, |s| s.base_file.iter().chain(&s.log_files).map(|f| f.size).sum())
    }

    fn target(&mut self, partition: &str, file_id: &str) -> Result<TargetId> {
        let known = self.partition(partition)?;
        if let Some(id) = known.known.get(file_id) {
            return Ok(*id);
        }
        let slice = known.slices.get(file_id).cloned();
        self.add(partition, file_id.to_owned(), slice)
    }

    fn add(&mut self, partition: &str, file_id: String, slice: Option<FileSlice>) -> Result<TargetId> {
        let id = TargetId::try_from(self.targets.len()).map_err(|_| Error::invalid("more than 2^32 file groups"))?;
        self.partition(partition)?.known.insert(file_id.clone(), id);
        self.targets.push(Target { partition: partition.to_owned(), file_id, slice, updates: 0, inserts: 0 });
        Ok(id)
    }

    /// A group that a bucket index chose: the first eight characters are the bucket, of which there is one group.
    fn placed(&mut self, partition: &str, file_id: String) -> Result<TargetId> {
        let bucket = file_id.get(..8).unwrap_or(&file_id).to_owned();
        let known = self.partition(partition)?;
        let same = known.known.iter().find(|(id, _)| id.starts_with(&bucket)).map(|(_, target)| *target);
        if let Some(target) = same {
            return Ok(target);
        }
        match known.slices.keys().find(|id| id.starts_with(&bucket)).cloned() {
            Some(existing) => self.target(partition, &existing),
            None => {
                let id = self.bucket_id(partition, &bucket).unwrap_or(file_id);
                self.add(partition, id, None)
            }
        }
    }

    /// The id of a bucket's first group: the one that Java's writers without locks give it, so that two writers who make it at
    /// once are found to be in conflict. Where that group was replaced, one that tells when; `None` if all of them were.
    fn bucket_id(&self, partition: &str, bucket: &str) -> Option<String> {
        let mut digits = "0".repeat(BUCKET_TAIL);
        for _ in 0..BUCKET_IDS_MAX {
            let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
            let id = format!("{bucket}-{}-{}-{}-{}-0", part(0..4), part(4..8), part(8..12), part(12..24));
            match self.snapshot.context().replaced_at(partition, &id) {
                None => return Some(id),
                Some(at) => digits = format!("{:0<BUCKET_TAIL$}", at.as_str()),
            }
        }
        None
    }

    fn with_room(&mut self, partition: &str) -> Result<TargetId> {
        let room = &mut self.partition(partition)?.room;
        while let Some((id, rows)) = room.front_mut() {
            if *rows > 0 {
                *rows -= 1;
                return Ok(*id);
            }
            room.pop_front();
        }
        let rows = (self.sizes.max / self.sizes.record.max(1)).max(1);
        let id = self.add(partition, new_file_id(), None)?;
        self.partition(partition)?.room.push_back((id, rows - 1));
        Ok(id)
    }
}

/// The id of a new file group.
pub(super) fn new_file_id() -> String {
    format!("{}-0", uuid::Uuid::new_v4())
}
