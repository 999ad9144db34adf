//! What a user may set about stores: one value, assembled by the command line and passed to [`super::open`].
//!
//! Credentials are not here: they come from the environment and the providers' own files, as each store's tools read them.

use std::path::PathBuf;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Settings of a store. The default suits a laptop and a public store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageOptions {
    /// The store's region; else what the environment says (`AWS_REGION`).
    pub region: Option<String>,
    /// An endpoint other than the provider's own: `http://127.0.0.1:8333`.
    pub endpoint_url: Option<String>,
    /// Send requests without a signature, for public data.
    pub no_sign_request: bool,
    /// Memory for cached and read-ahead blocks of all objects together, bytes.
    pub memory_target_bytes: u64,
    /// A directory for blocks on disk; none is kept without it. It may be shared by daemons and survives restarts.
    pub cache_dir: Option<PathBuf>,
    /// Bound on the disk cache, bytes; without it, all but 5 % of the filesystem's free space.
    pub max_cache_size_bytes: Option<u64>,
    /// First read-ahead window of an object, bytes.
    pub read_ahead_min_bytes: u64,
    /// Largest read-ahead window of an object, bytes.
    pub read_ahead_max_bytes: u64,
    /// Requests in flight at once to one store.
    pub requests_max: usize,
    /// Time after which a failing request is given up, retries included.
    pub retry_budget: Duration,
}

impl Default for StorageOptions {
    fn default() -> Self {
        StorageOptions {
            region: None,
            endpoint_url: None,
            no_sign_request: false,
            memory_target_bytes: 256 * MIB,
            cache_dir: None,
            max_cache_size_bytes: None,
            read_ahead_min_bytes: MIB / 8,
            read_ahead_max_bytes: 64 * MIB,
            requests_max: 64,
            retry_budget: Duration::from_secs(30),
        }
    }
}
