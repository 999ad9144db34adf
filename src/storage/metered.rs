//! Counts and times the calls to a store for the metric table. Adds nothing else.

use super::{DirEntry, ObjectMeta, ObjectWriter, RandomRead, Removal, Storage, StorageStats, TablePath, VersionTag};
use crate::error::{Error, ErrorKind, Result};
use crate::telemetry::label::StorageOp;
use crate::telemetry::metric::{STORAGE_DURATION, STORAGE_ERRORS, STORAGE_REQUESTS};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A store whose calls are metered.
#[derive(Debug)]
pub(super) struct Metered(pub(super) Arc<dyn Storage>);

fn metered<T>(op: StorageOp, call: impl FnOnce() -> T, outcome: impl FnOnce(&T) -> (u64, u64)) -> T {
    let start = Instant::now();
    let result = call();
    record(op, start, outcome(&result));
    result
}

/// A call with several results counts once for each.
fn record(op: StorageOp, start: Instant, (calls, errors): (u64, u64)) {
    STORAGE_DURATION.observe_since(op, start);
    STORAGE_REQUESTS.add(op, calls);
    STORAGE_ERRORS.add(op, errors);
}

fn one<T>(result: &Result<T>) -> (u64, u64) {
    (1, result.as_ref().err().map_or(0, failed))
}

fn many<T>(results: &[Result<T>]) -> (u64, u64) {
    let errors = results.iter().filter_map(|r| r.as_ref().err()).map(failed).sum();
    (u64::try_from(results.len()).unwrap_or(u64::MAX), errors)
}

/// A missing object is an answer, and so is one that is there already or was changed by another writer.
fn failed(e: &Error) -> u64 {
    u64::from(!matches!(e.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::Conflict))
}

#[deny(clippy::missing_trait_methods)]
impl Storage for Metered {
    fn uri(&self) -> &str {
        self.0.uri()
    }

    fn read(&self, path: &TablePath, limit: u64) -> Result<Bytes> {
        metered(StorageOp::Read, || self.0.read(path, limit), one)
    }

    fn read_range(&self, path: &TablePath, offset: u64, len: u64) -> Result<Bytes> {
        metered(StorageOp::ReadRange, || self.0.read_range(path, offset, len), one)
    }

    fn read_many(&self, paths: &[TablePath], limit: u64) -> Vec<Result<Bytes>> {
        metered(StorageOp::Read, || self.0.read_many(paths, limit), |results| many(results))
    }

    fn stat(&self, path: &TablePath) -> Result<ObjectMeta> {
        metered(StorageOp::Stat, || self.0.stat(path), one)
    }

    fn stat_many(&self, dir: &TablePath, names: &[&str]) -> Vec<Result<ObjectMeta>> {
        metered(StorageOp::Stat, || self.0.stat_many(dir, names), |results| many(results))
    }

    fn list(&self, dir: &TablePath) -> Result<Vec<DirEntry>> {
        metered(StorageOp::List, || self.0.list(dir), one)
    }

    fn is_object_store(&self) -> bool {
        self.0.is_object_store()
    }

    fn list_flat(&self, dir: &TablePath) -> Option<Result<Vec<(String, u64)>>> {
        let start = Instant::now();
        let result = self.0.list_flat(dir)?;
        record(StorageOp::ListFlat, start, one(&result));
        Some(result)
    }

    fn open(&self, path: &TablePath, expected_size: Option<u64>) -> Result<Arc<dyn RandomRead>> {
        metered(StorageOp::Open, || self.0.open(path, expected_size), one)
    }

    fn local_path(&self, path: &TablePath) -> Option<PathBuf> {
        self.0.local_path(path)
    }

    fn rooted_at(&self, dir: &TablePath) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Metered(self.0.rooted_at(dir)?)))
    }

    fn stats(&self) -> &StorageStats {
        self.0.stats()
    }

    fn read_tagged(&self, path: &TablePath, limit: u64) -> Result<(Bytes, VersionTag)> {
        metered(StorageOp::Read, || self.0.read_tagged(path, limit), one)
    }

    fn create(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        metered(StorageOp::Create, || self.0.create(path, bytes), one)
    }

    fn create_many(&self, files: &[(TablePath, Bytes)]) -> Vec<Result<()>> {
        metered(StorageOp::Create, || self.0.create_many(files), |results| many(results))
    }

    fn put(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        metered(StorageOp::Put, || self.0.put(path, bytes), one)
    }

    fn put_if_match(&self, path: &TablePath, bytes: Bytes, expected: Option<&VersionTag>) -> Result<VersionTag> {
        metered(StorageOp::Put, || self.0.put_if_match(path, bytes, expected), one)
    }

    fn create_writer(&self, path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        let start = Instant::now();
        let writer = self.0.create_writer(path).inspect_err(|e| record(StorageOp::Write, start, (1, failed(e))))?;
        Ok(Box::new(MeteredWriter { inner: writer, start }))
    }

    fn create_dir(&self, dir: &TablePath) -> Result<()> {
        self.0.create_dir(dir)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn delete(&self, what: &Removal) -> Result<()> {
        metered(StorageOp::Delete, || self.0.delete(what), one)
    }

    fn delete_many(&self, what: &[Removal]) -> Vec<Result<()>> {
        metered(StorageOp::Delete, || self.0.delete_many(what), |results| many(results))
    }
}

/// Times a file from its start to its end.
struct MeteredWriter {
    inner: Box<dyn ObjectWriter>,
    start: Instant,
}

impl std::io::Write for MeteredWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

impl ObjectWriter for MeteredWriter {
    fn finish(self: Box<Self>) -> Result<ObjectMeta> {
        let result = self.inner.finish();
        record(StorageOp::Write, self.start, one(&result));
        result
    }
}
