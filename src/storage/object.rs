//! Tables in object stores and in HDFS, over any `object_store::ObjectStore`.
//!
//! Calls block while requests run on the shared runtime ([`super::runtime`]). One client, its connections, its cache and
//! its counters serve all tables that are opened from one store ([`Storage::rooted_at`]).
//!
//! Names are mapped as they are written: Hudi's `%`, `=` and spaces are part of the key, and nothing is encoded or decoded
//! on the way. Objects that only stand for directories (`dir/`, `dir_$folder$`) are no files.

mod client;
mod connect;
mod counting;
mod error;
mod file;
mod hdfs;
mod listing;
mod profile;
mod write;

use super::cache::{BlockCache, disk::DiskCache};
use super::location::{Location, StoreKind};
use super::runtime::block_on;
use super::{
    DirEntry, EntryKind, ObjectMeta, ObjectWriter, RandomRead, Removal, Storage, StorageOptions, StorageStats,
    TablePath, VersionTag,
};
use crate::error::{Error, ErrorKind, Result};
use bytes::Bytes;
use client::{Client, meta};
use file::ObjectFile;
use futures::stream::StreamExt;
use object_store::PutMode;
use object_store::path::Path;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Fewer names than this are stat'ed one by one; for more, one listing of their directory tells all.
const HEADS_MAX: usize = 16;

/// A table's prefix in a store.
#[derive(Debug)]
pub struct ObjectStorage {
    uri: String,
    base: TablePath,
    client: Arc<Client>,
    cache: Arc<BlockCache>,
    options: Arc<StorageOptions>,
}

impl ObjectStorage {
    /// Prepares a client for the store that `location` names; sends nothing yet.
    pub fn connect(location: &Location, options: &StorageOptions) -> Result<Self> {
        let uri = location.uri();
        let Location::Store { kind, authority, path, .. } = location else {
            return Err(Error::internal(format!("{uri} is not in a store")));
        };
        let stats = Arc::new(StorageStats::default());
        let store = connect::connect(*kind, &uri, authority, options, &stats)?;
        let name = uri.strip_suffix(path.as_str()).unwrap_or(&uri).trim_end_matches('/').to_owned();
        let http = *kind != StoreKind::Hdfs;
        let base = TablePath::parse(path)?;
        Self::new(store, name, base, http, options, stats)
    }

    fn new(
        store: Arc<dyn object_store::ObjectStore>,
        name: String,
        base: TablePath,
        http: bool,
        options: &StorageOptions,
        stats: Arc<StorageStats>,
    ) -> Result<Self> {
        let disk = match &options.cache_dir {
            Some(dir) => Some(DiskCache::open(dir, options.max_cache_size_bytes, stats.clone())?),
            None => None,
        };
        let cache = Arc::new(BlockCache::new(options.memory_target_bytes, disk, stats.clone()));
        let client = Client::new(store, stats, name, http, options.requests_max, options.retry_budget);
        Ok(ObjectStorage {
            uri: uri_of(&client.name, &base),
            base,
            client: Arc::new(client),
            cache,
            options: Arc::new(options.clone()),
        })
    }

    /// The key of a path. Stores take no control characters, which a table never has.
    fn key(&self, path: &TablePath) -> Result<Path> {
        let full = self.base.join(path.as_str())?;
        Path::parse(full.as_str())
            .map_err(|e| Error::new(ErrorKind::Unsupported, format!("{}/{full}: {e}", self.client.name)).with_source(e))
    }

    fn stat_each(&self, keys: Vec<Result<Path>>) -> Vec<Result<ObjectMeta>> {
        let client = self.client.clone();
        self.overlapped(keys, move |key| {
            let client = client.clone();
            async move { client.head(&key).await }
        })
    }

    /// Runs a request for each key, or whatever else it takes, side by side, results in order.
    fn overlapped<K, T, F>(&self, keys: Vec<Result<K>>, request: impl Fn(K) -> F + Send + 'static) -> Vec<Result<T>>
    where
        K: Send + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let count = keys.len();
        let at_once = self.options.requests_max.max(1);
        let work = async move {
            let requests = keys.into_iter().map(|key| {
                let request = key.map(&request);
                async move {
                    match request {
                        Ok(request) => request.await,
                        Err(e) => Err(e),
                    }
                }
            });
            Ok(futures::stream::iter(requests.collect::<Vec<_>>()).buffered(at_once).collect::<Vec<_>>().await)
        };
        block_on(work).unwrap_or_else(|e| (0..count).map(|_| Err(e.duplicate())).collect())
    }
}

/// A directory's name relative to its parent's key; `None` for the parent itself.
fn below<'a>(parent: &Path, key: &'a Path) -> Option<&'a str> {
    let rest = key.as_ref().strip_prefix(parent.as_ref())?;
    let rest = if parent.is_root() { rest } else { rest.strip_prefix('/')? };
    (!rest.is_empty()).then_some(rest)
}

/// True for the empty objects that tools leave to stand for a directory.
fn is_marker(name: &str, size: u64) -> bool {
    size == 0 && name.ends_with("_$folder$")
}

fn uri_of(name: &str, base: &TablePath) -> String {
    if base.is_root() { name.to_owned() } else { format!("{name}/{base}") }
}

impl Storage for ObjectStorage {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn read(&self, path: &TablePath, limit: u64) -> Result<Bytes> {
        let (client, key) = (self.client.clone(), self.key(path)?);
        block_on(async move { client.get_whole(&key, limit).await })
    }

