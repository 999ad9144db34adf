//! The mount point: looked at before, mounted on, cleared away when dead.

use super::helper;
use super::session::MountOptions;
use crate::error::{Error, ErrorKind, Result};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a mount point may take to answer before it counts as hanging.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Looks at a mount point, and clears a dead mount away where that is asked for. Returns the absolute path.
pub fn prepare(mount_point: &Path, options: &MountOptions, tables: &[PathBuf]) -> Result<PathBuf> {
    if let Err(error) = ask(mount_point) {
        if !is_dead(&error) {
            let error = Error::io(format!("mount point {}", mount_point.display()), error);
            return Err(Error::invalid(error.message()).with_hint("create the directory first"));
        }
        if !options.replace_stale {
            let message = format!("mount point {}: a mount whose process has ended is there", mount_point.display());
            return Err(Error::new(ErrorKind::Stale, message)
                .with_hint("mount with --replace-stale, or unmount it first with `umount -l` or `fusermount3 -uz`"));
        }
        detach(mount_point)?;
    }
    let path = mount_point
        .canonicalize()
        .map_err(|e| Error::invalid(Error::io(format!("mount point {}", mount_point.display()), e).message()))?;
    if !path.is_dir() {
        return Err(Error::invalid(format!("mount point {} is not a directory", path.display())));
    }
    if mounts_at(&path).last().is_some_and(|line| line.contains(" - fuse.hudifs ")) {
        let message = format!("mount point {} already has a hudifs mounted on it", path.display());
        return Err(Error::new(ErrorKind::Conflict, message).with_hint("unmount it first with `hudifs umount`"));
    }
    check_outside_tables(&path, tables)?;
    advise(&path);
    Ok(path)
}

/// Once it is unmounted, the empty directory below could be taken for an empty table. Where that matters, a directory that
/// nobody may read prevents it; only root can mount on one.
fn advise(path: &Path) {
    // SAFETY: the call has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if root && std::fs::metadata(path).is_ok_and(|m| m.mode() & 0o777 != 0) {
        tracing::debug!(mount_point = %path.display(), "while nothing is mounted here, readers see an empty directory and \
             not an error; `chmod 0` on the directory before mounting prevents that");
    }
}

/// A path filter of Hudi's own clients that meets the mount walks up through its parents and would find the wrong table.
fn check_outside_tables(path: &Path, tables: &[PathBuf]) -> Result<()> {
    for dir in path.ancestors() {
        if dir.join(".hoodie").is_dir() {
            let message = format!("mount point {} lies inside the Hudi table {}", path.display(), dir.display());
            return Err(Error::invalid(message).with_hint("choose a directory outside of every table"));
        }
    }
    match tables.iter().find(|table| table.starts_with(path)) {
        Some(table) => {
            let message = format!("mount point {} would hide the table {}", path.display(), table.display());
            Err(Error::invalid(message).with_hint("choose a directory that does not contain the table"))
        }
        None => Ok(()),
    }
}

/// Asks whether the mount point is there and answers. Only statfs will do: the kernel answers the rest for a dead mount from
/// its caches. In a thread of its own, because a mount whose process hangs would not answer.
fn ask(path: &Path) -> std::io::Result<()> {
    let (done, answer) = channel();
    let owned = CString::new(path.as_os_str().as_bytes())?;
    std::thread::Builder::new().name("hudifs-stat".into()).spawn(move || {
        // SAFETY: all-zero bytes are a valid statfs, and the path ends with a zero byte.
        let failed = unsafe { libc::statfs(owned.as_ptr(), &mut std::mem::zeroed()) } != 0;
        // Nobody may be left who wants to know.
        let _ = done.send(if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) });
    })?;
    answer.recv_timeout(ANSWER_MAX).unwrap_or_else(|_| {
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("{} does not answer", path.display())))
    })
}

fn is_dead(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED))
}

