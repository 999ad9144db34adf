//! [`Session`]: one mount and its threads.

use super::adapter::Adapter;
use super::helper;
use super::mount;
use super::notify::{Teller, Told};
use super::shared::{Serving, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Invalidation, TableFs};
use fuser::{Config, SessionACL};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The kernel's read-ahead for files that are served, KiB: a request carries a quarter of it.
const READ_AHEAD_KIB: u32 = 4096;
/// How long the end of a mount is waited for when it is dropped.
const END_MAX: Duration = Duration::from_secs(5);

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

/// One mount. Dropping it unmounts (lazily, if the mount is busy).
pub struct Session {
    mount_point: PathBuf,
    shared: Arc<Shared>,
    teller: Teller,
    end: Arc<End>,
    /// With `auto_unmount`: the helper unmounts when this is closed.
    _keep: Option<UnixStream>,
}

#[derive(Default)]
struct End {
    result: Mutex<Option<Result<()>>>,
    reached: Condvar,
}

impl Session {
    /// Mounts the tree at an existing directory and starts to serve it. When this returns, the tree can be used.
    ///
    /// `Invalid` for a mount point that is missing, no directory, or lies inside a Hudi table; `Stale` with a hint for a dead
    /// mount that `replace_stale` would remove; `Unsupported` without /dev/fuse; `Denied` without the right to mount.
    pub fn mount(fs: Arc<TableFs>, mount_point: &Path, options: &MountOptions) -> Result<Session> {
        let mount_point = mount::prepare(mount_point, options, &fs.local_roots())?;
        let stacked = fs.local_roots().iter().any(|r| mount::is_stacked(r));
        let serving = match (options.passthrough, fs.local_roots().is_empty()) {
            (false, _) => Serving::Served("passthrough is switched off".to_owned()),
            (true, true) => Serving::Served("no table lies on a local disk".to_owned()),
            (true, false) if !may_pass_through() => Serving::Served(NEEDS_ROOT.to_owned()),
            (true, false) => Serving::Passthrough,
        };
        let shared = Shared::new(fs.clone(), mount_point.clone(), serving);
        let adapter = Adapter::new(shared.clone(), if stacked { 2 } else { 1 });
        let (session, keep) = start(adapter, &mount_point, options, &shared)?;
        probe_passthrough(&session, &shared);
        let teller = Teller::start(session.notifier(), &fs).map_err(|e| Error::io("starting a thread", e))?;
        // Set once: a session has one such thread.
        let _ = shared.teller.set(teller.clone());
        let end = Arc::new(End::default());
        let at_end = end.clone();
        let run = move || {
            let result = session.run().map_err(|e| Error::io("serving the mount", e));
            at_end.reach(result);
        };
        let started = std::thread::Builder::new().name("hudifs-fuse".into()).spawn(run);
        if let Err(error) = started {
            let _ = mount::umount(&mount_point, libc::MNT_DETACH);
            return Err(Error::io("starting a thread", error));
        }
        mount::raise_read_ahead(&mount_point, READ_AHEAD_KIB);
        tracing::info!(mount_point = %mount_point.display(), serving = ?shared.serving(), "mounted; the tree is read-only");
        Ok(Session { mount_point, shared, teller, end, _keep: keep })
    }

    /// The mount point, absolute.
    pub fn mount_point(&self) -> PathBuf {
        self.mount_point.clone()
    }

    /// Hands over what the kernel must forget. Returns at once; the session's own thread tells the kernel.
    pub fn notify(&self, what: Invalidation) -> Told {
        self.teller.tell(what)
    }

    /// How files are served.
    pub fn serving(&self) -> Serving {
        self.shared.serving()
    }

