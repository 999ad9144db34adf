//! How a [`super::Writer`] works: memory, threads, index, and Hudi's own write settings by their own names.

use crate::error::{Error, Result};
pub use crate::index::IndexKind;
use crate::storage::TablePath;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Says of a file, by its path in the table, whether somebody still reads it: the cleaner leaves it alone then.
#[derive(Clone)]
pub struct Protected(pub Arc<dyn Fn(&TablePath) -> bool + Send + Sync>);

/// How a writer works.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Bytes that a request may hold in memory; larger ones are spilled to temporary files.
    pub memory_target: u64,
    /// Threads that encode and merge files.
    pub threads: usize,
    /// The index; `None`: the one that the table was written with, else Hudi's default.
    pub index: Option<IndexKind>,
    /// Hudi's write settings by their own names, such as `hoodie.parquet.max.file.size`.
    pub settings: BTreeMap<String, String>,
    /// Clean, compact and archive after a commit when it is their turn.
    pub inline_services: bool,
    /// Drop indexes of the metadata table that cannot be maintained here, instead of refusing the table.
    pub drop_unsupported_index: bool,
    /// Files that readers of this process hold.
    pub protected: Option<Protected>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            memory_target: 512 << 20,
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            index: None,
            settings: BTreeMap::new(),
            inline_services: true,
            drop_unsupported_index: false,
            protected: None,
        }
    }
}

impl WriterOptions {
    /// A setting as it was given.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// A setting of some type, or its default; `Invalid` names the key.
    pub fn parsed<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        let Some(text) = self.setting(key) else { return Ok(default) };
        text.trim().parse().map_err(|_| {
            Error::invalid(format!("{key}={text:?} is no value of that setting"))
                .with_hint(format!("it is read as a {}", std::any::type_name::<T>()))
        })
    }
}

impl fmt::Debug for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protected")
    }
}
