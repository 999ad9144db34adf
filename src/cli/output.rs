//! What people read: aligned columns, sizes, times, and colours only on a terminal.

use crate::cli::Stop;
use crate::error::Error;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Standard output with a buffer; every failure to write ends the command.
pub fn stdout() -> io::BufWriter<io::Stdout> {
    io::BufWriter::with_capacity(64 * 1024, io::stdout())
}

/// Prints a JSON document, indented.
pub fn json(value: &impl Serialize) -> Result<(), Stop> {
    let mut out = stdout();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// Tells about a failure on standard error.
pub fn complain(error: &Error) {
    // Nothing is left to do if standard error is closed.
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "hudifs: {}", error.message());
    if let Some(hint) = error.hint() {
        let _ = writeln!(err, "  hint: {hint}");
    }
}

/// Tells on standard error what does not make the command fail.
pub fn warn(text: &str) {
    // Nothing is left to do if standard error is closed.
    let _ = writeln!(io::stderr().lock(), "hudifs: warning: {}", printable(text));
}

/// A colour, used only on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// As it is.
    Plain,
    /// Headings.
    Bold,
    /// All is well.
    Green,
    /// Look at it.
    Yellow,
    /// Something is wrong.
    Red,
}

/// `text` in a colour, if standard output is a terminal and `NO_COLOR` is not set.
pub fn paint(paint: Paint, text: &str) -> String {
    let code = match paint {
        Paint::Plain => return text.to_owned(),
        Paint::Bold => 1,
        Paint::Green => 32,
        Paint::Yellow => 33,
        Paint::Red => 31,
    };
    let wanted = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if wanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Rows under a heading, aligned when printed.
#[derive(Debug)]
pub struct Columns {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Columns {
    /// Columns with these headings; a heading that begins with `>` is a column of numbers, aligned to the right.
    pub fn new(headings: &[&str]) -> Columns {
        Columns {
            rows: vec![headings.iter().map(|h| h.trim_start_matches('>').to_owned()).collect()],
            right: headings.iter().map(|h| h.starts_with('>')).collect(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes the heading and the rows.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let count = self.right.len();
        let width_of = |at: usize| self.rows.iter().filter_map(|r| r.get(at)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..count).map(|at| width_of(at).unwrap_or(0)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let width = *width;
                line.push_str(&if *right { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") });
            }
            let line = line.trim_end();
            writeln!(out, "{}", if number == 0 { paint(Paint::Bold, line) } else { line.to_owned() })?;
        }
        Ok(())
    }
}

/// Names from a table, made safe for a terminal: control characters are shown as escapes.
pub fn printable(text: &str) -> String {
    if text.chars().any(char::is_control) {
        text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
    } else {
        text.to_owned()
    }
}

/// A size with a binary unit: `734 B`, `1.2 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KiB";
    for next in UNITS.into_iter().skip(1) {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// `2026-11-30 21:47:02 UTC` from milliseconds since the epoch.
pub fn time(ms: i64) -> String {
    crate::telemetry::log::utc_text(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut columns = Columns::new(&["NAME", ">SIZE", "INSTANT"]);
        columns.row(["é".to_owned(), "12".to_owned(), "001".to_owned()]);
        columns.row(["longer".to_owned(), "7".to_owned(), String::new()]);
        let mut out = Vec::new();
        columns.write(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME    SIZE  INSTANT\né         12  001\nlonger     7\n");
    }

    #[test]
    fn sizes_have_one_digit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable("ü=1"), "ü=1");
    }
}
