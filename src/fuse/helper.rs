//! fusermount3: the set-uid helper that mounts and unmounts for users who may not by themselves.
//!
//! It is given one end of a socket and sends the opened device back over it. With `auto_unmount` it stays, and unmounts when
//! the other end is closed, which also happens when this process dies.

use super::session::MountOptions;
use crate::error::{Error, ErrorKind, Result};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A mount that the helper made.
pub struct Mounted {
    /// The device, opened.
    pub device: OwnedFd,
    /// With `auto_unmount`: the mount ends when this is closed.
    pub keep: Option<UnixStream>,
}

/// Mounts.
pub fn mount(path: &Path, options: &MountOptions) -> Result<Mounted> {
    let (ours, theirs) = UnixStream::pair().map_err(|e| Error::io("a pair of sockets", e))?;
    let child = start(path, options, &theirs)?;
    drop(theirs);
    match receive(&ours) {
        Ok(Some(device)) if options.auto_unmount => {
            reap(child);
            Ok(Mounted { device, keep: Some(ours) })
        }
        Ok(Some(device)) => {
            drop(ours);
            reap(child);
            Ok(Mounted { device, keep: None })
        }
        Ok(None) => Err(refused(path, child)),
        Err(error) => Err(Error::io("a message from fusermount3", error)),
    }
}

/// Unmounts.
pub fn unmount(path: &Path, lazy: bool) -> Result<()> {
    let output = Command::new(program())
        .args(if lazy { ["-u", "-z", "--"].as_slice() } else { ["-u", "--"].as_slice() })
        .arg(path)
        .output()
        .map_err(not_started)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if text.contains("busy") { ErrorKind::Conflict } else { ErrorKind::Denied };
    Err(Error::new(kind, format!("unmounting {}: {text}", path.display())))
}

fn program() -> std::ffi::OsString {
    std::env::var_os("FUSERMOUNT_PATH").unwrap_or_else(|| "fusermount3".into())
}

fn not_started(error: std::io::Error) -> Error {
    let error = Error::io(format!("running {}", program().to_string_lossy()), error);
    Error::new(ErrorKind::Denied, error.message())
        .with_hint("install fuse3, whose fusermount3 mounts for users who are not root")
}

fn start(path: &Path, options: &MountOptions, socket: &UnixStream) -> Result<Child> {
    let fd = socket.as_raw_fd();
    let mut command = Command::new(program());
    command.arg("-o").arg(option_text(options)).arg("--").arg(path);
    command.env("_FUSE_COMMFD", fd.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only fcntl is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.spawn().map_err(not_started)
}

fn option_text(options: &MountOptions) -> String {
    // The helper takes a backslash as an escape, so that a name may hold commas.
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut text = format!("fsname={source},subtype=hudifs,nosuid,nodev,default_permissions,max_read=1048576");
    for (set, name) in [
        (options.read_only, "ro"),
        (options.allow_other || options.allow_root, "allow_other"),
        (options.auto_unmount, "auto_unmount"),
    ] {
        if set {
            text.push(',');
            text.push_str(name);
        }
    }
    text
}

/// The device that the helper sends; `None` if it ended without.
fn receive(socket: &UnixStream) -> std::io::Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // Words, because the header in it must be aligned.
    let mut control = [0u64; 8];
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&control);
    loop {
        // SAFETY: `message` points to a buffer of one byte and to a control buffer of the length it says.
        match unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) } {
            0 => return Ok(None),
            n if n > 0 => break,
            _ => match std::io::Error::last_os_error() {
                e if e.kind() == std::io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    // SAFETY: the kernel has filled the control buffer in, and the macros stay within its length.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_level != libc::SOL_SOCKET || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Ok(None);
        }
        let fd: RawFd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        Ok((fd >= 0).then(|| OwnedFd::from_raw_fd(fd)))
    }
}

/// Why the helper would not mount, in its own words.
fn refused(path: &Path, mut child: Child) -> Error {
    let mut text = String::new();
    if let Some(stderr) = child.stderr.take() {
        // What can be read is better than nothing.
        let _ = stderr.take(4096).read_to_string(&mut text);
    }
    let _ = child.wait();
    let hint = match text.contains("/dev/fuse") {
        true => "users must be allowed to open /dev/fuse, whose usual mode is 0666",
        false => {
            "the mount point must be yours; --allow-other, --allow-root and --auto-unmount need user_allow_other in \
             /etc/fuse.conf"
        }
    };
    Error::new(ErrorKind::Denied, format!("mounting {}: {}", path.display(), text.trim())).with_hint(hint)
}

/// Waits for the helper's end in the background, so that it does not stay as a zombie.
fn reap(mut child: Child) {
    let waited = std::thread::Builder::new().name("hudifs-reap".into()).spawn(move || child.wait());
    if let Err(error) = waited {
        tracing::debug!(%error, "cannot wait for fusermount3");
    }
}
