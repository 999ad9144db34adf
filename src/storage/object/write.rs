//! Mutations of objects: conditional puts, uploads in parts, deletes.
//!
//! HTTP stores show an object only when its put or the last request of its upload is done, so nothing needs a hidden name.
//! Create-if-absent is `If-None-Match: *` (GCS: generation 0); uploads in parts have no such condition in every store, so there the
//! name is looked up before the last request: data files have names that nobody else chooses.
//! A put whose answer was lost is not repeated, since it may have taken effect: the caller looks.
//!
//! HDFS creates and replaces by a rename of a hidden file, atomically, and cannot replace conditionally.

use super::client::{Client, Urgency};
use super::error::store_error;
use super::{ObjectStorage, listing};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::runtime::{block_on, runtime};
use crate::storage::{ObjectMeta, ObjectWriter, Removal, StorageStats, TablePath, VersionTag};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::path::Path;
use object_store::{
    Error as StoreError, MultipartUpload, ObjectStore, PutMode, PutMultipartOptions, PutPayload, PutResult,
    RenameOptions, RenameTargetMode, UpdateVersion,
};
use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::JoinSet;

/// Size of a part; some stores want all but the last to be of one size.
const PART_BYTES: usize = 8 << 20;
/// Parts on their way at once; with the one being filled they are what a writer holds in memory.
const PARTS_MAX: usize = 4;
/// Uploading may take this many times the budget of one request.
const PUT_BUDGETS: u32 = 10;

impl Client {
    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<PutResult, StoreOr> {
        if !self.http && matches!(mode, PutMode::Create) {
            // Its own creation leaves a temporary file behind when another wins.
            let hidden = hidden_path(path).map_err(StoreOr::Ours)?;
            Box::pin(self.put(&hidden, bytes, PutMode::Overwrite)).await?;
            return self.publish(&hidden, path).await;
        }
        let _turn = self.turn(Urgency::Demand).await.map_err(StoreOr::Ours)?;
        self.count(|s| &s.puts);
        let put = self.store.put_opts(path, PutPayload::from_bytes(bytes), mode.into());
        match self.in_time(PUT_BUDGETS, path, put).await.map_err(StoreOr::Ours)? {
            Ok(result) => Ok(result),
            Err(e) => Err(StoreOr::Store(e)),
        }
    }

    /// Gives a hidden file its name, if that is free; HDFS only.
    async fn publish(&self, hidden: &Path, path: &Path) -> Result<PutResult, StoreOr> {
        let _turn = self.turn(Urgency::Demand).await.map_err(StoreOr::Ours)?;
        let options = RenameOptions::new().with_target_mode(RenameTargetMode::Create);
        let renamed = self.in_time(1, path, self.store.rename_opts(hidden, path, options)).await;
        match renamed.map_err(StoreOr::Ours)? {
            Ok(()) => {
                let meta = self.head_now(path).await.map_err(StoreOr::Ours)?;
                Ok(PutResult { e_tag: meta.etag, version: None, extensions: Default::default() })
            }
            Err(e) => {
                let _ = self.delete_now(vec![hidden.clone()]).await;
                Err(StoreOr::Store(e))
            }
        }
    }

    async fn create(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<ObjectMeta> {
        let size = bytes.len();
        let result = self.put(path, bytes, mode).await.map_err(|e| e.into_error(&self.describe(path)))?;
        Ok(written(size, &result))
    }

    async fn replace(&self, path: &Path, bytes: Bytes, expected: Option<VersionTag>) -> Result<VersionTag> {
        let mode = match expected {
            None => PutMode::Create,
            Some(tag) => PutMode::Update(UpdateVersion { e_tag: tag.etag, version: tag.version }),
        };
        let created = matches!(mode, PutMode::Create);
        match self.put(path, bytes, mode).await {
            Ok(result) => Ok(VersionTag { etag: result.e_tag, version: result.version }),
            Err(StoreOr::Store(StoreError::NotFound { .. })) if !created => Err(self.changed(path)),
            Err(StoreOr::Store(
                StoreError::AlreadyExists { .. } | StoreError::Precondition { .. } | StoreError::NotModified { .. },
            )) => Err(self.changed(path)),
            Err(e) => Err(e.into_error(&self.describe(path))),
        }
    }

    fn changed(&self, path: &Path) -> Error {
        Error::new(ErrorKind::Conflict, format!("{}: was changed by another writer", self.describe(path)))
    }

    /// Deletes objects, results in order; one that is not there is deleted already.
    async fn delete(&self, paths: Vec<Path>) -> Vec<Result<()>> {
        match self.turn(Urgency::Demand).await {
            Ok(_turn) => self.delete_now(paths).await,
            Err(e) => paths.iter().map(|_| Err(e.duplicate())).collect(),
        }
    }

    /// [`Client::delete`] for callers that have their turn already: the one place where something is deleted in a store.
    async fn delete_now(&self, paths: Vec<Path>) -> Vec<Result<()>> {
        let count = paths.len();
        if !self.http {
            StorageStats::add(&self.stats.deletes, u64::try_from(count).unwrap_or(u64::MAX));
        }
        let names: Vec<String> = paths.iter().map(|p| self.describe(p)).collect();
        let mut answers = self.store.delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut results = Vec::with_capacity(count);
        let mut failed: Option<Error> = None;
        for name in &names {
            let answer = match &failed {
                Some(e) => Err(e.duplicate()),
                None => match tokio::time::timeout(self.patience(PUT_BUDGETS), answers.next()).await {
                    Ok(Some(Err(StoreError::NotFound { .. }) | Ok(_))) => Ok(()),
                    Ok(Some(Err(e))) => Err(store_error(name, e)),
                    // One failure may end a whole request of many.
                    Ok(None) => Err(Error::new(ErrorKind::Unavailable, format!("{name}: not known to be deleted"))),
                    Err(_) => Err(self.too_slow_for(name)),
                },
            };
            if let Err(e) = &answer
                && e.kind() == ErrorKind::Unavailable
            {
                failed = Some(e.duplicate());
            }
            results.push(answer);
        }
        results
    }
}

/// A failure that the store's own error tells more about than ours.
enum StoreOr {
    Store(StoreError),
    Ours(Error),
}

impl StoreOr {
    fn into_error(self, what: &str) -> Error {
        match self {
            StoreOr::Store(e) => store_error(what, e),
            StoreOr::Ours(e) => e,
        }
    }
}

/// A name beside that no reader takes for a file of the table.
fn hidden_path(path: &Path) -> Result<Path> {
    let hash = twox_hash::XxHash64::oneshot(0, path.as_ref().as_bytes());
    let name = format!(".hudifs-{hash:016x}-{}.tmp", uuid::Uuid::new_v4().simple());
    let hidden = match path.as_ref().rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name,
    };
    Path::parse(hidden).map_err(|e| Error::internal(format!("no hidden name beside {path}: {e}")))
}

