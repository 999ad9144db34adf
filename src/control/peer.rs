//! Who may use the socket, and the socket's own file.
//!
//! The file is mode 0600 and its peers' uids are checked as well, because a mode can be changed by accident and because
//! root's access should be in the log. Access to the socket means the right to do everything that it offers.

use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// The process at the other end of a connection, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its effective user.
    pub uid: u32,
    /// Its process, where the kernel tells.
    pub pid: Option<i32>,
}

impl Peer {
    /// True for the daemon's own user and for root.
    pub fn is_allowed(self) -> bool {
        // SAFETY: geteuid has no preconditions.
        self.uid == 0 || self.uid == unsafe { libc::geteuid() }
    }
}

/// Longest path that fits a socket address, bytes.
const SOCKET_PATH_MAX: usize = 107;

/// Makes the socket. A file left by a daemon that is gone is replaced; one that somebody listens on is a conflict; anything
/// that is not a socket is left alone.
pub fn bind(path: &Path) -> Result<UnixListener> {
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(Error::invalid(format!("socket path {} is longer than {SOCKET_PATH_MAX} bytes", path.display()))
            .with_hint("set XDG_RUNTIME_DIR to a shorter path"));
    }
    let io_error = |e: io::Error| Error::io(format!("control socket {}", path.display()), e);
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(io_error)?;
        check_owned(parent)?;
    }
    remove_stale(path)?;
    let listener = UnixListener::bind(path).map_err(io_error)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io_error)?;
    Ok(listener)
}

/// A directory that somebody else can write to, such as one made in /tmp under our name before us, is no place for a socket.
fn check_owned(dir: &Path) -> Result<()> {
    let found = std::fs::metadata(dir).map_err(|e| Error::io(dir.display(), e))?;
    // SAFETY: geteuid has no preconditions.
    let ours = found.uid() == unsafe { libc::geteuid() } || found.uid() == 0;
    if ours && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Denied,
        format!("others can write to {}, where the control socket would be", dir.display()),
    )
    .with_hint("remove the directory, or set XDG_RUNTIME_DIR to one of your own"))
}

fn remove_stale(path: &Path) -> Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(format!("control socket {}", path.display()), e)),
    };
    if !found.file_type().is_socket() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("{} is in the way of the control socket", path.display()),
        )
        .with_hint("remove it if nothing needs it"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(Error::new(ErrorKind::Conflict, format!("another daemon listens on {}", path.display()))
            .with_hint("unmount that one first, or look at it with `hudifs status`")),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|e| Error::io(format!("stale control socket {}", path.display()), e))
        }
        Err(e) => Err(Error::io(format!("control socket {}", path.display()), e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/s.sock");
        let first = bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::Conflict);
        drop(first);
        let _second = bind(&path).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(bind(&open.join("s.sock")).unwrap_err().kind(), ErrorKind::Denied);
        assert!(!open.join("s.sock").exists());
    }

    #[test]
    fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        let long = dir.path().join("x".repeat(120));
        assert_eq!(bind(&long).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
