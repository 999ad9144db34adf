//! How a call fails: one table from [`ErrorKind`] to errno, and the question whether a call may wait.

use crate::error::{Error, ErrorKind};

/// Whether a call may wait for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Answer [`Fault::WouldBlock`] where the answer is not at hand.
    No,
    /// Ask the store and wait for it.
    Yes,
}

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer is not at hand; ask again with [`Wait::Yes`] where waiting does no harm.
    WouldBlock,
    /// The errno to answer.
    Errno(i32),
}

impl Fault {
    /// No such name.
    pub const NOT_FOUND: Fault = Fault::Errno(libc::ENOENT);
    /// The thing behind an inode number, a handle or a directory offset is gone.
    pub const STALE: Fault = Fault::Errno(libc::ESTALE);
    /// The tree is read-only.
    pub const READ_ONLY: Fault = Fault::Errno(libc::EROFS);
    /// Not a directory.
    pub const NOT_A_DIRECTORY: Fault = Fault::Errno(libc::ENOTDIR);
    /// A directory.
    pub const IS_A_DIRECTORY: Fault = Fault::Errno(libc::EISDIR);
    /// Something below failed.
    pub const IO: Fault = Fault::Errno(libc::EIO);
    /// No such attribute.
    pub const NO_DATA: Fault = Fault::Errno(libc::ENODATA);
}

/// The errno for a failure of what is below. Callers that know more (a listed file that is gone) decide for themselves.
pub fn errno(error: &Error) -> i32 {
    match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::Conflict => libc::EBUSY,
        ErrorKind::Stale => libc::ESTALE,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::Invalid => libc::EINVAL,
        ErrorKind::Denied => libc::EACCES,
        ErrorKind::ReadOnly => libc::EROFS,
        ErrorKind::Corrupt | ErrorKind::Unavailable | ErrorKind::Internal => libc::EIO,
    }
}
