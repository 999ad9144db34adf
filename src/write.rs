//! Writing: one request is one commit.
//!
//! [`Writer`] is the way in: it is opened on a table and runs [`WriteRequest`]s, each of which becomes one atomic commit and is
//! answered with a [`CommitReport`]. A commit's steps are those of docs/format.md, "Writing": requested, inflight, a marker
//! before each file, data files, and under the table's lock the check for conflicts, the metadata table, and the completed
//! instant, which makes all of it visible at once. Nothing that a crash leaves behind before that last step is ever visible.

pub mod archive;
mod assign;
mod bulk;
pub mod clean;
mod columns;
mod compact;
pub mod conflict;
pub mod create;
mod engine;
mod execute;
mod groups;
pub mod heartbeat;
mod incoming;
pub mod lock;
pub mod markers;
mod metadata;
mod moves;
mod options;
mod outcome;
mod plan;
mod recheck;
mod report;
mod request;
pub mod rollback;
mod route;
mod services;
pub mod session;
mod spool;
mod supported;
pub mod transaction;
mod writer;

use crate::slice::pool;

pub use metadata::verify_metadata;
pub use options::{IndexKind, Protected, WriterOptions};
pub use report::{CommitReport, FileReport, Phase, Progress, ServiceReport};
pub use request::{Operation, Records, WriteRequest};
pub use session::{Critical, Session};
pub use transaction::{Committed, Transaction};
pub use writer::Writer;
