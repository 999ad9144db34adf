//! All integration tests in one binary: one module an area.
//!
//! Each test says in its name what behaviour it pins down. Those that need what a machine cannot give (`/dev/fuse`, a
//! server, the golden tables) call [`common::skipped`], which is loud and is counted by `scripts/test`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected should stop"
)]

mod cli;
mod codec;
mod common;
mod compact;
mod control;
mod fixtures;
mod fs;
mod golden;
mod hfile_writer;
mod hostile;
mod index;
mod metadata;
mod metadata_writer;
mod mount;
mod mounted;
mod observability;
mod order;
mod refresh;
mod semantics;
mod servers;
mod slice;
mod storage;
mod view;
mod write;
