//! What a request says beside its body: how long it would wait (`Prefer`, RFC 7240), its `Idempotency-Key`, and the query of a
//! write.

use crate::control::problem::{Failure, Problem};
use crate::control::writes::{CallOptions, check_setting};
use axum::http::HeaderMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest idempotency key, bytes.
const KEY_MAX: usize = 255;
/// Longest wait that a client may ask for.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How long the client waits for an answer before it is content with a job: for ever, unless it prefers otherwise.
pub fn patience(headers: &HeaderMap) -> Option<Duration> {
    preferences(headers).0.then(|| wait(headers).unwrap_or_default())
}

/// The wait that a client asks for.
pub fn wait(headers: &HeaderMap) -> Option<Duration> {
    preferences(headers).1
}

fn preferences(headers: &HeaderMap) -> (bool, Option<Duration>) {
    let (mut respond_async, mut wait) = (false, None);
    for value in headers.get_all("prefer") {
        // A preference that is not understood is passed over, as the RFC has it.
        for preference in value.to_str().unwrap_or_default().split(',') {
            let token = preference.split(';').next().unwrap_or_default().trim();
            match token.split_once('=').map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))) {
                None => respond_async |= token.eq_ignore_ascii_case("respond-async"),
                Some((name, seconds)) if name.eq_ignore_ascii_case("wait") => {
                    wait = seconds.parse().ok().map(Duration::from_secs).map(|w| w.min(WAIT_MAX));
                }
                Some(_) => {}
            }
        }
    }
    (respond_async, wait)
}

/// The `Idempotency-Key`, checked: it becomes part of a commit.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    if text.is_empty() || text.len() > KEY_MAX || values.next().is_some() {
        let message = format!("an Idempotency-Key is one header of 1 to {KEY_MAX} visible ASCII characters");
        return Err(Problem::new("invalid", message).hint("a UUID for each new write will do").into());
    }
    Ok(Some(text.to_owned()))
}

/// The query of a write.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WriteQuery {
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Partitions that are named.
    pub partitions: Vec<String>,
    /// How.
    pub options: CallOptions,
}

/// Parameters that a route takes.
pub const WRITE: &[&str] = &["dry_run", "index", "set", "services", "drop_unsupported_index"];
/// The same and the partitions to delete.
pub const DELETE_PARTITION: &[&str] = &["dry_run", "partition", "index", "set", "services", "drop_unsupported_index"];
/// Parameters of table services.
pub const SERVICE: &[&str] = &["set", "drop_unsupported_index"];
/// The same and the partitions of the metadata table.
pub const REBUILD: &[&str] = &["partition", "set", "drop_unsupported_index"];
/// Parameters of a transaction's commit.
pub const COMMIT: &[&str] = &["dry_run"];

/// Reads a query. What is not among `known` is refused by name, because a misspelt `dry_run` must not write.
pub fn query(pairs: Vec<(String, String)>, known: &[&str]) -> Result<WriteQuery, Failure> {
    let mut query = WriteQuery::default();
    for (name, value) in pairs {
        if !known.contains(&name.as_str()) {
            let problem = Problem::new("invalid", format!("there is no query parameter {name:?} here"));
            return Err(Problem { column: Some(name), ..problem }
                .hint(format!("it takes {}", known.join(", ")))
                .into());
        }
        let checked = match name.as_str() {
            "dry_run" => flag(&value).map(|v| query.dry_run = v),
            "services" => flag(&value).map(|v| query.options.no_services = !v),
            "drop_unsupported_index" => flag(&value).map(|v| query.options.drop_unsupported_index = v),
            "partition" => {
                query.partitions.push(value);
                Ok(())
            }
            "index" => index(&value, &mut query.options),
            _ => setting(&value, &mut query.options.settings),
        };
        checked.map_err(|Failure(problem)| Problem { column: problem.column.or(Some(name)), ..*problem })?;
    }
    Ok(query)
}

/// The kind of index.
pub fn index(text: &str, options: &mut CallOptions) -> Result<(), Failure> {
    let kind = text.parse().map_err(|e: crate::error::Error| {
        let hint = e.hint().unwrap_or_default().to_owned();
        Problem::new("invalid", format!("{text:?} is no kind of index")).hint(hint)
    })?;
    options.index = Some(kind);
    Ok(())
}

/// `hoodie.some.setting=value`.
pub fn setting(text: &str, settings: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        Problem::new("invalid", format!("{text:?} is no setting")).hint("write set=hoodie.some.setting=value")
    })?;
    check_setting(key)?;
    settings.insert(key.to_owned(), value.to_owned());
    Ok(())
}

fn flag(text: &str) -> Result<bool, Failure> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Problem::new("invalid", format!("{text:?} is neither true nor false")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        values.iter().map(|v| (name.parse().unwrap(), HeaderValue::from_str(v).unwrap())).collect()
    }

    #[test]
    fn preferences_are_read_as_the_rfc_writes_them() {
        let seconds = |values: &[&str]| patience(&headers("prefer", values)).map(|p| p.as_secs());
        assert_eq!(seconds(&[]), None);
        assert_eq!(seconds(&["wait=5"]), None, "waiting alone asks for no job");
        assert_eq!(seconds(&["respond-async"]), Some(0));
        assert_eq!(seconds(&["return=minimal, Respond-Async; x=1, wait = \"7\""]), Some(7));
        assert_eq!(seconds(&["wait=1", "respond-async"]), Some(1));
        assert_eq!(seconds(&["respond-async, wait=99999999999"]), Some(3600));
        assert_eq!(seconds(&["respond-async, wait=-1"]), Some(0));
    }

    #[test]
    fn keys_are_bounded() {
        let key = |values: &[&str]| idempotency_key(&headers("idempotency-key", values));
        assert_eq!(key(&[]).unwrap(), None);
        assert_eq!(key(&["a-1"]).unwrap().as_deref(), Some("a-1"));
        assert!(key(&[""]).is_err());
        assert!(key(&["a", "b"]).is_err());
        assert!(key(&[&"x".repeat(256)]).is_err());
        assert!(key(&["ü"]).is_err());
    }

    #[test]
    fn a_query_is_taken_whole_or_refused_by_name() {
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let all = vec![
            pair("dry_run", "true"),
            pair("partition", "a=1"),
            pair("partition", ""),
            pair("index", "simple"),
            pair("set", "hoodie.a=b=c"),
            pair("services", "false"),
        ];
        let read = query(all, DELETE_PARTITION).unwrap();
        assert!(read.dry_run && read.options.no_services && !read.options.drop_unsupported_index);
        assert_eq!(read.partitions, ["a=1", ""]);
        assert_eq!(read.options.index, Some(crate::write::IndexKind::Simple));
        assert_eq!(read.options.settings["hoodie.a"], "b=c");
        for (name, value, column) in [
            ("dryrun", "true", "dryrun"),
            ("dry_run", "yes", "dry_run"),
            ("partition", "p", "partition"),
            ("index", "btree", "index"),
            ("set", "hoodie.x", "set"),
            ("set", "spark.x=1", "spark.x"),
        ] {
            let problem = query(vec![pair(name, value)], WRITE).unwrap_err().0;
            assert_eq!((problem.code.as_str(), problem.column.as_deref()), ("invalid", Some(column)), "{name}={value}");
        }
    }
}
