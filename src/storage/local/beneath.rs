//! Opening names so that nothing outside one directory is ever reached.
//!
//! The kernel does the work: `openat2` with `RESOLVE_BENEATH` refuses any step that leaves the directory, at every link and
//! without a race. An absolute link that points back inside is followed by resolving it to the path it means and opening
//! that path with the same guard. Where `openat2` is missing, each component is opened with `O_NOFOLLOW`: links are then
//! refused altogether.
//!
//! A directory that was deleted and made anew at the same path is another one: it takes the place of the first as soon as a name is
//! not found any more. One that was itself opened below another is opened below it again.

use crate::error::{Error, ErrorKind, Result};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// `RESOLVE_BENEATH` answers `EAGAIN` while directories above the name are being renamed; a storm of renames ends here.
const RACES_MAX: u32 = 128;
const ROOT_FLAGS: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// A directory below which names are opened.
#[derive(Debug)]
pub(super) struct Beneath {
    root: RwLock<Arc<File>>,
    root_path: PathBuf,
    guarded: bool,
    /// The directory that this one was opened below, and its path there.
    above: Option<(Arc<Beneath>, String)>,
}

impl Beneath {
    /// Opens the directory itself; links in `path` are followed.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|_| nul(path))?;
        // SAFETY: the path is a NUL-terminated string that outlives the call.
        let root = owned(unsafe { libc::open(c_path.as_ptr(), ROOT_FLAGS) }).map_err(|e| missing_table(path, e))?;
        let guarded = openat2(root.as_raw_fd(), c".", ROOT_FLAGS, libc::RESOLVE_BENEATH).is_ok();
        Ok(Beneath { root: RwLock::new(Arc::new(root)), root_path: path.to_owned(), guarded, above: None })
    }

    /// The same guard around a directory below.
    pub(super) fn below(self: &Arc<Self>, relative: &str) -> Result<Self> {
        let root = RwLock::new(Arc::new(self.open(relative, libc::O_PATH | libc::O_DIRECTORY)?));
        let root_path = self.root_path.join(relative);
        Ok(Beneath { root, root_path, guarded: self.guarded, above: Some((self.clone(), relative.to_owned())) })
    }

    fn root(&self) -> Arc<File> {
        self.root.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The directory that now is where `old` was, if it is another one.
    fn made_anew(&self, old: &File) -> Option<Arc<File>> {
        let new = match &self.above {
            None => File::options().read(true).custom_flags(ROOT_FLAGS).open(&self.root_path).ok()?,
            // As guarded as the first time.
            Some((above, relative)) => above.open(relative, libc::O_PATH | libc::O_DIRECTORY).ok()?,
        };
        let (before, now) = (old.metadata().ok()?, new.metadata().ok()?);
        if (before.dev(), before.ino()) == (now.dev(), now.ino()) {
            return None;
        }
        let new = Arc::new(new);
        tracing::info!(path = %self.root_path.display(), "the directory was made anew");
        *self.root.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        Some(new)
    }

    /// Where the directory is; only for messages and for what takes no descriptor.
    pub(super) fn root_path(&self) -> &Path {
        &self.root_path
    }

    /// Opens a relative path (`""` is the directory itself) with `flags`; `O_CLOEXEC` is added.
    pub(super) fn open(&self, relative: &str, flags: i32) -> Result<File> {
        let name = if relative.is_empty() { "." } else { relative };
        let c_name = CString::new(name).map_err(|_| nul(Path::new(name)))?;
        let flags = flags | libc::O_CLOEXEC;
        let at = |root: &File| match self.guarded {
            true => self.open_guarded(root, &c_name, flags),
            false => open_by_component(root, name, flags),
        };
        let root = self.root();
        let mut opened = at(&root);
        if opened.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
            && let Some(new) = self.made_anew(&root)
        {
            opened = at(&new);
        }
        opened.map_err(|e| self.explain(relative, e))
    }

    fn open_guarded(&self, root: &File, name: &CString, flags: i32) -> io::Result<File> {
        let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
        let mut result = openat2(root.as_raw_fd(), name, flags, resolve);
        for _ in 0..RACES_MAX {
            match &result {
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {
                    result = openat2(root.as_raw_fd(), name, flags, resolve)
                }
                _ => break,
            }
        }
        match result {
            Err(e) if e.raw_os_error() == Some(libc::EXDEV) => {
                self.open_absolute_link(root, name, flags).unwrap_or(Err(e))
            }
            other => other,
        }
    }

    /// The guard refuses every absolute link. One that means a place inside is opened by that place's own path; what it
    /// means may change in between, but the second open is guarded like the first and follows no link at all.
    fn open_absolute_link(&self, root: &File, name: &CString, flags: i32) -> Option<io::Result<File>> {
        let base = self.root_path.canonicalize().ok()?;
        let meant = base.join(Path::new(name.to_str().ok()?)).canonicalize().ok()?;
        let inside = meant.strip_prefix(&base).ok()?;
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        let inside = CString::new(inside.as_os_str().as_bytes()).ok()?;
        Some(openat2(root.as_raw_fd(), &inside, flags, libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS))
    }

    fn explain(&self, relative: &str, e: io::Error) -> Error {
        let what = self.root_path.join(relative);
        let what = what.display();
        match e.raw_os_error() {
            Some(libc::EXDEV) => Error::new(ErrorKind::Denied, format!("{what}: a link leads out of the table"))
                .with_hint("nothing outside the table's base path is served; move the file into the table"),
            Some(libc::ELOOP) if self.guarded => {
                Error::new(ErrorKind::Denied, format!("{what}: links in a circle, or through /proc"))
            }
            Some(libc::ELOOP) => Error::new(ErrorKind::Denied, format!("{what}: is a link"))
                .with_hint("this kernel has no openat2 (Linux 5.6), without which links cannot be followed safely"),
            Some(libc::ENXIO | libc::ENODEV) => {
                Error::corrupt(format!("{what}: is a socket or device, not a regular file"))
            }
            Some(libc::ENAMETOOLONG) => Error::invalid(format!("{what}: {e}")),
            Some(libc::EMFILE | libc::ENFILE) => {
                Error::io(what, e).with_hint("raise the limit of open files (ulimit -n, LimitNOFILE)")
            }
            _ => Error::io(what, e),
        }
    }
}

