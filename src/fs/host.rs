//! What the tree shows but does not know: the daemon provides it.

use std::path::PathBuf;

/// A file whose content is made when it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VirtualFile {
    /// `.hudifs/status.json`
    Status,
    /// `.hudifs/timeline.json`; tables only.
    Timeline,
    /// `.hudifs/metrics`
    Metrics,
}

/// Provides what is shown below `.hudifs`. Called from worker threads; may take a moment, must not ask the mount itself.
pub trait Host: Send + Sync + 'static {
    /// The content of a virtual file. `table` is the table's path in the mount: empty where the mount is one table, `None` for
    /// the files of a whole warehouse.
    fn content(&self, table: Option<&str>, file: VirtualFile) -> Vec<u8>;

    /// A view of a table as of an instant has come into use: its files should be held. Must return at once.
    fn view_opened(&self, _table: &str) {}

    /// The control socket, where there is one: the target of `.hudifs/control.sock`. An absolute path.
    fn control_socket(&self) -> Option<PathBuf>;
}
