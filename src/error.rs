//! What went wrong, and what a caller can do about it.
//!
//! One error type for the whole crate: a [`ErrorKind`] that decisions hang on, a message that names the thing,
//! an optional hint that names the remedy, and the cause.
//! Three decisions hang on the kind, each in one place: the errno (`fs::errno`), whether to retry
//! (`storage::retry`) and the process exit code (`cli::exit`).
//!
//! Messages are lower case, name the offending path, instant or offset, and end without a full stop.

use std::error::Error as StdError;
use std::fmt;

/// What a caller can do about a failure. A kind exists only if some caller acts differently on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The named thing does not exist.
    NotFound,
    /// A create-if-absent found something there.
    AlreadyExists,
    /// Another writer holds or changed what this operation needs.
    Conflict,
    /// The thing was there and is gone or has been replaced: bytes of one version can no longer be served.
    Stale,
    /// Bytes at rest do not follow the format.
    Corrupt,
    /// Valid, but a feature that this build refuses by name.
    Unsupported,
    /// The caller's input is wrong.
    Invalid,
    /// The store or the operating system refused access.
    Denied,
    /// The operation would change something read-only.
    ReadOnly,
    /// The store did not answer; trying again may help.
    Unavailable,
    /// Our own mistake.
    Internal,
}

impl ErrorKind {
    /// The stable lower-case code used in JSON output and problem documents.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::AlreadyExists => "already_exists",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Stale => "stale",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Denied => "denied",
            ErrorKind::ReadOnly => "read_only",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Internal => "internal",
        }
    }
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure: kind, message, optional hint and cause.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    place: Place,
    source: Option<Box<dyn StdError + Send + Sync + 'static>>,
}

/// What a failure concerns, as far as it is known: for programs, which cannot read it out of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The partition's path.
    pub partition: Option<String>,
    /// The file's name or path.
    pub file: Option<String>,
    /// The instant.
    pub instant: Option<String>,
    /// The row of a request, counted from 1.
    pub row: Option<u64>,
    /// The column or setting, nested ones with dots.
    pub column: Option<String>,
}

impl Error {
    /// A failure of `kind`; the message names the thing.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), hint: None, place: Place::default(), source: None }))
    }

    /// Bytes at rest that do not follow the format.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A valid feature that this build refuses.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Wrong input by the caller.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The named thing does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Our own mistake.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds what a person can do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync + 'static>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Puts `context: ` before the message: the thing that was being worked on.
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Names the partition. The first one named stays, as with all of these: it is nearest to the cause.
    pub fn in_partition(mut self, partition: impl Into<String>) -> Self {
        self.0.place.partition.get_or_insert_with(|| partition.into());
        self
    }

    /// Names the file.
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.0.place.file.get_or_insert_with(|| file.into());
        self
    }

    /// Names the instant.
    pub fn at_instant(mut self, instant: impl fmt::Display) -> Self {
        self.0.place.instant.get_or_insert_with(|| instant.to_string());
        self
    }

    /// Names the row of a request, counted from 1.
    pub fn at_row(mut self, row: u64) -> Self {
        self.0.place.row.get_or_insert(row);
        self
    }

    /// Names the column.
    pub fn in_column(mut self, column: impl Into<String>) -> Self {
        self.0.place.column.get_or_insert_with(|| column.into());
        self
    }

    /// Puts the failure at a place that was recorded elsewhere.
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = place;
        self
    }

    /// What it concerns, as far as it is known.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without hint and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// An [`std::io::Error`] about `what` (a path or an action), with the kind taken from the errno.
    pub fn io(what: impl fmt::Display, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match source.kind() {
            Io::NotFound | Io::NotADirectory => ErrorKind::NotFound,
            Io::AlreadyExists => ErrorKind::AlreadyExists,
            Io::PermissionDenied => ErrorKind::Denied,
            Io::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            Io::InvalidInput => ErrorKind::Invalid,
            Io::StaleNetworkFileHandle => ErrorKind::Stale,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, format!("{what}: {source}")).with_source(source)
    }

    /// A copy that can be stored and returned again: the cause is kept as text only.
    pub fn duplicate(&self) -> Self {
        Error(Box::new(Inner {
            kind: self.0.kind,
            message: self.0.message.clone(),
            hint: self.0.hint.clone(),
            place: self.0.place.clone(),
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(hint) = &self.0.hint {
            write!(f, " (hint: {hint})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("hint", &self.0.hint)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}