fn written(size: usize, result: &PutResult) -> ObjectMeta {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ObjectMeta {
        size: u64::try_from(size).unwrap_or(u64::MAX),
        modified_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        etag: result.e_tag.clone(),
    }
}

impl ObjectStorage {
    pub(super) fn put_object(&self, path: &TablePath, bytes: Bytes, mode: PutMode) -> Result<ObjectMeta> {
        let (client, key) = (self.client.clone(), self.key(path)?);
        block_on(async move { client.create(&key, bytes, mode).await })
    }

    pub(super) fn put_objects(&self, files: &[(TablePath, Bytes)]) -> Vec<Result<()>> {
        let client = self.client.clone();
        let requests = files.iter().map(|(path, bytes)| Ok((self.key(path)?, bytes.clone()))).collect();
        self.overlapped(requests, move |(key, bytes)| {
            let client = client.clone();
            async move { client.create(&key, bytes, PutMode::Create).await.map(drop) }
        })
    }

    pub(super) fn replace_object(
        &self,
        path: &TablePath,
        bytes: Bytes,
        expected: Option<&VersionTag>,
    ) -> Result<VersionTag> {
        let (client, key, expected) = (self.client.clone(), self.key(path)?, expected.cloned());
        block_on(async move { client.replace(&key, bytes, expected).await })
    }

    pub(super) fn object_writer(&self, path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        let key = self.key(path)?;
        let target = if self.client.http { key.clone() } else { hidden_path(&key)? };
        Ok(Box::new(PartWriter {
            client: self.client.clone(),
            key,
            target,
            buffer: BytesMut::new(),
            upload: None,
            size: 0,
        }))
    }

    /// Deletes things one by one or by the folder, results in order.
    pub(super) fn remove(&self, what: &[Removal]) -> Vec<Result<()>> {
        let files: Vec<&Removal> = what.iter().filter(|w| !w.kind().is_folder()).collect();
        let keys: Result<Vec<Path>> = files.iter().map(|w| self.key(w.path())).collect();
        let client = self.client.clone();
        let deleted = keys.and_then(|keys| match keys.is_empty() {
            true => Ok(Vec::new()),
            false => block_on(async move { Ok(client.delete(keys).await) }),
        });
        let mut deleted = deleted.unwrap_or_else(|e| files.iter().map(|_| Err(e.duplicate())).collect()).into_iter();
        let each = |w: &Removal| {
            let result = match w.kind().is_folder() {
                true => self.remove_folder(w),
                false => deleted.next().unwrap_or_else(|| Err(Error::internal("a delete without an answer"))),
            };
            result.map_err(|e| e.context(format!("deleting {w}")))
        };
        what.iter().map(each).collect()
    }

    fn remove_folder(&self, what: &Removal) -> Result<()> {
        let (client, key) = (self.client.clone(), self.key(what.path())?);
        block_on(async move {
            let found = listing::list_flat(client.clone(), key.clone()).await?;
            let keys: Vec<Path> = found.into_iter().map(|o| o.location).collect();
            let folders = if client.http { Vec::new() } else { folders_of(&key, &keys) };
            client.delete(keys).await.into_iter().collect::<Result<()>>()?;
            // Where folders exist they go too, the deepest first. One that is not empty is somebody's who is still writing.
            for folder in folders {
                let _ = client.delete(vec![folder]).await;
            }
            Ok(())
        })
    }
}

