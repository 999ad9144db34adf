//! Where a table is: a URI, parsed once.
//!
//! `file:` URIs are percent-decoded (RFC 8089). Names in object stores and HDFS are taken as written, as Hadoop and the
//! stores' own tools do: `s3://b/a%20b` is the key `a%20b`.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The schemes that [`super::open`] knows, for messages.
pub const SCHEMES: &str = "file, s3, s3a, s3n, gs, abfs, abfss, az, hdfs";

/// Which protocol a store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Amazon S3 and stores that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage and Data Lake Storage.
    Azure,
    /// Hadoop's filesystem.
    Hdfs,
}

/// A parsed table URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory on a local (or locally mounted) filesystem.
    Local(PathBuf),
    /// A prefix in a store.
    Store {
        /// The protocol.
        kind: StoreKind,
        /// The scheme as written, lower case.
        scheme: String,
        /// Bucket, `container@account` or NameNode address; empty only for HDFS's configured default.
        authority: String,
        /// The base's path without leading and trailing `/`; empty for the root.
        path: String,
    },
}

impl Location {
    /// Parses a bare path or a URI.
    pub fn parse(uri: &str) -> Result<Self> {
        if uri.is_empty() {
            return Err(Error::invalid("the table's URI is empty").with_hint("give a directory or a URI"));
        }
        let Some((scheme, rest)) = split_scheme(uri) else {
            return Ok(Location::Local(absolute(Path::new(uri))?));
        };
        let scheme = scheme.to_ascii_lowercase();
        let kind = match scheme.as_str() {
            "file" => return parse_file(uri, rest),
            "s3" | "s3a" | "s3n" => StoreKind::S3,
            "gs" => StoreKind::Gcs,
            "abfs" | "abfss" | "az" => StoreKind::Azure,
            "hdfs" => StoreKind::Hdfs,
            "viewfs" => {
                return Err(Error::unsupported(format!("{uri}: viewfs mount tables are not read"))
                    .with_hint("give the hdfs:// URI that the mount table maps to"));
            }
            other => {
                return Err(Error::unsupported(format!("{uri}: unknown scheme {other:?}"))
                    .with_hint(format!("known schemes: {SCHEMES}")));
            }
        };
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(Error::invalid(format!("{uri}: expected {scheme}://"))
                .with_hint(format!("write {scheme}://BUCKET/PATH")));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() && kind != StoreKind::Hdfs {
            return Err(Error::invalid(format!("{uri}: no bucket")).with_hint(format!("write {scheme}://BUCKET/PATH")));
        }
        Ok(Location::Store {
            kind,
            scheme,
            authority: authority.to_owned(),
            path: super::TablePath::parse(path.trim_matches('/')).map_err(|e| e.context(uri))?.as_str().to_owned(),
        })
    }

    /// The canonical URI, without a trailing slash.
    pub fn uri(&self) -> String {
        match self {
            Location::Local(path) => file_uri(path),
            Location::Store { scheme, authority, path, .. } if path.is_empty() => format!("{scheme}://{authority}"),
            Location::Store { scheme, authority, path, .. } => format!("{scheme}://{authority}/{path}"),
        }
    }
}

/// Scheme and rest of `scheme:/…`; `None` for a bare path.
fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    (named && rest.starts_with('/')).then_some((scheme, rest))
}

fn parse_file(uri: &str, rest: &str) -> Result<Location> {
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(tail) => {
            let slash = tail.find('/').unwrap_or(tail.len());
            let (host, path) = tail.split_at(slash);
            if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
                return Err(Error::invalid(format!("{uri}: file URIs name no other host than this one"))
                    .with_hint("write file:///PATH with three slashes"));
            }
            path
        }
    };
    let bytes = percent_decode(path).ok_or_else(|| {
        Error::invalid(format!("{uri}: a % is not followed by two hex digits"))
            .with_hint("write %25 for a percent sign, or give the bare path")
    })?;
    if bytes.contains(&0) {
        return Err(Error::invalid(format!("{uri}: holds a NUL byte")));
    }
    Ok(Location::Local(absolute(Path::new(&OsString::from_vec(bytes)))?))
}

