//! RFC 9457 problem documents: what every refused request carries.
//!
//! `code` is stable; people read `detail` and `hint`. The status follows from the code, here and nowhere else.

use crate::error::{Error, ErrorKind, Place};
use serde::{Deserialize, Serialize};

/// The media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A problem document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:hudifs:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong, naming the thing.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The table concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The partition concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The file concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The instant concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instant: Option<String>,
    /// The row of the request concerned, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The column, field or setting concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// Every code that a problem document can carry, with its status and title.
pub const CODES: [(&str, u16, &str); 20] = [
    ("not_found", 404, "The named thing does not exist"),
    ("already_exists", 409, "The named thing exists already"),
    ("conflict", 409, "Another writer holds or changed what this needs"),
    ("stale", 410, "The bytes of that version are gone"),
    ("corrupt", 500, "Stored bytes do not follow the format"),
    ("unsupported", 501, "The table uses a feature that this build refuses"),
    ("invalid", 400, "The request is wrong"),
    ("denied", 403, "Access is denied"),
    ("read_only", 403, "Nothing is written here"),
    ("unavailable", 503, "The store did not answer"),
    ("internal", 500, "hudifs made a mistake"),
    ("unknown_route", 404, "There is no such path"),
    ("method_not_allowed", 405, "The path does not take this method"),
    ("body_too_large", 413, "The body is too large"),
    ("unsupported_media_type", 415, "The body has a type that this path does not take"),
    ("timeout", 408, "The request took too long to arrive"),
    ("peer_refused", 403, "This user may not use the socket"),
    ("too_many_connections", 503, "Too many connections"),
    ("too_many_writes", 503, "Too many writes are waiting"),
    ("body_incomplete", 400, "The body ended before it was complete"),
];

impl Problem {
    /// A problem with one of [`CODES`].
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        let (code, status, title) =
            CODES.iter().copied().find(|c| c.0 == code).unwrap_or(("internal", 500, "hudifs made a mistake"));
        Problem {
            kind: format!("urn:hudifs:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_owned(),
            ..Problem::default()
        }
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The problem as an error of this process: what the client makes of an answer.
    pub fn into_error(self) -> Error {
        let Problem { partition, file, instant, row, column, .. } = self;
        let error = Error::new(kind_of(&self.code), self.detail).at(Place { partition, file, instant, row, column });
        match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// The kind that a code stands for.
fn kind_of(code: &str) -> ErrorKind {
    match code {
        "not_found" | "unknown_route" => ErrorKind::NotFound,
        "already_exists" => ErrorKind::AlreadyExists,
        "conflict" => ErrorKind::Conflict,
        "stale" => ErrorKind::Stale,
        "corrupt" => ErrorKind::Corrupt,
        "unsupported" => ErrorKind::Unsupported,
        "invalid" | "method_not_allowed" | "body_too_large" | "unsupported_media_type" | "body_incomplete" => {
            ErrorKind::Invalid
        }
        "denied" | "peer_refused" => ErrorKind::Denied,
        "read_only" => ErrorKind::ReadOnly,
        "unavailable" | "timeout" | "too_many_connections" | "too_many_writes" => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let Place { partition, file, instant, row, column } = error.place().clone();
        let problem = Problem::new(error.kind().code(), error.message());
        let hint = error.hint().map(str::to_owned);
        Problem { hint, partition, file, instant, row, column, ..problem }
    }
}

/// An error with the things it concerns: what a [`Handler`](super::Handler) fails with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub Box<Problem>);

impl Failure {
    /// Names the table.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.0.table = Some(table.into());
        self
    }

    /// Names the partition.
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.0.partition = Some(partition.into());
        self
    }

    /// Names the file.
    pub fn file(mut self, file: impl Into<String>) -> Self {
        self.0.file = Some(file.into());
        self
    }

    /// Names the instant.
    pub fn instant(mut self, instant: impl Into<String>) -> Self {
        self.0.instant = Some(instant.into());
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure(Box::new(Problem::from(&error)))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure(Box::new(problem))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.0.into_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ErrorKind; 11] = [
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::Conflict,
        ErrorKind::Stale,
        ErrorKind::Corrupt,
        ErrorKind::Unsupported,
        ErrorKind::Invalid,
        ErrorKind::Denied,
        ErrorKind::ReadOnly,
        ErrorKind::Unavailable,
        ErrorKind::Internal,
    ];

    #[test]
    fn every_kind_survives_the_wire() {
        for kind in KINDS {
            let error =
                Error::new(kind, "the thing").with_hint("do this").in_column("fare").at_row(3).in_partition("p=1");
            let problem = Problem::from(&error);
            assert_eq!(problem.code, kind.code());
            let json = serde_json::to_string(&problem).unwrap();
            let back: Problem = serde_json::from_str(&json).unwrap();
            let error = back.into_error();
            assert_eq!((error.kind(), error.message(), error.hint()), (kind, "the thing", Some("do this")));
            let place = error.place();
            assert_eq!(
                (place.column.as_deref(), place.row, place.partition.as_deref()),
                (Some("fare"), Some(3), Some("p=1"))
            );
        }
    }

    #[test]
    fn codes_are_unique_and_refusals() {
        for (at, (code, status, _)) in CODES.iter().enumerate() {
            assert!((400..600).contains(status), "{code}");
            assert!(CODES[..at].iter().all(|c| c.0 != *code), "{code} twice");
        }
    }
}
