//! [`TablePath`]: a path that cannot leave the table.

use crate::error::{Error, Result};
use std::fmt;

/// Longest path accepted, bytes (PATH_MAX).
pub const PATH_LEN_MAX: usize = 4096;
/// Longest component accepted, bytes (NAME_MAX).
pub const NAME_LEN_MAX: usize = 255;

/// A validated path relative to a table's base. Invariants:
///
/// - components are separated by one `/`; there is no leading or trailing `/`; the empty path is the base itself;
/// - no component is empty, `.` or `..`, holds NUL, or is longer than [`NAME_LEN_MAX`] bytes;
/// - the whole is at most [`PATH_LEN_MAX`] bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TablePath(String);

impl TablePath {
    /// The base itself.
    pub fn root() -> Self {
        TablePath(String::new())
    }

    /// Checks the invariants.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::root());
        }
        if text.len() > PATH_LEN_MAX {
            return Err(Error::invalid(format!("path of {} bytes is longer than {PATH_LEN_MAX}", text.len())));
        }
        for component in text.split('/') {
            check_component(component).map_err(|e| e.context(format!("path {text:?}")))?;
        }
        Ok(TablePath(text.to_owned()))
    }

    /// This path with one more component, or several separated by `/`.
    pub fn join(&self, tail: &str) -> Result<Self> {
        match (self.0.is_empty(), tail.is_empty()) {
            (_, true) => Ok(self.clone()),
            (true, false) => Self::parse(tail),
            (false, false) => Self::parse(&format!("{}/{tail}", self.0)),
        }
    }

    /// The path as text, without leading or trailing `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for the base itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last component; empty for the base.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path without its last component; the base for a single component and for the base.
    pub fn parent(&self) -> TablePath {
        TablePath(self.0.rsplit_once('/').map(|(head, _)| head.to_owned()).unwrap_or_default())
    }
}

/// Checks that `name` can stand as one component of a path.
pub fn check_component(name: &str) -> Result<()> {
    let reason = match name {
        "" => "an empty component",
        "." | ".." => "a component that names a directory relatively",
        n if n.contains('\0') => "a NUL byte",
        n if n.contains('/') => "a slash",
        n if n.len() > NAME_LEN_MAX => "a component longer than 255 bytes",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("{name:?} has {reason}")))
}

impl fmt::Display for TablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
