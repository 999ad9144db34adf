//! The questions that the server passes on. The daemon answers them for a mount, the command line for a table URI.
//!
//! Calls block and may take as long as the store takes; the server runs each on a thread that may block.

use super::problem::Failure;
use super::sink::FileSink;
use super::types::*;

/// What the control socket serves.
pub trait Handler: Send + Sync + 'static {
    /// The whole state.
    fn status(&self) -> Status;

    /// Every metric, in the Prometheus text format.
    fn metrics(&self) -> String;

    /// Every table, by name.
    fn tables(&self) -> Tables;

    /// One table.
    fn table(&self, name: &str) -> Result<TableStatus, Failure>;

    /// The instants of a table.
    fn timeline(&self, name: &str, query: TimelineQuery) -> Result<Timeline, Failure>;

    /// The files of a table's view, handed to `sink` in order. Fails before [`FileSink::begin`] if the question is wrong.
    fn files(&self, name: &str, query: &FilesQuery, sink: &mut dyn FileSink) -> Result<(), Failure>;

    /// Looks for new commits, and returns when they are visible.
    fn refresh(&self, request: &RefreshRequest) -> Result<Refreshed, Failure>;

    /// Holds a view.
    fn pin(&self, request: &PinRequest) -> Result<Pin, Failure>;

    /// Pins that have not ended.
    fn pins(&self) -> Pins;

    /// Holds a view for longer.
    fn extend(&self, id: &str, request: &ExtendRequest) -> Result<Pin, Failure>;

    /// Lets a view go.
    fn unpin(&self, id: &str) -> Result<(), Failure>;
}
