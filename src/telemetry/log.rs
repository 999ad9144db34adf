//! Where log lines go, and in which form.
//!
//! In the foreground to standard error. In the background to a file of its own in `--log-directory`, else to journald or
//! syslog, whichever listens; where neither does, to a file in a directory that the caller names.
//! `HUDIFS_LOG` takes a `tracing` filter and overrides the level.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable that overrides the log filter.
pub const FILTER_VARIABLE: &str = "HUDIFS_LOG";
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
const SYSLOG_SOCKET: &str = "/dev/log";

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Log settings as resolved from the command line.
#[derive(Clone, Debug, Default)]
pub struct LogSettings {
    /// A file is made here.
    pub directory: Option<PathBuf>,
    /// The form of a line.
    pub format: LogFormat,
    /// Decisions and their reasons too.
    pub debug: bool,
    /// Without a directory, log to standard error: there is a terminal or a supervisor that reads it.
    pub foreground: bool,
    /// Where a file goes if a background process finds neither journald nor syslog.
    pub fallback_directory: PathBuf,
}

/// Sets up the log for the whole process and says where it is, in words fit for `see …`.
pub fn init(settings: &LogSettings) -> Result<String> {
    let (sink, place) = Sink::open(settings)?;
    let default = if settings.debug { "hudifs=debug,info" } else { "hudifs=info,warn" };
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) => EnvFilter::try_new(&text).map_err(|e| {
            Error::invalid(format!("{FILTER_VARIABLE}={text:?} is not a log filter: {e}"))
                .with_hint("for example HUDIFS_LOG=hudifs=debug")
        })?,
        Err(_) => EnvFilter::new(default),
    };
    // journald and syslog stamp the lines themselves.
    let stamped = !matches!(sink.0, SinkKind::Journal(_) | SinkKind::Syslog(_));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(sink);
    let done = match (settings.format, stamped) {
        (LogFormat::Json, _) => builder.json().flatten_event(true).with_current_span(false).try_init(),
        (LogFormat::Text, true) => builder.try_init(),
        (LogFormat::Text, false) => builder.without_time().with_level(false).try_init(),
    };
    done.map_err(|e| Error::internal(format!("the log is already set up: {e}")))?;
    Ok(place)
}

/// An opened destination.
#[derive(Clone)]
struct Sink(SinkKind);

#[derive(Clone)]
enum SinkKind {
    Stderr,
    File(Arc<File>),
    Journal(Arc<UnixDatagram>),
    Syslog(Arc<UnixDatagram>),
}

impl Sink {
    fn open(settings: &LogSettings) -> Result<(Sink, String)> {
        if let Some(directory) = &settings.directory {
            return file_in(directory);
        }
        if settings.foreground {
            return Ok((Sink(SinkKind::Stderr), "standard error".to_owned()));
        }
        if let Ok(socket) = connect(JOURNAL_SOCKET) {
            return Ok((Sink(SinkKind::Journal(socket)), "the journal (journalctl -t hudifs)".to_owned()));
        }
        if let Ok(socket) = connect(SYSLOG_SOCKET) {
            return Ok((Sink(SinkKind::Syslog(socket)), "syslog".to_owned()));
        }
        file_in(&settings.fallback_directory)
    }
}

fn connect(path: &str) -> io::Result<Arc<UnixDatagram>> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    // A full journal must not stop a FUSE handler; the line is lost instead.
    socket.set_nonblocking(true)?;
    Ok(Arc::new(socket))
}

/// A new log file: one for each start, so that two mounts never share one.
fn file_in(directory: &Path) -> Result<(Sink, String)> {
    std::fs::create_dir_all(directory).map_err(|e| Error::io(format!("log directory {}", directory.display()), e))?;
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let path = directory.join(format!("hudifs-{}-{}.log", file_stamp(seconds), std::process::id()));
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(&path)
        .map_err(|e| Error::io(format!("log file {}", path.display()), e))?;
    Ok((Sink(SinkKind::File(Arc::new(file))), path.display().to_string()))
}

/// `20261130T214702Z` from seconds since the epoch.
fn file_stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// `2026-11-30 21:47:02 UTC` from milliseconds since the epoch.
pub fn utc_text(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Writes one line; the level is known for journald's and syslog's priority.
struct LineWriter {
    sink: Sink,
    priority: u8,
    line: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter { sink: self.clone(), priority: 6, line: Vec::new() }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> LineWriter {
        LineWriter { sink: self.clone(), priority: priority(*meta.level()), line: Vec::new() }
    }
}

/// syslog's severity of a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.line);
        match &self.sink.0 {
            // One write a line: lines of several threads do not mix.
            SinkKind::Stderr => io::stderr().lock().write_all(&line),
            SinkKind::File(file) => (&**file).write_all(&line),
            SinkKind::Journal(socket) => socket.send(&journal_message(self.priority, &line)).map(drop),
            SinkKind::Syslog(socket) => socket.send(&syslog_message(self.priority, &line)).map(drop),
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        // The log cannot report its own failure anywhere.
        let _ = self.flush();
    }
}

/// journald's native protocol: fields as lines; a value with newlines is written with its length.
fn journal_message(priority: u8, line: &[u8]) -> Vec<u8> {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let mut out = format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=hudifs\n").into_bytes();
    out.extend_from_slice(b"MESSAGE\n");
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
    out.push(b'\n');
    out
}

/// RFC 3164, facility daemon, without the time stamp that a local syslog daemon adds.
fn syslog_message(priority: u8, line: &[u8]) -> Vec<u8> {
    const DAEMON: u8 = 3;
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let mut out = format!("<{}>hudifs[{}]: ", DAEMON * 8 + priority, std::process::id()).into_bytes();
    out.extend_from_slice(text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_dates() {
        assert_eq!(file_stamp(0), "19700101T000000Z");
        assert_eq!(file_stamp(951_782_399), "20000228T235959Z");
        assert_eq!(file_stamp(951_782_400), "20000229T000000Z");
        assert_eq!(file_stamp(1_796_075_251), "20261130T214731Z");
        assert_eq!(utc_text(1_796_075_251_999), "2026-11-30 21:47:31 UTC");
        assert_eq!(utc_text(-1), "1969-12-31 23:59:59 UTC");
    }

    #[test]
    fn messages_carry_priority_and_text() {
        assert_eq!(
            journal_message(4, b"two\nlines\n"),
            b"PRIORITY=4\nSYSLOG_IDENTIFIER=hudifs\nMESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\n"
        );
        let text = String::from_utf8(syslog_message(3, b"bad\n")).unwrap();
        assert_eq!(text, format!("<27>hudifs[{}]: bad", std::process::id()));
    }

    #[test]
    fn a_log_file_is_private_to_owner_and_group() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let settings = LogSettings { directory: Some(dir.path().join("a/b")), ..LogSettings::default() };
        let (sink, place) = Sink::open(&settings).unwrap();
        writeln!(sink.make_writer(), "one line").unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "one line\n");
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o137, 0);
    }
}