/// Unmounts what is at a path, even while it is in use.
fn detach(path: &Path) -> Result<()> {
    match umount(path, libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) {
        Ok(()) => {
            tracing::info!(mount_point = %path.display(), "removed a dead mount");
            Ok(())
        }
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => helper::unmount(path, true),
        Err(error) => Err(Error::io(format!("unmounting the dead mount {}", path.display()), error)),
    }
}

/// Calls umount2(2).
pub fn umount(path: &Path, flags: libc::c_int) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::umount2(path.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Opens the device, as each thread with a descriptor of its own must.
pub fn open_device() -> std::io::Result<File> {
    File::options().read(true).write(true).custom_flags(libc::O_CLOEXEC).open("/dev/fuse")
}

/// Mounts without a helper, which root may. `None` where this user may not.
pub fn mount_directly(path: &Path, options: &MountOptions) -> Result<Option<OwnedFd>> {
    let device = match open_device() {
        Ok(device) => device,
        // The helper may open it.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Ok(None),
        Err(e) => {
            return Err(Error::new(ErrorKind::Unsupported, format!("/dev/fuse: {e}"))
                .with_hint("load the kernel's module with `modprobe fuse`; a container needs `--device /dev/fuse`"));
        }
    };
    let mode = std::fs::metadata(path).map_err(|e| Error::io(path.display(), e))?.mode();
    // SAFETY: neither call has preconditions or can fail.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let mut data = format!("fd={},rootmode={mode:o},user_id={uid},group_id={gid}", device.as_raw_fd());
    data.push_str(",default_permissions,max_read=1048576");
    if options.allow_other || options.allow_root {
        data.push_str(",allow_other");
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | if options.read_only { libc::MS_RDONLY } else { 0 };
    let text = |s: &[u8]| CString::new(s).map_err(|_| Error::invalid("a mount option holds a zero byte"));
    let (source, target) = (text(options.source.as_bytes())?, text(path.as_os_str().as_bytes())?);
    let (kind, data) = (text(b"fuse.hudifs")?, text(data.as_bytes())?);
    // SAFETY: all strings end with a zero byte and outlive the call.
    let failed =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) } != 0;
    if !failed {
        return Ok(Some(device.into()));
    }
    match std::io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::EPERM) => Ok(None),
        e if e.raw_os_error() == Some(libc::ENODEV) => {
            Err(Error::new(ErrorKind::Unsupported, format!("mounting {}: {e}", path.display()))
                .with_hint("this kernel has no FUSE; load its module with `modprobe fuse`"))
        }
        e => Err(Error::io(format!("mounting {}", path.display()), e)),
    }
}

/// Lets the kernel read ahead more than the 128 KiB that FUSE may ask for. Root may; others keep the default.
pub fn raise_read_ahead(mount_point: &Path, kib: u32) {
    let Some(device) = device_of(mount_point) else { return };
    let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(error) = std::fs::write(&file, kib.to_string()) {
        tracing::debug!(file, %error, "the kernel's read-ahead stays as it is");
    }
}

/// The device number of a mount, without asking the mount itself.
fn device_of(mount_point: &Path) -> Option<String> {
    mounts_at(mount_point).last()?.split(' ').nth(2).map(str::to_owned)
}

/// The lines of mountinfo for a mount point; the last one covers those before.
fn mounts_at(mount_point: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let wanted = escape(mount_point);
    mounts.lines().filter(|l| l.split(' ').nth(4) == Some(wanted.as_str())).map(str::to_owned).collect()
}

/// Paths in mountinfo have white space and backslashes as octal numbers.
fn escape(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' => out.push_str(&format!("\\{:03o}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// True if a local folder lies on a stacked file system, which passthrough then has to reach through.
pub fn is_stacked(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: all-zero bytes are a valid statfs.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte and `stat` is writable.
    let known = unsafe { libc::statfs(path.as_ptr(), &mut stat) } == 0;
    known && stat.f_type == libc::OVERLAYFS_SUPER_MAGIC
}