/// The folders of files below `root`, deepest first, and `root` at last.
fn folders_of(root: &Path, files: &[Path]) -> Vec<Path> {
    let mut folders = std::collections::BTreeSet::new();
    for file in files {
        let mut text = file.as_ref();
        while let Some((parent, _)) = text.rsplit_once('/').filter(|(p, _)| p.len() > root.as_ref().len()) {
            folders.insert(parent.to_owned());
            text = parent;
        }
    }
    let mut folders: Vec<Path> = folders.into_iter().rev().filter_map(|f| Path::parse(f).ok()).collect();
    folders.push(root.clone());
    folders
}

/// Gathers parts, and sends them while the next ones are written.
struct PartWriter {
    client: Arc<Client>,
    key: Path,
    /// Where the parts go: the file itself, or in HDFS a hidden file.
    target: Path,
    buffer: BytesMut,
    upload: Option<Upload>,
    size: usize,
}

struct Upload {
    multipart: Box<dyn MultipartUpload>,
    parts: JoinSet<Result<()>>,
}

impl PartWriter {
    /// Sends full parts; waits while too many are on their way.
    fn send(&mut self, part: Bytes) -> Result<()> {
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => self.start()?,
        };
        if upload.parts.len() >= PARTS_MAX {
            let mut parts = upload.parts;
            let (done, parts) = block_on(async move { Ok((parts.join_next().await, parts)) })?;
            upload.parts = parts;
            let sent = done.map_or(Ok(()), joined);
            if sent.is_err() {
                self.upload = Some(upload);
                return sent;
            }
        }
        let runtime = runtime()?;
        let _context = runtime.enter();
        let sending = upload.multipart.put_part(PutPayload::from_bytes(part));
        let (client, key) = (self.client.clone(), self.key.clone());
        upload.parts.spawn_on(
            async move {
                let _turn = client.turn(Urgency::Demand).await?;
                client.in_time(PUT_BUDGETS, &key, sending).await?.map_err(|e| store_error(&client.describe(&key), e))
            },
            runtime.handle(),
        );
        self.upload = Some(upload);
        Ok(())
    }

    fn start(&self) -> Result<Upload> {
        let (client, key) = (self.client.clone(), self.target.clone());
        let multipart = block_on(async move {
            let _turn = client.turn(Urgency::Demand).await?;
            client.count(|s| &s.puts);
            let start = client.store.put_multipart_opts(&key, PutMultipartOptions::default());
            client.in_time(1, &key, start).await?.map_err(|e| store_error(&client.describe(&key), e))
        })?;
        Ok(Upload { multipart, parts: JoinSet::new() })
    }
}

fn joined(done: Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    done.unwrap_or_else(|_| Err(Error::internal("sending a part panicked")))
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.size += bytes.len();
        while self.buffer.len() >= PART_BYTES {
            let part = self.buffer.split_to(PART_BYTES).freeze();
            self.send(part).map_err(std::io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ObjectWriter for PartWriter {
    fn finish(mut self: Box<Self>) -> Result<ObjectMeta> {
        let rest = std::mem::take(&mut self.buffer).freeze();
        let (client, key, target, size) = (self.client.clone(), self.key.clone(), self.target.clone(), self.size);
        if self.upload.is_none() {
            return block_on(async move { client.create(&key, rest, PutMode::Create).await });
        }
        if !rest.is_empty() {
            self.send(rest)?;
        }
        let Some(Upload { multipart, mut parts }) = self.upload.take() else {
            return Err(Error::internal("an upload without its parts"));
        };
        let (result, multipart) = block_on(async move {
            let mut multipart = multipart;
            let completed = async {
                while let Some(done) = parts.join_next().await {
                    joined(done)?;
                }
                match client.head(&key).await {
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                    Ok(_) => {
                        let message = format!("{}: exists already", client.describe(&key));
                        return Err(Error::new(ErrorKind::AlreadyExists, message));
                    }
                }
                client.count(|s| &s.puts);
                let complete = multipart.complete();
                let result = client.in_time(PUT_BUDGETS, &key, complete).await?;
                let result = result.map_err(|e| store_error(&client.describe(&key), e))?;
                let published = match client.http {
                    true => result,
                    false => client.publish(&target, &key).await.map_err(|e| e.into_error(&client.describe(&key)))?,
                };
                Ok(written(size, &published))
            };
            let result = completed.await;
            Ok((result, multipart))
        })?;
        if result.is_err() {
            self.upload = Some(Upload { multipart, parts: JoinSet::new() });
        }
        result
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        let Some(Upload { mut multipart, mut parts }) = self.upload.take() else { return };
        let name = self.client.describe(&self.key);
        // Best effort: what cannot be told to the store now, its lifecycle rules remove.
        let aborted = block_on(async move {
            parts.shutdown().await;
            multipart.abort().await.map_err(|e| store_error(&name, e))
        });
        if let Err(error) = aborted {
            tracing::warn!(%error, "the parts of an upload stay behind in the store");
        }
    }
}