/// The path made absolute without touching the disk; `..` is kept for the kernel to resolve.
fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(Error::invalid(format!("{}: holds a NUL byte", path.display())));
    }
    let path = if path.as_os_str().is_empty() { Path::new("/") } else { path };
    let full = std::path::absolute(path).map_err(|e| Error::io(path.display(), e))?;
    Ok(full.components().collect())
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let hex = |b: Option<u8>| char::from(b?).to_digit(16);
        let (high, low) = (hex(bytes.next())?, hex(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(out)
}

/// The `file://` URI of an absolute path; decoding it gives the path back.
pub fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '%' | '?' | '#' | ' ' | '\0'..='\x1f' | '\x7f' => uri.push_str(&format!("%{:02X}", u32::from(c))),
                c => uri.push(c),
            }
        }
        for b in chunk.invalid() {
            uri.push_str(&format!("%{b:02X}"));
        }
    }
    if uri.ends_with('/') && uri.len() > "file:///".len() {
        uri.pop();
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn local(uri: &str) -> PathBuf {
        match Location::parse(uri).unwrap() {
            Location::Local(path) => path,
            other => panic!("{uri}: {other:?}"),
        }
    }

    #[test]
    fn file_uris_and_bare_paths() {
        for uri in
            ["/data/a b", "file:/data/a%20b", "file:///data/a%20b/", "FILE://localhost/data/a%20b", "/data//a b/"]
        {
            assert_eq!(local(uri), Path::new("/data/a b"), "{uri}");
        }
        assert_eq!(local("/data/a%20b"), Path::new("/data/a%20b"), "bare paths are not decoded");
        assert_eq!(local("rel/x"), std::env::current_dir().unwrap().join("rel/x"));
        assert_eq!(local("file:///"), Path::new("/"));
        assert_eq!(local("2026:x/y"), std::env::current_dir().unwrap().join("2026:x/y"));
    }

    #[test]
    fn file_uris_round_trip() {
        for path in ["/", "/a", "/a b%/ü?#", "/nl\n"] {
            assert_eq!(local(&file_uri(Path::new(path))), Path::new(path));
        }
        let odd = PathBuf::from(OsString::from_vec(vec![b'/', 0xff, b'x']));
        assert_eq!(local(&file_uri(&odd)), odd);
    }

    #[test]
    fn store_uris() {
        let got = Location::parse("S3A://bucket/a%20b/t=1/").unwrap();
        assert_eq!(got.uri(), "s3a://bucket/a%20b/t=1");
        assert!(matches!(got, Location::Store { kind: StoreKind::S3, .. }));
        assert_eq!(Location::parse("hdfs:///t").unwrap().uri(), "hdfs:///t");
        assert_eq!(Location::parse("hdfs://nn:9820").unwrap().uri(), "hdfs://nn:9820");
        assert_eq!(
            Location::parse("abfss://c@acc.dfs.core.windows.net/t").unwrap().uri(),
            "abfss://c@acc.dfs.core.windows.net/t"
        );
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (uri, kind, hint) in [
            ("viewfs://c/t", ErrorKind::Unsupported, "hdfs://"),
            ("ftp://h/t", ErrorKind::Unsupported, "s3a"),
            ("s3:/bucket/t", ErrorKind::Invalid, "s3://"),
            ("s3:///t", ErrorKind::Invalid, "BUCKET"),
            ("file://host/t", ErrorKind::Invalid, "three"),
            ("file:///a%2", ErrorKind::Invalid, "%25"),
            ("", ErrorKind::Invalid, "directory"),
        ] {
            let e = Location::parse(uri).unwrap_err();
            assert_eq!(e.kind(), kind, "{uri}");
            assert!(e.hint().unwrap().contains(hint), "{uri}: {e}");
        }
        for uri in ["s3://b/a/../c", "s3://b/a//c", "s3://b/./c"] {
            assert_eq!(Location::parse(uri).unwrap_err().kind(), ErrorKind::Invalid, "{uri}");
        }
    }
}