    /// Waits until the mount has ended, by [`Session::unmount`] or by umount(8); `None` if `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Result<()>> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut result = self.end.lock();
        loop {
            if let Some(result) = &*result {
                return Some(result.as_ref().map(|_| ()).map_err(Error::duplicate));
            }
            result = match deadline.map(|d| d.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return None,
                Some(left) => self.end.reached.wait_timeout(result, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.end.reached.wait(result).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Unmounts. `Conflict` while the mount is in use, unless `lazy`: then it vanishes at once and ends with its last use.
    pub fn unmount(&self, lazy: bool) -> Result<()> {
        if self.end.lock().is_some() {
            return Ok(());
        }
        let what = || format!("unmounting {}", self.mount_point.display());
        match mount::umount(&self.mount_point, if lazy { libc::MNT_DETACH } else { 0 }) {
            Ok(()) => Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                let error = Error::new(ErrorKind::Conflict, format!("{}: the mount is in use", what()));
                Err(error.with_hint("close what uses it (`fuser -m` shows it), or unmount lazily"))
            }
            // Somebody else was faster.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => helper::unmount(&self.mount_point, lazy),
            Err(e) => Err(Error::io(what(), e)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.end.lock().is_some() {
            return;
        }
        if self.unmount(false).is_err()
            && let Err(error) = self.unmount(true)
        {
            tracing::error!(%error, "the mount stays behind");
            return;
        }
        if self.wait(Some(END_MAX)).is_none() {
            tracing::warn!(mount_point = %self.mount_point.display(), "unmounted, but still in use");
        }
    }
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Option<Result<()>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, result: Result<()>) {
        *self.lock() = Some(result);
        self.reached.notify_all();
    }
}

/// Mounts, directly where this user may, else through fusermount3, and shakes hands with the kernel.
fn start(
    adapter: Adapter,
    path: &Path,
    options: &MountOptions,
    shared: &Arc<Shared>,
) -> Result<(fuser::Session<Adapter>, Option<UnixStream>)> {
    let directly = if options.auto_unmount { None } else { mount::mount_directly(path, options)? };
    let (device, keep) = match directly {
        Some(device) => (device, None),
        None => {
            let mounted = helper::mount(path, options)?;
            (mounted.device, mounted.keep)
        }
    };
    let config = config(options, shared);
    let session = fuser::Session::from_fd(adapter, device, config.acl, config);
    session.map(|s| (s, keep)).map_err(|e| {
        // A mount that cannot be served would hang whoever looks at it.
        if mount::umount(path, libc::MNT_DETACH).is_err() {
            let _ = helper::unmount(path, true);
        }
        Error::io("the kernel's handshake", e)
    })
}

fn config(options: &MountOptions, shared: &Shared) -> Config {
    let mut config = Config::default();
    config.acl = match (options.allow_other, options.allow_root) {
        (true, _) => SessionACL::All,
        (false, true) => SessionACL::RootAndOwner,
        (false, false) => SessionACL::Owner,
    };
    // One thread answers fastest; several pay where each read passes through the daemon.
    let served = shared.serving() != Serving::Passthrough;
    let threads = options.threads.unwrap_or(if served { 4 } else { 1 }).clamp(1, 64);
    config.n_threads = Some(threads);
    // Where only the helper may open the device, the threads share one descriptor.
    config.clone_fd = threads > 1 && mount::open_device().is_ok();
    config
}

/// Why users who are not root get their reads served.
const NEEDS_ROOT: &str = "reading through the kernel needs root (CAP_SYS_ADMIN)";

/// True with the capability that passthrough needs, number 21.
fn may_pass_through() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = effective.and_then(|e| u64::from_str_radix(e.trim(), 16).ok());
    // Without /proc the kernel's own answer decides.
    effective.is_none_or(|caps| caps & (1 << 21) != 0)
}

/// Asks the kernel once, so that status tells the truth before the first file is opened: it refuses a directory, but
/// whoever lacks the right for anything first.
fn probe_passthrough(session: &fuser::Session<Adapter>, shared: &Shared) {
    if shared.serving() != Serving::Passthrough {
        return;
    }
    let Some(root) = shared.fs.local_roots().first().and_then(|r| std::fs::File::open(r).ok()) else { return };
    match fuser::BackingId::create_raw(session.as_fd(), root.as_fd()) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            shared.set_served(NEEDS_ROOT);
        }
        Err(_) => {}
        // The kernel took a directory: it is dropped with the session.
        Ok(_) => {}
    }
}
