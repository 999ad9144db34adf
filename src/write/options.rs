//! How a [`super::Writer`] works: memory, threads, index, and Hudi's own write settings by their own names.

use crate::error::{Error, Result};
use crate::storage::TablePath;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Says of a file, by its path in the table, whether somebody still reads it: the cleaner leaves it alone then.
#[derive(Clone)]
pub struct Protected(pub Arc<dyn Fn(&TablePath) -> bool + Send + Sync>);

/// A kind of index, by Hudi's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Filters and key ranges in the footers of base files; keys are unique in their partition.
    Bloom,
    /// The same over all partitions; keys are unique in the table.
    GlobalBloom,
    /// The keys of the base files of the partitions touched.
    Simple,
    /// The keys of all base files.
    GlobalSimple,
    /// The file group is a function of the key.
    Bucket,
    /// The metadata table's `record_index`; keys are unique in the table.
    RecordLevel,
    /// No lookups: only inserts are possible.
    None,
}

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

impl IndexKind {
    /// Hudi's name of the kind, as in `hoodie.index.type`.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Bloom => "BLOOM",
            IndexKind::GlobalBloom => "GLOBAL_BLOOM",
            IndexKind::Simple => "SIMPLE",
            IndexKind::GlobalSimple => "GLOBAL_SIMPLE",
            IndexKind::Bucket => "BUCKET",
            IndexKind::RecordLevel => "RECORD_INDEX",
            IndexKind::None => "NONE",
        }
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_uppercase().replace('-', "_").as_str() {
            "BLOOM" => IndexKind::Bloom,
            "GLOBAL_BLOOM" => IndexKind::GlobalBloom,
            "SIMPLE" => IndexKind::Simple,
            "GLOBAL_SIMPLE" => IndexKind::GlobalSimple,
            "BUCKET" => IndexKind::Bucket,
            "RECORD_INDEX" | "GLOBAL_RECORD_LEVEL_INDEX" | "RECORD_LEVEL" => IndexKind::RecordLevel,
            "NONE" => IndexKind::None,
            _ => {
                return Err(Error::unsupported(format!("index type {text:?}")).with_hint(
                    "the kinds are BLOOM, GLOBAL_BLOOM, SIMPLE, GLOBAL_SIMPLE, BUCKET, RECORD_INDEX and NONE",
                ));
            }
        })
    }
}

impl fmt::Debug for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protected")
    }
}