fn missing_table(path: &Path, e: io::Error) -> Error {
    Error::io(path.display(), e).with_hint("the table's base path must be a directory that can be read")
}

fn nul(path: &Path) -> Error {
    Error::invalid(format!("{}: holds a NUL byte", path.display()))
}

fn openat2(dir: RawFd, name: &std::ffi::CStr, flags: i32, resolve: u64) -> io::Result<File> {
    // SAFETY: `open_how` is plain integers, for which all zeroes is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from(flags.cast_unsigned());
    how.resolve = resolve;
    // SAFETY: name and `how` outlive the call, and the size passed is that of `how`.
    let fd =
        unsafe { libc::syscall(libc::SYS_openat2, dir, name.as_ptr(), &raw const how, size_of::<libc::open_how>()) };
    owned(i32::try_from(fd).unwrap_or(-1))
}

fn owned(fd: i32) -> io::Result<File> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn open_by_component(root: &File, name: &str, flags: i32) -> io::Result<File> {
    let mut dir = root.try_clone()?;
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        let c_part = CString::new(part)?;
        let last = parts.peek().is_none();
        let step = if last { flags } else { libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC };
        // SAFETY: the descriptor is open and the name is a NUL-terminated string that outlives the call.
        dir = owned(unsafe { libc::openat(dir.as_raw_fd(), c_part.as_ptr(), step | libc::O_NOFOLLOW) })?;
        // With O_PATH, a link is opened itself instead of being refused.
        if last && step & libc::O_PATH != 0 && dir.metadata()?.file_type().is_symlink() {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn without_openat2_plain_names_open_and_links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/f"), "x").unwrap();
        symlink("d", dir.path().join("l")).unwrap();
        symlink("f", dir.path().join("d/l")).unwrap();
        let mut beneath = Beneath::new(dir.path()).unwrap();
        beneath.guarded = false;
        assert!(beneath.open("d/f", libc::O_RDONLY).is_ok());
        assert!(beneath.open("", libc::O_RDONLY | libc::O_DIRECTORY).is_ok());
        for path in ["l/f", "d/l"] {
            for flags in [libc::O_RDONLY, libc::O_PATH] {
                let e = beneath.open(path, flags).unwrap_err();
                assert!(matches!(e.kind(), ErrorKind::Denied | ErrorKind::NotFound), "{path}: {e}");
            }
        }
        assert_eq!(beneath.open("d/no", libc::O_RDONLY).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_directory_made_anew_takes_the_place_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let make = |content: &str| {
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("f"), content).unwrap();
        };
        make("1");
        let beneath = Arc::new(Beneath::new(&path).unwrap());
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!(beneath.open("f", libc::O_RDONLY).unwrap_err().kind(), ErrorKind::NotFound);
        make("second");
        assert_eq!(beneath.open("f", libc::O_RDONLY).unwrap().metadata().unwrap().len(), 6);
        assert_eq!(beneath.open("g", libc::O_RDONLY).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::create_dir(path.join("d")).unwrap();
        let below = beneath.below("d").unwrap();
        std::fs::remove_dir(path.join("d")).unwrap();
        std::os::unix::fs::symlink("/", path.join("d")).unwrap();
        assert_eq!(below.open("etc", libc::O_PATH).unwrap_err().kind(), ErrorKind::NotFound, "not by its path");
    }
}
