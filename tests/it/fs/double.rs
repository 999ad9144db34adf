//! A table of a few lines: commits are made by hand, files are real ones in a folder.

use hudifs::format::instant::InstantTime;
use hudifs::fs::{Changed, Host, Source, View, VirtualFile};
use hudifs::storage::{LocalStorage, Storage, TablePath};
use hudifs::view::{FileRef, NewFile, PartitionView};
use hudifs::{Error, Result};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The first commit's time, milliseconds since the epoch; each later one comes a second after the one before.
pub const FIRST_MS: i64 = 1_767_225_600_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct DoubleFile {
    file_id: String,
    commit: usize,
    size: u64,
    listed: bool,
}

type Partitions = BTreeMap<TablePath, BTreeMap<String, DoubleFile>>;

pub struct DoubleTable {
    dir: tempfile::TempDir,
    storage: Arc<dyn Storage>,
    views: Mutex<Vec<Arc<DoubleView>>>,
    pub knobs: Arc<Knobs>,
}

/// What tests turn, and what they count.
#[derive(Default)]
pub struct Knobs {
    pub broken: Mutex<BTreeSet<TablePath>>,
    pub loads: AtomicUsize,
    pub load_ms: AtomicU64,
}

pub struct DoubleView {
    number: usize,
    partitions: Partitions,
    knobs: Arc<Knobs>,
}

/// One commit in the making.
pub struct Commit<'a> {
    dir: &'a Path,
    commit: usize,
    partitions: &'a mut Partitions,
}

pub fn path(text: &str) -> TablePath {
    TablePath::parse(text).unwrap()
}

pub fn instant(commit: usize) -> InstantTime {
    InstantTime::parse(&format!("20260101000000{:03}", commit)).unwrap()
}

pub fn commit_ms(commit: usize) -> i64 {
    FIRST_MS + commit as i64 * 1000
}

impl DoubleTable {
    /// A table with one commit.
    pub fn new(first: impl FnOnce(&mut Commit<'_>)) -> Arc<DoubleTable> {
        let dir = tempfile::tempdir().unwrap();
        let storage = Arc::new(LocalStorage::new(dir.path()).unwrap());
        let table = Arc::new(DoubleTable { dir, storage, views: Mutex::default(), knobs: Arc::default() });
        table.commit(first);
        table
    }

    /// Commits, and returns the new view, which `current` gives from now on.
    pub fn commit(&self, change: impl FnOnce(&mut Commit<'_>)) -> Arc<dyn View> {
        let mut views = self.views.lock().unwrap();
        let mut partitions = views.last().map(|v| v.partitions.clone()).unwrap_or_default();
        let number = views.len() + 1;
        change(&mut Commit { dir: self.dir.path(), commit: number, partitions: &mut partitions });
        let view = Arc::new(DoubleView { number, partitions, knobs: self.knobs.clone() });
        views.push(view.clone());
        view
    }

    pub fn base(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

/// The stored name of a file group's version.
pub fn name(file_id: &str, commit: usize) -> String {
    format!("{file_id}_0-1-{commit}_{}.parquet", instant(commit))
}

impl Commit<'_> {
    /// Writes the next version of a file group; the version before stays as an older one.
    pub fn write(&mut self, partition: &str, file_id: &str, bytes: &[u8]) {
        let folder = self.dir.join(partition);
        std::fs::create_dir_all(&folder).unwrap();
        let name = name(file_id, self.commit);
        std::fs::write(folder.join(&name), bytes).unwrap();
        let files = self.partitions.entry(path(partition)).or_default();
        files.values_mut().filter(|f| f.file_id == file_id).for_each(|f| f.listed = false);
        let (file_id, commit, size) = (file_id.to_owned(), self.commit, bytes.len() as u64);
        files.insert(name, DoubleFile { file_id, commit, size, listed: true });
    }

    /// Drops a partition from the table; its files stay where they are.
    pub fn drop_partition(&mut self, partition: &str) {
        self.partitions.remove(&path(partition)).unwrap();
    }

    /// Drops a version from the table, and its file.
    pub fn clean(&mut self, partition: &str, name: &str) {
        self.partitions.get_mut(&path(partition)).unwrap().remove(name).unwrap();
        std::fs::remove_file(self.dir.join(partition).join(name)).unwrap();
    }

    /// Makes the table say another size than the file has.
    pub fn lie_about_size(&mut self, partition: &str, name: &str, size: u64) {
        self.partitions.get_mut(&path(partition)).unwrap().get_mut(name).unwrap().size = size;
    }
}

impl Source for DoubleTable {
    fn uri(&self) -> &str {
        // Not the folder's, so that two doubles with the same files have the same inode numbers.
        "file:///double"
    }

    fn current(&self) -> Arc<dyn View> {
        self.views.lock().unwrap().last().unwrap().clone()
    }

    fn as_of(&self, moment: &str) -> Result<Arc<dyn View>> {
        let moment = InstantTime::parse(moment).ok_or_else(|| Error::invalid(format!("{moment} is no moment")))?;
        let views = self.views.lock().unwrap();
        let view = views.iter().rfind(|v| instant(v.number) <= moment).cloned();
        Ok(view.ok_or_else(|| Error::not_found("before the first commit"))?)
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }
}

impl View for DoubleView {
    fn instant(&self) -> Option<InstantTime> {
        Some(instant(self.number))
    }

    fn instants(&self) -> Vec<InstantTime> {
        (1..=self.number).map(instant).collect()
    }

    fn partitions(&self) -> Result<Arc<[TablePath]>> {
        Ok(self.partitions.keys().cloned().collect())
    }

    fn partition(&self, partition: &TablePath) -> Result<PartitionView> {
        self.knobs.loads.fetch_add(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(self.knobs.load_ms.load(SeqCst)));
        if self.knobs.broken.lock().unwrap().contains(partition) {
            return Err(Error::corrupt(format!("partition {partition} is broken on purpose")));
        }
        let files = self.partitions.get(partition).ok_or_else(|| Error::not_found(format!("no {partition}")))?;
        let files = files.iter().map(|(name, f)| NewFile {
            name,
            file_id: &f.file_id,
            instant: instant(f.commit),
            size: f.size,
            listed: f.listed,
            external: false,
        });
        Ok(PartitionView::build(files, 0))
    }

    fn changed_since(&self, older: &dyn View) -> Result<Changed> {
        let older: &DoubleView = (older as &dyn Any).downcast_ref().unwrap();
        let all: BTreeSet<_> = self.partitions.keys().chain(older.partitions.keys()).cloned().collect();
        let differs = |p: &TablePath| self.partitions.get(p) != older.partitions.get(p);
        Ok(Changed::Partitions(all.into_iter().filter(differs).collect()))
    }

    fn instant_ms(&self, instant: &InstantTime) -> i64 {
        commit_ms(instant.as_str()[14..].parse().unwrap())
    }

    fn stored_path(&self, partition: &TablePath, file: &FileRef<'_>) -> Result<TablePath> {
        partition.join(file.name())
    }
}

/// A daemon's part, with content that says what was asked.
pub struct DoubleHost;

impl Host for DoubleHost {
    fn content(&self, table: Option<&str>, file: VirtualFile) -> Vec<u8> {
        assert!(file != VirtualFile::Metrics || table != Some("panics"), "on purpose");
        format!("{table:?} {file:?}\n").into_bytes()
    }

    fn control_socket(&self) -> Option<PathBuf> {
        Some("/run/hudifs/double.sock".into())
    }
}
