//! [`Session`]: one mount and its threads.

use crate::error::{Error, Result};
use crate::fs::{Invalidation, TableFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Lets all users in.
    pub allow_other: bool,
    /// Lets root in besides the mounting user.
    pub allow_root: bool,
    /// Lets fusermount3 unmount when this process ends, however it ends.
    pub auto_unmount: bool,
    /// What `df` and /proc/mounts show as the source: the table's URI.
    pub source: String,
    /// Lets the kernel refuse writes by itself (mount flag `ro`). Without it every attempt reaches hudifs, which refuses it
    /// too and names the control socket in the log, but the kernel keeps fewer attributes.
    pub read_only: bool,
    /// Lets the kernel read local files by itself where it can.
    pub passthrough: bool,
    /// Threads that take requests; `None` for a choice by how files are served.
    pub threads: Option<usize>,
    /// Unmounts a dead mount that is found at the mount point.
    pub replace_stale: bool,
}

impl Default for MountOptions {
    /// For the mounting user alone, read-only, with passthrough.
    fn default() -> Self {
        MountOptions {
            allow_other: false,
            allow_root: false,
            auto_unmount: false,
            source: "hudifs".to_owned(),
            read_only: true,
            passthrough: true,
            threads: None,
            replace_stale: false,
        }
    }
}

/// How files are served, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The kernel reads local files by itself.
    Passthrough,
    /// hudifs answers each read; the reason why the kernel does not read by itself.
    Served(String),
}

/// Tells when the kernel has been told.
#[derive(Debug)]
pub struct Told {}

impl Told {
    /// Waits until the kernel has been told, at most `timeout`; false if that passed first.
    pub fn wait(self, timeout: Duration) -> bool {
        let _ = timeout;
        true
    }
}

/// One mount. Dropping it unmounts (lazily, if the mount is busy).
pub struct Session {}

impl Session {
    /// Mounts the tree at an existing directory and starts to serve it. When this returns, the tree can be used.
    ///
    /// `Invalid` for a mount point that is missing, no directory, or lies inside a Hudi table; `Stale` with a hint for a dead
    /// mount that `replace_stale` would remove; `Unsupported` without /dev/fuse; `Denied` without the right to mount.
    pub fn mount(fs: Arc<TableFs>, mount_point: &Path, options: &MountOptions) -> Result<Session> {
        let _ = (fs, mount_point, options);
        Err(Error::internal("not yet"))
    }

    /// The mount point, absolute.
    pub fn mount_point(&self) -> PathBuf {
        PathBuf::new()
    }

    /// Hands over what the kernel must forget. Returns at once; the session's own thread tells the kernel.
    pub fn notify(&self, what: Invalidation) -> Told {
        let _ = what;
        Told {}
    }

    /// How files are served.
    pub fn serving(&self) -> Serving {
        Serving::Passthrough
    }

    /// Waits until the mount has ended, by [`Session::unmount`] or by umount(8); `None` if `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Result<()>> {
        let _ = timeout;
        None
    }

    /// Unmounts. `Conflict` while the mount is in use, unless `lazy`: then it vanishes at once and ends with its last use.
    pub fn unmount(&self, lazy: bool) -> Result<()> {
        let _ = lazy;
        Ok(())
    }
}
