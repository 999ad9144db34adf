//! What operators see of a running hudifs: metrics, events and the log.
//!
//! - [`metric`]: one table of definitions; a metric that is not in it cannot be recorded. Labels are closed enums, so the
//!   number of series is known when the program is built.
//! - [`event`]: a bounded ring of things that a person should know about, each with a code, the thing concerned and a hint.
//!   FUSE has only an errno, so every EIO and ESTALE leaves an event.
//! - [`log`]: where log lines go.
//!
//! Recording is lock-free for metrics and takes one short lock for events. Names nothing of the modules that record.

pub mod event;
pub mod label;
pub mod log;
pub mod metric;

pub use event::{Event, EventCode};
pub use label::{
    Cache, CacheResult, Errno, FuseOp, LabelSet, Notification, OpenMode, RefreshResult, RefusedPeer, StatusClass,
    StorageOp, TableState, WriteOperation, WriteResult,
};
