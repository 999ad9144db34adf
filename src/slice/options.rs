//! How base files are written, by Hudi's own settings.
//!
//! Where our default differs from Java's: pages are compressed with Snappy, not gzip, which takes five times as long to
//! encode; every reader of Hudi's tables has it, which cannot be said of Zstandard, and the newest releases of Hudi default to
//! it too. Row groups hold 100,000 rows rather than 120 MiB, because a small update rewrites whole row groups.

use crate::error::{Error, Result};
use crate::format::bloom::{BloomFilter, BloomKind, ENTRIES_DEFAULT, FPP_DEFAULT, MAX_ENTRIES_DEFAULT};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Rows of a row group, unless its bytes are the limit.
const ROW_GROUP_ROWS: usize = 100_000;

/// How base files are written.
#[derive(Clone, Debug)]
pub struct BaseOptions {
    /// Rows of one row group.
    pub row_group_rows: usize,
    /// Bytes at which a row group ends before it has its rows: `hoodie.parquet.block.size`.
    pub row_group_bytes: usize,
    /// Bytes of a page: `hoodie.parquet.page.size`.
    pub page_bytes: usize,
    /// How pages are compressed: `hoodie.parquet.compression.codec`.
    pub compression: Compression,
    /// Try dictionaries: `hoodie.parquet.dictionary.enabled`.
    pub dictionary: bool,
    /// The filter over record keys: `hoodie.parquet.bloom.filter.enabled` and the settings of its size.
    pub bloom: Option<BloomOptions>,
    /// Threads that merge one file.
    pub threads: usize,
    /// Work out column ranges for the metadata table.
    pub column_ranges: bool,
    /// Tell the keys that were added and removed ([`super::WrittenFile::keys_added`]): for indexes that keep them.
    pub tell_keys: bool,
}

/// The filter over record keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BloomOptions {
    /// `hoodie.bloom.index.filter.type`.
    pub kind: BloomKind,
    /// `hoodie.index.bloom.num_entries`.
    pub entries: u32,
    /// `hoodie.index.bloom.fpp`.
    pub fpp: f64,
    /// `hoodie.bloom.index.filter.dynamic.max.entries`.
    pub max_entries: u32,
}

impl Default for BaseOptions {
    fn default() -> Self {
        BaseOptions {
            row_group_rows: ROW_GROUP_ROWS,
            row_group_bytes: 120 << 20,
            page_bytes: 1 << 20,
            compression: Compression::SNAPPY,
            dictionary: true,
            bloom: Some(BloomOptions {
                kind: BloomKind::default(),
                entries: ENTRIES_DEFAULT,
                fpp: FPP_DEFAULT,
                max_entries: MAX_ENTRIES_DEFAULT,
            }),
            threads: 2,
            column_ranges: false,
            tell_keys: false,
        }
    }
}

impl BaseOptions {
    /// From Hudi's settings. `Invalid` names the setting.
    pub fn new(settings: &BTreeMap<String, String>) -> Result<BaseOptions> {
        let defaults = BaseOptions::default();
        let size = |key: &str, default: usize| -> Result<usize> {
            let value = parsed(settings, key, default)?;
            if value == 0 { Err(Error::invalid(format!("{key}=0"))) } else { Ok(value) }
        };
        let compression = match settings.get("hoodie.parquet.compression.codec") {
            None => defaults.compression,
            Some(name) => codec(name)?,
        };
        let options = BaseOptions {
            row_group_rows: size("hudifs.parquet.row.group.rows", defaults.row_group_rows)?,
            row_group_bytes: size("hoodie.parquet.block.size", defaults.row_group_bytes)?,
            page_bytes: size("hoodie.parquet.page.size", defaults.page_bytes)?,
            compression,
            dictionary: parsed(settings, "hoodie.parquet.dictionary.enabled", defaults.dictionary)?,
            bloom: bloom(settings)?,
            ..defaults
        };
        // Refused here rather than in the middle of a write.
        options.new_bloom()?;
        Ok(options)
    }

    /// An empty filter, where one is wanted.
    pub(super) fn new_bloom(&self) -> Result<Option<BloomFilter>> {
        self.bloom.map(|b| BloomFilter::new(b.kind, b.entries, b.fpp, b.max_entries)).transpose()
    }
}

fn bloom(settings: &BTreeMap<String, String>) -> Result<Option<BloomOptions>> {
    if !parsed(settings, "hoodie.parquet.bloom.filter.enabled", true)? {
        return Ok(None);
    }
    let kind = match settings.get("hoodie.bloom.index.filter.type") {
        None => BloomKind::default(),
        Some(code) => BloomKind::from_code(code)
            .ok_or_else(|| Error::invalid(format!("hoodie.bloom.index.filter.type={code:?} is no type of filter")))?,
    };
    Ok(Some(BloomOptions {
        kind,
        entries: parsed(settings, "hoodie.index.bloom.num_entries", ENTRIES_DEFAULT)?,
        fpp: parsed(settings, "hoodie.index.bloom.fpp", FPP_DEFAULT)?,
        max_entries: parsed(settings, "hoodie.bloom.index.filter.dynamic.max.entries", MAX_ENTRIES_DEFAULT)?,
    }))
}

fn codec(name: &str) -> Result<Compression> {
    Ok(match name.trim().to_ascii_lowercase().as_str() {
        "gzip" => Compression::GZIP(GzipLevel::default()),
        "snappy" => Compression::SNAPPY,
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        "uncompressed" | "none" => Compression::UNCOMPRESSED,
        other => {
            return Err(Error::unsupported(format!("hoodie.parquet.compression.codec={other:?}"))
                .with_hint("the codecs are snappy, gzip, zstd and uncompressed"));
        }
    })
}

/// A setting of some type, or its default; `Invalid` names the key.
pub(super) fn parsed<T: FromStr>(settings: &BTreeMap<String, String>, key: &str, default: T) -> Result<T> {
    match settings.get(key) {
        None => Ok(default),
        Some(text) => {
            text.trim().parse().map_err(|_| Error::invalid(format!("{key}={text:?} is no value of that setting")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_what_is_wrong_with_them() {
        let with = |key: &str, value: &str| BaseOptions::new(&BTreeMap::from([(key.to_owned(), value.to_owned())]));
        assert_eq!(
            with("hoodie.parquet.compression.codec", "GZIP").unwrap().compression,
            Compression::GZIP(GzipLevel::default())
        );
        assert_eq!(with("hoodie.parquet.bloom.filter.enabled", "false").unwrap().bloom, None);
        assert_eq!(with("hoodie.bloom.index.filter.type", "simple").unwrap().bloom.unwrap().kind, BloomKind::Simple);
        for (key, value) in [
            ("hoodie.parquet.compression.codec", "lzo"),
            ("hoodie.parquet.page.size", "0"),
            ("hoodie.parquet.block.size", "many"),
            ("hoodie.index.bloom.num_entries", "0"),
            ("hoodie.index.bloom.fpp", "2"),
        ] {
            assert!(with(key, value).is_err(), "{key}={value}");
        }
    }
}
