//! Exit codes: the one place where a failure becomes a number.

use crate::error::{Error, ErrorKind};

/// All went well.
pub const OK: u8 = 0;
/// Something failed.
pub const FAILURE: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// There is no such table.
pub const NO_TABLE: u8 = 10;
/// The table is locked, or another writer is in the way.
pub const CONFLICT: u8 = 11;
/// The table is damaged.
pub const DAMAGED: u8 = 12;
/// As a mount(8) helper: the mount failed.
pub const MOUNT_FAILED: u8 = 32;

/// The code for a failure to find or open a table.
pub fn for_table(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::NotFound => NO_TABLE,
        _ => for_error(error),
    }
}

/// The code for any other failure.
pub fn for_error(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Invalid => USAGE,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Corrupt => DAMAGED,
        ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::Stale
        | ErrorKind::Unsupported
        | ErrorKind::Denied
        | ErrorKind::ReadOnly
        | ErrorKind::Unavailable
        | ErrorKind::Internal => FAILURE,
    }
}
