//! The daemon: wires storage, tables, filesystem, FUSE session and control socket, and keeps them in step.
//!
//! Reading order: [`background`] (fork and report), [`service`] (the tables of a mount, and every question about them),
//! `watch` (when to look for commits), `leases` (when to tell cleaners what is in use),
//! [`run`] (start, signals, orderly end), `systemd`.
//!
//! A refresh loads the next snapshot, switches the tree to it, and lets the session's own thread tell the kernel; the same
//! path serves inotify, polling, SIGHUP and the control socket. What fails keeps the old generation and shows in status.

pub mod background;
mod files;
mod leases;
mod run;
pub mod service;
mod stale;
mod systemd;
mod watch;
pub mod writing;

pub use run::{Started, run};
pub use service::Service;
pub use stale::is_dead;
pub use writing::Writing;

use crate::fs::FsOptions;
use crate::fuse::MountOptions;
use crate::storage::StorageOptions;
use crate::table::Listing;
use crate::telemetry::log::LogSettings;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that a daemon needs to know. Paths are absolute, defaults filled in.
#[derive(Clone, Debug)]
pub struct DaemonSettings {
    /// The table's base, or the warehouse's.
    pub uri: String,
    /// True to mount every table below `uri`.
    pub warehouse: bool,
    /// The mount point.
    pub directory: PathBuf,
    /// How the store is reached.
    pub storage: StorageOptions,
    /// What the user would have the memory stay below, bytes; `storage` and `fs` have their shares of it.
    pub memory_target_bytes: u64,
    /// Where files are listed from.
    pub listing: Listing,
    /// How the tree looks.
    pub fs: FsOptions,
    /// How it is mounted.
    pub mount: MountOptions,
    /// Where the log goes.
    pub log: LogSettings,
    /// How often to look for commits where nothing tells.
    pub poll: PollInterval,
    /// How long a lease lives unless it is renewed; `None` for the usual time.
    pub lease_life: Option<Duration>,
    /// Let inotify tell, where it can.
    pub watch: bool,
    /// Write nothing to the tables: no writes through the control socket, no leases.
    pub read_only: bool,
    /// Stay attached to the terminal or supervisor.
    pub foreground: bool,
}

/// How often to look for new commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollInterval {
    /// After each such time.
    Every(Duration),
    /// Only when asked.
    Never,
}

/// Where sockets go: `/run/hudifs` for root, else a directory of the user's own.
pub fn runtime_dir() -> PathBuf {
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    if uid == 0 {
        return PathBuf::from("/run/hudifs");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        Some(dir) => dir.join("hudifs"),
        None => std::env::temp_dir().join(format!("hudifs-{uid}")),
    }
}

/// Where a background daemon logs to if neither a directory was named nor journald or syslog listens.
pub fn log_dir() -> PathBuf {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        return PathBuf::from("/var/log/hudifs");
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map_or_else(runtime_dir, |dir| dir.join("hudifs"))
}

/// The socket of the daemon that serves a mount point: its path made readable, and its checksum to tell it from others.
pub fn socket_path(mount_point: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let bytes = mount_point.as_os_str().as_bytes();
    let readable: String = mount_point
        .to_string_lossy()
        .trim_matches('/')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' })
        .collect();
    // The end of a path tells more than its beginning; all of it is ASCII now.
    let tail = readable.get(readable.len().saturating_sub(40)..).unwrap_or_default();
    runtime_dir().join(format!("{tail}-{:08x}.sock", crc32fast::hash(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_different_mounts_differ_and_fit() {
        let long = format!("/mnt/{}", "x/ü".repeat(500));
        let paths = ["/mnt/a-b", "/mnt/a/b", "/mnt/a b", long.as_str()].map(|p| socket_path(Path::new(p)));
        for (at, path) in paths.iter().enumerate() {
            assert!(path.as_os_str().len() < 108, "{}", path.display());
            assert!(!paths[..at].contains(path));
        }
        assert!(paths[0].file_name().unwrap().to_str().unwrap().starts_with("mnt-a-b-"));
    }
}
