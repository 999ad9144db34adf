//! hudifs: an Apache Hudi table as a directory of plain Parquet files.
//!
//! Modules in reading order; lower ones may use higher ones, never the reverse (`tests/it/order.rs` checks it).

#![warn(missing_docs)]

pub mod cli;
pub mod control;
pub mod daemon;
pub mod error;
pub mod format;
pub mod fs;
pub mod fuse;
pub mod index;
pub mod metadata;
pub mod record;
pub mod slice;
pub mod storage;
pub mod table;
pub mod telemetry;
pub mod timeline;
pub mod view;
pub mod write;

pub use error::{Error, ErrorKind, Result};