    fn read_range(&self, path: &TablePath, offset: u64, len: u64) -> Result<Bytes> {
        let (client, key) = (self.client.clone(), self.key(path)?);
        let end = offset.checked_add(len).ok_or_else(|| Error::invalid(format!("{path}: bytes beyond any object")))?;
        block_on(async move {
            if len > 0 {
                return client.get_range(&key, offset..end).await;
            }
            match client.head(&key).await? {
                meta if offset <= meta.size => Ok(Bytes::new()),
                meta => Err(Error::corrupt(format!("{}: ends at byte {}", client.describe(&key), meta.size))),
            }
        })
    }

    fn read_many(&self, paths: &[TablePath], limit: u64) -> Vec<Result<Bytes>> {
        let client = self.client.clone();
        self.overlapped(paths.iter().map(|p| self.key(p)).collect(), move |key| {
            let client = client.clone();
            async move { client.get_whole(&key, limit).await }
        })
    }

    fn stat(&self, path: &TablePath) -> Result<ObjectMeta> {
        let (client, key) = (self.client.clone(), self.key(path)?);
        block_on(async move { client.head(&key).await })
    }

    fn stat_many(&self, dir: &TablePath, names: &[&str]) -> Vec<Result<ObjectMeta>> {
        let key_of = |name: &&str| {
            super::path::check_component(name)?;
            self.key(&dir.join(name)?)
        };
        let keys: Vec<Result<Path>> = names.iter().map(key_of).collect();
        if names.len() <= HEADS_MAX {
            return self.stat_each(keys);
        }
        let listed = self.key(dir).and_then(|key| {
            let client = self.client.clone();
            block_on(async move { client.list(&key).await })
        });
        match listed {
            Err(e) => names.iter().map(|_| Err(e.duplicate())).collect(),
            Ok(listed) => {
                let found: HashMap<&Path, ObjectMeta> = listed.objects.iter().map(|o| (&o.location, meta(o))).collect();
                let look_up = |key: Result<Path>| {
                    let key = key?;
                    let missing = || Error::not_found(format!("{}: does not exist", self.client.describe(&key)));
                    found.get(&key).cloned().ok_or_else(missing)
                };
                keys.into_iter().map(look_up).collect()
            }
        }
    }

    fn list(&self, dir: &TablePath) -> Result<Vec<DirEntry>> {
        let (client, key) = (self.client.clone(), self.key(dir)?);
        let prefix = key.clone();
        let listed = block_on(async move { client.list(&key).await })?;
        let dirs = listed.common_prefixes.iter().filter_map(|p| below(&prefix, p).map(|n| (n, EntryKind::Dir)));
        let files = listed.objects.iter().filter_map(|o| {
            let name = below(&prefix, &o.location)?;
            (!is_marker(name, o.size)).then_some((name, EntryKind::File { size: Some(o.size) }))
        });
        Ok(dirs.chain(files).map(|(name, kind)| DirEntry { name: name.to_owned(), kind }).collect())
    }

    fn is_object_store(&self) -> bool {
        true
    }

    fn list_flat(&self, dir: &TablePath) -> Option<Result<Vec<(String, u64)>>> {
        Some(self.key(dir).and_then(|key| {
            let (client, prefix) = (self.client.clone(), key.clone());
            let found = block_on(async move { listing::list_flat(client, key).await })?;
            let files = found.into_iter().filter_map(|o| {
                let name = below(&prefix, &o.location)?;
                (!is_marker(name, o.size)).then(|| (name.to_owned(), o.size))
            });
            Ok(files.collect())
        }))
    }

    fn open(&self, path: &TablePath, expected_size: Option<u64>) -> Result<Arc<dyn RandomRead>> {
        let key = self.key(path)?;
        let (client, cache, options) = (self.client.clone(), self.cache.clone(), self.options.clone());
        let open = async move { ObjectFile::open(client, cache, key, expected_size, &options).await };
        Ok(Arc::new(block_on(open)?))
    }

    fn local_path(&self, _path: &TablePath) -> Option<PathBuf> {
        None
    }

    fn rooted_at(&self, dir: &TablePath) -> Result<Arc<dyn Storage>> {
        let base = self.base.join(dir.as_str())?;
        Ok(Arc::new(ObjectStorage {
            uri: uri_of(&self.client.name, &base),
            base,
            client: self.client.clone(),
            cache: self.cache.clone(),
            options: self.options.clone(),
        }))
    }

    fn stats(&self) -> &StorageStats {
        &self.client.stats
    }

    fn read_tagged(&self, path: &TablePath, limit: u64) -> Result<(Bytes, VersionTag)> {
        let (client, key) = (self.client.clone(), self.key(path)?);
        block_on(async move { client.get_tagged(&key, limit).await })
    }

    fn create(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        self.put_object(path, bytes, PutMode::Create)
    }

    fn create_many(&self, files: &[(TablePath, Bytes)]) -> Vec<Result<()>> {
        self.put_objects(files)
    }

    fn put(&self, path: &TablePath, bytes: Bytes) -> Result<ObjectMeta> {
        self.put_object(path, bytes, PutMode::Overwrite)
    }

    fn put_if_match(&self, path: &TablePath, bytes: Bytes, expected: Option<&VersionTag>) -> Result<VersionTag> {
        self.replace_object(path, bytes, expected)
    }

    fn create_writer(&self, path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        self.object_writer(path)
    }

    fn create_dir(&self, _dir: &TablePath) -> Result<()> {
        Ok(())
    }

    fn delete(&self, what: &Removal) -> Result<()> {
        self.remove(std::slice::from_ref(what)).pop().unwrap_or(Ok(()))
    }

    fn delete_many(&self, what: &[Removal]) -> Vec<Result<()>> {
        self.remove(what)
    }
}
