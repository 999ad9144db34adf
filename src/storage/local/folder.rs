//! One open directory and what is done to single names in it.
//!
//! The directory was opened beneath the table's root; a name is one component, and no call here follows a link in its place. So
//! nothing outside the table is ever changed, whatever links lie in it.

use crate::error::{Error, ErrorKind, Result};
use crate::storage::path::check_component;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

const NEW_FILE: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
/// What the process's umask leaves of these.
const FILE_MODE: libc::mode_t = 0o666;
const DIR_MODE: libc::mode_t = 0o777;

/// An open directory.
#[derive(Debug)]
pub(super) struct Folder {
    dir: File,
    path: PathBuf,
}

impl Folder {
    pub(super) fn new(dir: File, path: PathBuf) -> Folder {
        Folder { dir, path }
    }

    /// Where it is; for messages, and for what is made durable later.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &File {
        &self.dir
    }

    /// A new empty file, open for writing; fails if there is anything of that name.
    pub(super) fn create_new(&self, name: &str) -> Result<File> {
        let c_name = component(name)?;
        // SAFETY: the descriptor is open, and the name ends with a NUL and outlives the call.
        let fd = unsafe { libc::openat(self.dir.as_raw_fd(), c_name.as_ptr(), NEW_FILE, FILE_MODE) };
        if fd < 0 {
            return Err(self.failed(name));
        }
        // SAFETY: the kernel has just given us this descriptor, which nobody else has.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// Renames `from` to `to`; fails with `AlreadyExists` if there is anything of that name.
    pub(super) fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let (c_from, c_to) = (component(from)?, component(to)?);
        let dir = self.dir.as_raw_fd();
        // SAFETY: descriptor and names as above.
        let rc = unsafe {
            libc::syscall(libc::SYS_renameat2, dir, c_from.as_ptr(), dir, c_to.as_ptr(), libc::RENAME_NOREPLACE)
        };
        if rc == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            // Filesystems without it have hard links, which never replace either.
            Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => {
                // SAFETY: descriptor and names as above.
                if unsafe { libc::linkat(dir, c_from.as_ptr(), dir, c_to.as_ptr(), 0) } != 0 {
                    return Err(self.failed(to));
                }
                self.unlink(from)
            }
            // The faster of two writers has removed the other's file.
            Some(libc::ENOENT) if self.has(&c_to) => {
                Err(Error::new(ErrorKind::AlreadyExists, format!("{}: exists already", self.path.join(to).display())))
            }
            _ => Err(self.failed(to)),
        }
    }

    fn has(&self, name: &CString) -> bool {
        // SAFETY: `stat` is plain integers, for which all zeroes is a value; descriptor and name as above.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstatat(self.dir.as_raw_fd(), name.as_ptr(), &raw mut stat, libc::AT_SYMLINK_NOFOLLOW) == 0
        }
    }

    /// Renames `from` to `to`, which is replaced.
    pub(super) fn rename_over(&self, from: &str, to: &str) -> Result<()> {
        let (c_from, c_to) = (component(from)?, component(to)?);
        let dir = self.dir.as_raw_fd();
        // SAFETY: descriptor and names as above.
        match unsafe { libc::renameat(dir, c_from.as_ptr(), dir, c_to.as_ptr()) } {
            0 => Ok(()),
            _ => Err(self.failed(to)),
        }
    }

    /// Makes a directory; false if there is one.
    pub(super) fn make_dir(&self, name: &str) -> Result<bool> {
        let c_name = component(name)?;
        // SAFETY: descriptor and name as above.
        if unsafe { libc::mkdirat(self.dir.as_raw_fd(), c_name.as_ptr(), DIR_MODE) } == 0 {
            return Ok(true);
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EEXIST) => Ok(false),
            _ => Err(self.failed(name)),
        }
    }

    /// Removes a file or a link; one that is not there is gone already.
    pub(super) fn unlink(&self, name: &str) -> Result<()> {
        self.remove(name, 0)
    }

    /// Removes an empty directory.
    pub(super) fn remove_dir(&self, name: &str) -> Result<()> {
        self.remove(name, libc::AT_REMOVEDIR)
    }

    /// The one place where something is deleted on a local disk.
    fn remove(&self, name: &str, flags: i32) -> Result<()> {
        let c_name = component(name)?;
        // SAFETY: descriptor and name as above.
        if unsafe { libc::unlinkat(self.dir.as_raw_fd(), c_name.as_ptr(), flags) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOENT) => Ok(()),
            _ => Err(self.failed(name)),
        }
    }

    /// A directory in it, not followed if it is a link.
    pub(super) fn open_dir(&self, name: &str) -> Result<Folder> {
        let c_name = component(name)?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: descriptor and name as above.
        let fd = unsafe { libc::openat(self.dir.as_raw_fd(), c_name.as_ptr(), flags) };
        if fd < 0 {
            return Err(self.failed(name));
        }
        // SAFETY: the kernel has just given us this descriptor, which nobody else has.
        Ok(Folder { dir: unsafe { File::from_raw_fd(fd) }, path: self.path.join(name) })
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.dir.sync_all().map_err(|e| Error::io(self.path.display(), e))
    }

    /// The failure of the last system call on `name`.
    fn failed(&self, name: &str) -> Error {
        let e = io::Error::last_os_error();
        let full = e.raw_os_error() == Some(libc::ENOSPC) || e.raw_os_error() == Some(libc::EDQUOT);
        let error = Error::io(self.path.join(name).display(), e);
        if full { error.with_hint("the disk is full: make room, then write again") } else { error }
    }
}

fn component(name: &str) -> Result<CString> {
    check_component(name)?;
    CString::new(name).map_err(|_| Error::invalid(format!("{name:?} holds a NUL byte")))
}
