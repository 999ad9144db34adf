//! What a store's refusal means for a caller.
//!
//! `object_store` keeps the HTTP status and the store's own words only in the text of its causes, so both are read from
//! there. Stores answer with an XML (S3, Azure, GCS) that has a `Code` and a `Message`: they are what a person needs.

use crate::error::{Error, ErrorKind};
use std::error::Error as StdError;
use std::fmt::Write;

/// Longest reason quoted, characters: answers come from outside.
const REASON_CHARS_MAX: usize = 400;

/// Turns a store's error about `what` into ours.
pub(super) fn store_error(what: &str, e: object_store::Error) -> Error {
    let (text, innermost) = chain(&e);
    let reason = reason(&text, &innermost);
    let kind = match &e {
        // The bytes are there and will not be given: no right helps, and no other try.
        _ if is_archived(&text) => ErrorKind::Unsupported,
        object_store::Error::NotFound { .. } => ErrorKind::NotFound,
        object_store::Error::AlreadyExists { .. } => ErrorKind::AlreadyExists,
        object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => ErrorKind::Stale,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => ErrorKind::Denied,
        object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => ErrorKind::Unsupported,
        object_store::Error::InvalidPath { .. } => ErrorKind::Unsupported,
        object_store::Error::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
        _ => kind_of(&text),
    };
    let error = Error::new(kind, format!("{what}: {reason}"));
    let error = match hint(kind, &text) {
        Some(hint) => error.with_hint(hint),
        None => error,
    };
    error.with_source(e)
}

/// True where the store keeps the object in an archive, from which it must be brought back first (S3, Azure).
fn is_archived(text: &str) -> bool {
    text.contains("InvalidObjectState") || text.contains("BlobArchived")
}

/// The text of an error with that of all its causes, and the innermost one's alone.
fn chain(e: &object_store::Error) -> (String, String) {
    let mut text = e.to_string();
    let mut innermost = text.clone();
    let mut cause = e.source();
    // Causes repeat the text of what they caused; a loop of causes ends here.
    for _ in 0..16 {
        let Some(e) = cause else { break };
        innermost = e.to_string();
        let _ = write!(text, "\n{innermost}");
        cause = e.source();
    }
    (text, innermost)
}

/// The kind of what `object_store` has no variant for.
fn kind_of(text: &str) -> ErrorKind {
    match status(text) {
        Some(404) => ErrorKind::NotFound,
        Some(401 | 403) => ErrorKind::Denied,
        Some(412) => ErrorKind::Stale,
        Some(416) => ErrorKind::Corrupt,
        Some(408 | 429) => ErrorKind::Unavailable,
        Some(400..=499) => ErrorKind::Invalid,
        Some(_) => ErrorKind::Unavailable,
        None if text.contains("Received redirect without LOCATION") => ErrorKind::Invalid,
        None if text.contains("but object was only") => ErrorKind::Corrupt,
        None if text.contains("AccessControlException") => ErrorKind::Denied,
        None if ["MissingAccessKey", "No valid SASL", "GSSAPI error"].iter().any(|t| text.contains(t)) => {
            ErrorKind::Denied
        }
        None => ErrorKind::Unavailable,
    }
}

/// The HTTP status in the text of a failed request.
fn status(text: &str) -> Option<u16> {
    let at = text.find("status code: ")? + "status code: ".len();
    text.get(at..at + 3)?.parse().ok()
}

/// The store's own words, else the innermost cause without the stack trace that a Java server sends along.
fn reason(text: &str, innermost: &str) -> String {
    let reason = match (element(text, "Code"), element(text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => innermost.lines().next().unwrap_or_default().trim().to_owned(),
    };
    reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

fn hint(kind: ErrorKind, text: &str) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotFound if text.contains("NoSuchBucket") || text.contains("ContainerNotFound") => {
            "the bucket does not exist at this endpoint; check its name, --endpoint-url and --region"
        }
        ErrorKind::Unsupported if is_archived(text) => {
            "the object is archived; restore it in the store, then read again"
        }
        ErrorKind::Denied if text.contains("hadoop") => {
            "HDFS permissions refuse this user; check HADOOP_USER_NAME or the Kerberos ticket"
        }
        ErrorKind::Denied => {
            "check the credentials in the environment and the store's permissions, or --no-sign-request"
        }
        ErrorKind::Invalid if text.contains("redirect") || text.contains("Malformed") => {
            "the bucket is in another region; set --region"
        }
        ErrorKind::Unavailable => "the store does not answer; check the endpoint and the network",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        store_error("s3://b/k", object_store::Error::Generic { store: "S3", source: text.to_owned().into() })
    }

    #[test]
    fn kinds_come_from_the_status_and_reasons_from_the_store() {
        let body = "Server returned non-2xx status code: 404 Not Found: <?xml?><Error><Code>NoSuchBucket</Code><Message>no such</Message></Error>";
        let e = generic(body);
        assert_eq!((e.kind(), e.message()), (ErrorKind::NotFound, "s3://b/k: NoSuchBucket: no such"));
        assert!(e.hint().unwrap().contains("bucket"));
        for (text, kind) in [
            ("status code: 403 Forbidden: x", ErrorKind::Denied),
            ("status code: 416 Range", ErrorKind::Corrupt),
            ("status code: 503 Slow Down", ErrorKind::Unavailable),
            ("status code: 400 Bad", ErrorKind::Invalid),
            ("Received redirect without LOCATION, x", ErrorKind::Invalid),
            ("RPC error: org.apache.hadoop.security.AccessControlException x", ErrorKind::Denied),
            ("status code: é", ErrorKind::Unavailable),
            ("status code: ", ErrorKind::Unavailable),
            ("connection refused", ErrorKind::Unavailable),
        ] {
            assert_eq!(generic(text).kind(), kind, "{text}");
        }
    }

    #[test]
    fn a_java_server_s_stack_trace_is_left_out() {
        let e = generic(
            "RPC error: org.apache.hadoop.security.AccessControlException Permission denied: user=nobody\n\tat a.b.C(D.java:1)\n",
        );
        assert_eq!(e.kind(), ErrorKind::Denied);
        assert!(e.message().ends_with("user=nobody") && e.hint().unwrap().contains("HADOOP_USER_NAME"), "{e}");
    }

    #[test]
    fn an_archived_object_says_so() {
        let source = "403 <Error><Code>InvalidObjectState</Code><Message>storage class</Message></Error>";
        let e = store_error("k", object_store::Error::PermissionDenied { path: "k".into(), source: source.into() });
        assert_eq!(e.kind(), ErrorKind::Unsupported, "not a matter of rights: EIO, not EACCES");
        assert!(e.to_string().contains("InvalidObjectState") && e.hint().unwrap().contains("restore"), "{e}");
    }

    #[test]
    fn answers_are_cut_short() {
        assert!(generic(&"x".repeat(1 << 20)).message().len() < 1000);
    }
}
