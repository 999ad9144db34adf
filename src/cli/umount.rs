//! `hudifs umount`: like umount(8), and waits until the daemon has ended.

use super::Stop;
use super::args::UmountArgs;
use super::target::mount_of;
use crate::daemon::is_dead;
use crate::error::{Error, ErrorKind};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest wait for the daemon to end after the mount is gone.
const END_MAX: Duration = Duration::from_secs(10);

/// Unmounts.
pub fn run(args: &UmountArgs) -> Result<(), Stop> {
    let (root, socket) = match mount_of(&args.mount) {
        Some(mount) => (mount.root, Some(mount.socket)),
        None if is_dead(&args.mount) => {
            (std::path::absolute(&args.mount).map_err(|e| Error::io(args.mount.display(), e))?, None)
        }
        None => {
            return Err(Error::invalid(format!("{} is not in a mount of hudifs", args.mount.display()))
                .with_hint("`findmnt -t fuse.hudifs` lists them")
                .into());
        }
    };
    unmount(&root, args.lazy || socket.is_none())?;
    if let Some(socket) = socket.filter(|_| !args.lazy) {
        wait_for_end(&socket)?;
    }
    Ok(())
}

fn unmount(root: &Path, lazy: bool) -> Result<(), Error> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return unmount_as_user(root, lazy);
    }
    let path = CString::new(root.as_os_str().as_bytes()).map_err(|_| Error::invalid("the path holds a NUL byte"))?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazy { libc::MNT_DETACH } else { 0 };
    // SAFETY: `path` ends with NUL.
    if unsafe { libc::umount2(path.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EBUSY) => busy(root),
        _ => Error::io(format!("umount {}", root.display()), error),
    })
}

fn unmount_as_user(root: &Path, lazy: bool) -> Result<(), Error> {
    let mut command = Command::new("fusermount3");
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(root);
    let output = command.output().map_err(|e| {
        Error::io("fusermount3", e).with_hint("install the fuse3 package, or unmount as root with umount(8)")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") {
        return Err(busy(root));
    }
    Err(Error::new(ErrorKind::Unavailable, format!("fusermount3 -u {}: {}", root.display(), said.trim())))
}

fn busy(root: &Path) -> Error {
    Error::new(ErrorKind::Conflict, format!("{} is in use", root.display()))
        .with_hint("`fuser -vm` on it shows by whom; --lazy unmounts all the same")
}

/// Waits until nobody listens any more: then another daemon can be started for the same place.
fn wait_for_end(socket: &PathBuf) -> Result<(), Error> {
    let limit = Instant::now() + END_MAX;
    while UnixStream::connect(socket).is_ok() {
        if Instant::now() > limit {
            return Err(Error::new(ErrorKind::Unavailable, "the daemon has not ended yet, though the mount is gone")
                .with_hint("look into its log"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
