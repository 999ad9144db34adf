//! A store whose process dies at its n-th mutation: that one and all later ones fail.
//!
//! The n-th fails either before it took effect, or right after: its answer is lost. What was being written stays as it is, as
//! it would be if nobody were left to clean up.

use bytes::Bytes;
use hudifs::storage::{
    DirEntry, ObjectMeta, ObjectWriter, RandomRead, Removal, Storage, StorageStats, TablePath, VersionTag,
};
use hudifs::{Error, ErrorKind, Result};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The mutation does not happen.
    Before,
    /// The mutation happens, and nobody learns of it.
    After,
}

/// A store that fails from its n-th mutation on.
#[derive(Clone, Debug)]
pub struct Faulty {
    inner: Arc<dyn Storage>,
    plan: Arc<Plan>,
}

struct Plan {
    at: AtomicUsize,
    /// What it dies at, whichever it is in number.
    dies_at: Box<dyn Fn(&str) -> bool + Send + Sync>,
    death: Death,
    count: AtomicUsize,
    log: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("at", &self.at).field("death", &self.death).finish()
    }
}

impl Faulty {
    /// Dies at the `at`-th mutation, counted from 1.
    pub fn new(inner: Arc<dyn Storage>, at: usize, death: Death) -> Faulty {
        Faulty::make(inner, at, Box::new(|_| false), death)
    }

    /// Dies at the first mutation that is `like` so: `create PATH`, `put PATH`, `begin PATH`, `finish PATH`, `delete PATH`.
    pub fn dying_at(
        inner: Arc<dyn Storage>,
        like: impl Fn(&str) -> bool + Send + Sync + 'static,
        death: Death,
    ) -> Faulty {
        Faulty::make(inner, usize::MAX, Box::new(like), death)
    }

    fn make(
        inner: Arc<dyn Storage>,
        at: usize,
        dies_at: Box<dyn Fn(&str) -> bool + Send + Sync>,
        death: Death,
    ) -> Faulty {
        let (count, log) = (AtomicUsize::new(0), Mutex::default());
        Faulty { inner, plan: Arc::new(Plan { at: AtomicUsize::new(at), dies_at, death, count, log }) }
    }

    /// True once it is dead.
    pub fn is_dead(&self) -> bool {
        self.plan.is_dead()
    }

    /// What was done, in order.
    pub fn log(&self) -> Vec<String> {
        self.plan.log.lock().unwrap().clone()
    }
}

impl Plan {
    fn is_dead(&self) -> bool {
        self.count.load(Ordering::SeqCst) >= self.at.load(Ordering::SeqCst)
    }

    fn mutate<T>(&self, what: String, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.log.lock().unwrap().push(what.clone());
        if (self.dies_at)(&what) {
            self.at.fetch_min(count, Ordering::SeqCst);
        }
        let dead = || Error::new(ErrorKind::Unavailable, format!("the process is dead at {what}"));
        let at = self.at.load(Ordering::SeqCst);
        if count < at {
            return call();
        }
        if count == at && self.death == Death::After {
            let _ = call();
        }
        Err(dead())
    }
}

impl Storage for Faulty {
    fn uri(&self) -> &str {
        self.inner.uri()
    }
    fn read(&self, path: &TablePath, limit: u64) -> Result<Bytes> {
        self.inner.read(path, limit)
    }
    fn read_range(&self, path: &TablePath, offset: u64, len: u64) -> Result<Bytes> {
        self.inner.read_range(path, offset, len)
    }
    fn stat(&self, path: &TablePath) -> Result<ObjectMeta> {
        self.inner.stat(path)
    }
    fn stat_many(&self, dir: &TablePath, names: &[&str]) -> Vec<Result<ObjectMeta>> {
        self.inner.stat_many(dir, names)
    }
    fn list(&self, dir: &TablePath) -> Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }
    fn is_object_store(&self) -> bool {
        self.inner.is_object_store()
    }
    fn list_flat(&self, dir: &TablePath) -> Option<Result<Vec<(String, u64)>>> {
        self.inner.list_flat(dir)
    }
    fn open(&self, path: &TablePath, expected_size: Option<u64>) -> Result<Arc<dyn RandomRead>> {
        self.inner.open(path, expected_size)
    }
    fn local_path(&self, path: &TablePath) -> Option<PathBuf> {
        self.inner.local_path(path)
    }
    fn rooted_at(&self, dir: &TablePath) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Faulty { inner: self.inner.rooted_at(dir)?, plan: self.plan.clone() }))
    }
    fn stats(&self) -> &StorageStats {
        self.inner.stats()
    }
    fn read_tagged(&self, path: &TablePath, limit: u64) -> Result<(Bytes, VersionTag)> {
        self.inner.read_tagged(path, limit)
    }
    fn create(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        self.plan.mutate(format!("create {path}"), || self.inner.create(path, bytes))
    }
    fn create_many(&self, files: &[(TablePath, Bytes)]) -> Vec<Result<()>> {
        let one = |file: &(TablePath, Bytes)| {
            self.plan.mutate(format!("create {}", file.0), || {
                self.inner.create_many(std::slice::from_ref(file)).pop().unwrap()
            })
        };
        files.iter().map(one).collect()
    }
    fn put(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        self.plan.mutate(format!("put {path}"), || self.inner.put(path, bytes))
    }
    fn put_if_match(&self, path: &TablePath, bytes: Bytes, expected: Option<&VersionTag>) -> Result<VersionTag> {
        self.plan.mutate(format!("put {path}"), || self.inner.put_if_match(path, bytes, expected))
    }
    fn create_writer(&self, path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        let plan = self.plan.clone();
        let writer = self.plan.mutate(format!("begin {path}"), || {
            let inner = self.inner.create_writer(path)?;
            Ok(FaultyWriter { inner: Some(inner), plan, path: path.clone() })
        })?;
        Ok(Box::new(writer))
    }
    fn create_dir(&self, dir: &TablePath) -> Result<()> {
        self.plan.mutate(format!("mkdir {dir}"), || self.inner.create_dir(dir))
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn delete(&self, what: &Removal) -> Result<()> {
        self.plan.mutate(format!("delete {}", what.path()), || self.inner.delete(what))
    }
    fn delete_many(&self, what: &[Removal]) -> Vec<Result<()>> {
        what.iter().map(|w| self.delete(w)).collect()
    }
}

struct FaultyWriter {
    inner: Option<Box<dyn ObjectWriter>>,
    plan: Arc<Plan>,
    path: TablePath,
}

impl Write for FaultyWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.inner.as_mut().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.as_mut().unwrap().flush()
    }
}

impl ObjectWriter for FaultyWriter {
    fn finish(mut self: Box<Self>) -> Result<ObjectMeta> {
        let inner = self.inner.take().unwrap();
        let mut held = Some(inner);
        let result = self.plan.mutate(format!("finish {}", self.path), || held.take().unwrap().finish());
        // A dead process does not tidy up.
        held.into_iter().for_each(std::mem::forget);
        result
    }
}

impl Drop for FaultyWriter {
    fn drop(&mut self) {
        if self.plan.is_dead() {
            self.inner.take().into_iter().for_each(std::mem::forget);
        }
    }
}
