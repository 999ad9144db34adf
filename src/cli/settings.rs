//! From arguments to settings: defaults filled in, paths made absolute, contradictions refused.
//!
//! A daemon leaves the current directory and a background one its terminal, so nothing relative may be left in here.

use super::args::{ListingArg, LogFormatArg, MountArgs, StoreArgs};
use crate::daemon::{DaemonSettings, PollInterval};
use crate::error::{Error, Result};
use crate::fs::FsOptions;
use crate::fuse::MountOptions;
use crate::storage::{Location, StorageOptions};
use crate::table::Listing;
use crate::telemetry::log::{LogFormat, LogSettings};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long what is known of a store may be believed.
pub type Ttl = PollInterval;

const MIB: u64 = 1 << 20;
const POLL_DEFAULT: Duration = Duration::from_secs(5);
const POLL_MINIMAL: Duration = Duration::from_secs(1);

/// A size: a plain number counts MiB, as with other mount tools; units are binary (`K`, `MiB`, `GB` and the like).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a size; write 512 (MiB), 512MiB or 2GiB"))?;
    let unit = unit.trim().to_ascii_lowercase();
    let factor = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" if unit.is_empty() => MIB,
        "" => 1,
        "k" => 1 << 10,
        "m" => MIB,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(format!("{text:?} has an unknown unit; write B, KiB, MiB, GiB or TiB")),
    };
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(|| format!("{text:?} is out of range"))
}

/// Permission bits in octal.
pub fn parse_mode(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u16::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("{text:?} is not a mode; write three octal digits, such as 644"))
}

/// Seconds, `minimal` or `indefinite`.
pub fn parse_ttl(text: &str) -> Result<Ttl, String> {
    match text {
        "minimal" => Ok(PollInterval::Every(POLL_MINIMAL)),
        "indefinite" => Ok(PollInterval::Never),
        number => match number.parse::<f64>() {
            Ok(seconds) if (0.05..=1e8).contains(&seconds) => Ok(PollInterval::Every(Duration::from_secs_f64(seconds))),
            _ => Err(format!("{text:?} is not a time to live; write seconds (0.05 or more), minimal or indefinite")),
        },
    }
}

/// How stores are reached.
pub fn storage_options(args: &StoreArgs) -> Result<StorageOptions> {
    let default = StorageOptions::default();
    Ok(StorageOptions {
        region: args.region.clone(),
        endpoint_url: args.endpoint_url.clone(),
        no_sign_request: args.no_sign_request,
        memory_target_bytes: args.memory_target.unwrap_or(default.memory_target_bytes),
        cache_dir: args.cache.as_deref().map(absolute).transpose()?,
        max_cache_size_bytes: args.max_cache_size,
        ..default
    })
}

/// Where files are listed from.
pub fn listing(args: &StoreArgs) -> Listing {
    match args.listing {
        ListingArg::Auto => Listing::Auto,
        ListingArg::Storage => Listing::Storage,
        ListingArg::MetadataTable => Listing::MetadataTable,
    }
}

/// What `hudifs mount` asks for.
pub fn mount(args: &MountArgs) -> Result<DaemonSettings> {
    let directory = absolute(&args.directory)?;
    // Parsing makes a bare path absolute and refuses what no store takes.
    let location = Location::parse(&args.uri)?;
    let uri = location.uri();
    if args.auto_unmount && !(args.allow_other || args.allow_root) {
        return Err(Error::invalid("--auto-unmount needs --allow-other or --allow-root")
            .with_hint("without them, unmount with `hudifs umount` or fusermount3 -u"));
    }
    let default = FsOptions::default();
    let mut storage = storage_options(&args.store)?;
    let memory_target_bytes = storage.memory_target_bytes;
    let mut for_partitions = memory_target_bytes;
    if !matches!(location, Location::Local(_)) {
        // Remote files need memory for their blocks; a local disk's are the kernel's to cache.
        for_partitions /= 4;
        storage.memory_target_bytes -= for_partitions;
    }
    Ok(DaemonSettings {
        fs: FsOptions {
            uid: args.uid.unwrap_or(default.uid),
            gid: args.gid.unwrap_or(default.gid),
            file_mode: args.file_mode.unwrap_or(default.file_mode),
            dir_mode: args.dir_mode.unwrap_or(default.dir_mode),
            memory_target: for_partitions,
            as_of: args.as_of.clone(),
            ..default
        },
        mount: MountOptions {
            allow_other: args.allow_other,
            allow_root: args.allow_root,
            auto_unmount: args.auto_unmount,
            source: uri.clone(),
            passthrough: !args.no_passthrough,
            threads: args.threads.map(usize::from),
            replace_stale: args.replace_stale,
            ..MountOptions::default()
        },
        log: LogSettings {
            directory: args.log_directory.as_deref().map(absolute).transpose()?,
            format: match args.log_format {
                LogFormatArg::Text => LogFormat::Text,
                LogFormatArg::Json => LogFormat::Json,
            },
            debug: args.debug,
            foreground: args.foreground,
            fallback_directory: crate::daemon::log_dir(),
        },
        poll: args.metadata_ttl.unwrap_or(PollInterval::Every(POLL_DEFAULT)),
        watch: !args.poll,
        read_only: args.read_only,
        lease_life: args.lease_life.map(Duration::from_secs),
        warehouse: args.warehouse,
        listing: listing(&args.store),
        memory_target_bytes,
        storage,
        uri,
        directory,
        foreground: args.foreground,
    })
}

/// The path made absolute without touching the disk.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io(path.display(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_mebibytes_unless_they_say_otherwise() {
        for (text, bytes) in
            [("1", MIB), ("512MiB", 512 * MIB), ("2g", 2 << 30), ("10 KB", 10 << 10), ("7b", 7), ("1TiB", 1 << 40)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-1", "1.5G", "9 parsecs", "99999999999999999T", "MiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(parse_mode("0644"), Ok(0o644));
        assert_eq!(parse_mode("0o755"), Ok(0o755));
        for text in ["888", "1777", "", "u+r"] {
            assert!(parse_mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_to_live_have_names() {
        assert_eq!(parse_ttl("0.5"), Ok(PollInterval::Every(Duration::from_millis(500))));
        assert_eq!(parse_ttl("indefinite"), Ok(PollInterval::Never));
        for text in ["0", "-1", "NaN", "inf", "soon", "1e300"] {
            assert!(parse_ttl(text).is_err(), "{text}");
        }
    }
}
