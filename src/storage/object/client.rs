//! Requests to one store: bounded in number and time, with our errors.
//!
//! HTTP stores retry below us (`object_store`'s own loop: back-off with jitter, a time budget, a body that breaks off is
//! resumed only at the same ETag), and only what may help: 5xx, 429, 408 and broken connections. A refusal such as 403 is
//! final at the first attempt. HDFS's client retries datanodes itself; its calls to the NameNode are bounded here.

use super::super::{ObjectMeta, StorageStats, VersionTag};
use super::error::store_error;
use crate::error::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ListResult, ObjectStore};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A whole listing may take this many times the budget of one request.
const LISTING_BUDGETS: u32 = 20;

/// What one store answers to.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) stats: Arc<StorageStats>,
    /// `s3://bucket`: what messages name objects by.
    pub(super) name: String,
    /// HTTP stores check `If-Match` in the request that reads, and count themselves.
    pub(super) http: bool,
    permits: Semaphore,
    ahead_permits: Semaphore,
    budget: Duration,
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Somebody waits for it.
    Demand,
    /// Read-ahead: at most half of all requests.
    Ahead,
}

impl Client {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        stats: Arc<StorageStats>,
        name: String,
        http: bool,
        requests_max: usize,
        budget: Duration,
    ) -> Self {
        let requests = requests_max.clamp(2, Semaphore::MAX_PERMITS);
        Client {
            store,
            stats,
            name,
            http,
            permits: Semaphore::new(requests),
            ahead_permits: Semaphore::new(requests / 2),
            budget,
        }
    }

    /// The object's name for messages.
    pub(super) fn describe(&self, path: &Path) -> String {
        format!("{}/{path}", self.name)
    }

    /// A turn to send a request.
    pub(super) async fn turn(&self, urgency: Urgency) -> Result<(SemaphorePermit<'_>, Option<SemaphorePermit<'_>>)> {
        let closed = |_| Error::internal("the store is closed");
        let ahead = match urgency {
            Urgency::Demand => None,
            Urgency::Ahead => Some(self.ahead_permits.acquire().await.map_err(closed)?),
        };
        Ok((self.permits.acquire().await.map_err(closed)?, ahead))
    }

    pub(super) async fn head(&self, path: &Path) -> Result<ObjectMeta> {
        let _turn = self.turn(Urgency::Demand).await?;
        self.head_now(path).await
    }

    /// [`Client::head`] for callers that have their turn already.
    pub(super) async fn head_now(&self, path: &Path) -> Result<ObjectMeta> {
        self.count(|s| &s.heads);
        let options = GetOptions { head: true, ..GetOptions::default() };
        let got = self.bounded(1, path, self.store.get_opts(path, options)).await?;
        Ok(meta(&got.meta))
    }

    /// The whole object, refused as `Corrupt` when it is over `limit`.
    pub(super) async fn get_whole(&self, path: &Path, limit: u64) -> Result<Bytes> {
        self.get_tagged(path, limit).await.map(|(bytes, _)| bytes)
    }

    /// The whole object as [`Client::get_whole`] has it, and the tag of that version.
    pub(super) async fn get_tagged(&self, path: &Path, limit: u64) -> Result<(Bytes, VersionTag)> {
        let _turn = self.turn(Urgency::Demand).await?;
        let got = self.get(path, None, None).await?;
        let size = got.meta.size;
        if size > limit {
            return Err(Error::corrupt(format!("{}: has {size} bytes, more than {limit}", self.describe(path))));
        }
        let tag = VersionTag { etag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        Ok((self.collect(path, got, size).await?, tag))
    }

    /// Exactly this range; `Corrupt` when the object is shorter.
    pub(super) async fn get_range(&self, path: &Path, range: Range<u64>) -> Result<Bytes> {
        let _turn = self.turn(Urgency::Demand).await?;
        let got = self.get(path, Some(range.clone()), None).await?;
        if got.range != range {
            return Err(Error::corrupt(format!(
                "{}: ends at byte {}, bytes {range:?} were expected",
                self.describe(path),
                got.meta.size
            )));
        }
        self.collect(path, got, range.end - range.start).await
    }

    /// Starts to read; with `if_match`, another version is `Stale`. The caller has its turn.
    pub(super) async fn get(
        &self,
        path: &Path,
        range: Option<Range<u64>>,
        if_match: Option<String>,
    ) -> Result<GetResult> {
        self.count(|s| &s.gets);
        let options = GetOptions { range: range.map(GetRange::Bounded), if_match, ..GetOptions::default() };
        self.bounded(1, path, self.store.get_opts(path, options)).await
    }

    /// The next piece of a body; `None` at its end.
    pub(super) async fn next(
        &self,
        path: &Path,
        body: &mut BoxStream<'static, object_store::Result<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let piece = tokio::time::timeout(self.budget, body.next()).await.map_err(|_| self.too_slow(path))?;
        let piece = piece.transpose().map_err(|e| store_error(&self.describe(path), e))?;
        if let Some(piece) = &piece {
            self.stats.received(piece.len());
        }
        Ok(piece)
    }

    /// All bytes of a body, which must be `size`.
    pub(super) async fn collect(&self, path: &Path, got: GetResult, size: u64) -> Result<Bytes> {
        let too_big = |_| Error::corrupt(format!("{}: {size} bytes do not fit in memory", self.describe(path)));
        let size = usize::try_from(size).map_err(too_big)?;
        let mut body = got.into_stream();
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.next(path, &mut body).await? {
            if bytes.is_empty() && piece.len() == size {
                return Ok(piece);
            }
            // Grown by what has come, so that a size that lies allocates nothing.
            bytes.extend_from_slice(&piece);
            if bytes.len() > size {
                break;
            }
        }
        if bytes.len() != size {
            let message = format!("{}: the store sent {} bytes of {size}", self.describe(path), bytes.len());
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(bytes.freeze())
    }

    /// One level of a prefix.
    pub(super) async fn list(&self, prefix: &Path) -> Result<ListResult> {
        let _turn = self.turn(Urgency::Demand).await?;
        if !self.http
            && let Err(e) = self.head_now(prefix).await
            && e.kind() == ErrorKind::Unavailable
        {
            // A long listing is given time; a NameNode that does not answer at all is not.
            return Err(e);
        }
        self.count(|s| &s.lists);
        self.bounded(LISTING_BUDGETS, prefix, self.store.list_with_delimiter(Some(prefix))).await
    }

    /// Bounds a call in time; HTTP requests are bounded one by one below, so only calls that stall altogether end here.
    async fn bounded<T>(
        &self,
        budgets: u32,
        path: &Path,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T> {
        self.in_time(budgets, path, call).await?.map_err(|e| {
            if !self.http && !matches!(e, object_store::Error::NotFound { .. }) {
                StorageStats::add(&self.stats.errors, 1);
            }
            store_error(&self.describe(path), e)
        })
    }

    /// [`Client::bounded`] with the store's own error.
    pub(super) async fn in_time<T>(
        &self,
        budgets: u32,
        path: &Path,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<object_store::Result<T>> {
        tokio::time::timeout(self.patience(budgets), call).await.map_err(|_| self.too_slow(path))
    }

    /// How long to wait for a call.
    pub(super) fn patience(&self, budgets: u32) -> Duration {
        self.budget.saturating_mul(budgets) + self.budget / 2
    }

    fn too_slow(&self, path: &Path) -> Error {
        self.too_slow_for(&self.describe(path))
    }

    pub(super) fn too_slow_for(&self, name: &str) -> Error {
        let message = format!("{name}: no answer within {:?}", self.budget);
        Error::new(ErrorKind::Unavailable, message)
            .with_hint("the store does not answer; check the endpoint and the network")
    }

    /// Counts a call of a store that does not count its own requests.
    pub(super) fn count(&self, counter: impl Fn(&StorageStats) -> &std::sync::atomic::AtomicU64) {
        if !self.http {
            StorageStats::add(counter(&self.stats), 1);
        }
    }
}

/// Their description of an object as ours.
pub(super) fn meta(meta: &object_store::ObjectMeta) -> ObjectMeta {
    ObjectMeta { size: meta.size, modified_ms: meta.last_modified.timestamp_millis(), etag: meta.e_tag.clone() }
}
