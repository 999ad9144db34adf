//! Lists of files as a stream: a table may have a million, and neither side should hold them all.
//!
//! A [`FileSink`] takes files one at a time. [`JsonSink`] writes the one document of the API, [`LinesSink`] a JSON object a
//! line (`application/x-ndjson`): first the head, then files, at last the end. [`read_lines`] turns lines back into calls.

use super::problem::{Failure, Problem};
use super::types::{FileEntry, FilesSummary};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// The media type of [`LinesSink`]'s output.
pub const LINES_MEDIA_TYPE: &str = "application/x-ndjson";
/// Longest line accepted by [`read_lines`], bytes: a path and a name at their longest, escaped, and then some.
const LINE_MAX: u64 = 256 * 1024;

/// Takes a list of files in order. An error from it means that nobody is listening any more.
pub trait FileSink {
    /// The list is going to be given: the table and the view's instant.
    fn begin(&mut self, table: &str, instant: Option<&str>) -> io::Result<()>;
    /// One file.
    fn file(&mut self, file: &FileEntry) -> io::Result<()>;
    /// The list has ended; `failed` partitions are missing from it.
    fn end(&mut self, failed: &[Problem], summary: &FilesSummary) -> io::Result<()>;
}

/// Writes [`Files`](super::types::Files) as one JSON document.
pub struct JsonSink<W> {
    out: W,
    first: bool,
}

impl<W: Write> JsonSink<W> {
    /// Writes to `out`, in small pieces: give it a buffer.
    pub fn new(out: W) -> Self {
        JsonSink { out, first: true }
    }
}

impl<W: Write> FileSink for JsonSink<W> {
    fn begin(&mut self, table: &str, instant: Option<&str>) -> io::Result<()> {
        self.out.write_all(b"{\"table\":")?;
        serde_json::to_writer(&mut self.out, table)?;
        self.out.write_all(b",\"instant\":")?;
        serde_json::to_writer(&mut self.out, &instant)?;
        self.out.write_all(b",\"files\":[")
    }

    fn file(&mut self, file: &FileEntry) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",")?;
        }
        self.out.write_all(b"\n")?;
        serde_json::to_writer(&mut self.out, file)?;
        Ok(())
    }

    fn end(&mut self, failed: &[Problem], summary: &FilesSummary) -> io::Result<()> {
        self.out.write_all(b"],\n\"failed\":")?;
        serde_json::to_writer(&mut self.out, failed)?;
        self.out.write_all(b",\"summary\":")?;
        serde_json::to_writer(&mut self.out, summary)?;
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }
}

/// One line of the stream.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    End { failed: Vec<Problem>, summary: FilesSummary },
    Head { table: String, instant: Option<String> },
    File(FileEntry),
}

/// Writes one JSON object a line.
pub struct LinesSink<W> {
    out: W,
}

impl<W: Write> LinesSink<W> {
    /// Writes to `out`, in small pieces: give it a buffer.
    pub fn new(out: W) -> Self {
        LinesSink { out }
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}

impl<W: Write> FileSink for LinesSink<W> {
    fn begin(&mut self, table: &str, instant: Option<&str>) -> io::Result<()> {
        self.line(&Line::Head { table: table.to_owned(), instant: instant.map(str::to_owned) })
    }

    fn file(&mut self, file: &FileEntry) -> io::Result<()> {
        self.line(file)
    }

    fn end(&mut self, failed: &[Problem], summary: &FilesSummary) -> io::Result<()> {
        self.line(&Line::End { failed: failed.to_vec(), summary: summary.clone() })?;
        self.out.flush()
    }
}

/// Reads a stream that [`LinesSink`] wrote and hands it on. A stream that stops early is an error, never a shorter list.
pub fn read_lines(input: impl Read, sink: &mut dyn FileSink) -> Result<(), Failure> {
    let mut input = io::BufReader::with_capacity(64 * 1024, input);
    let mut line = String::new();
    loop {
        line.clear();
        let read = (&mut input).take(LINE_MAX).read_line(&mut line);
        let read = read.map_err(|e| Error::io("list of files from the control socket", e))?;
        if read == 0 || !line.ends_with('\n') {
            return Err(Error::new(
                crate::error::ErrorKind::Unavailable,
                "the control socket closed in the middle of a list of files",
            )
            .with_hint("look into the daemon's log")
            .into());
        }
        let parsed = serde_json::from_str(&line)
            .map_err(|e| Error::internal(format!("line of a list of files from the control socket: {e}")))?;
        let done = matches!(parsed, Line::End { .. });
        match parsed {
            Line::Head { table, instant } => sink.begin(&table, instant.as_deref()),
            Line::File(file) => sink.file(&file),
            Line::End { failed, summary } => sink.end(&failed, &summary),
        }
        .map_err(|e| Error::io("output", e))?;
        if done {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::Files;
    use super::*;

    fn feed(sink: &mut dyn FileSink) {
        sink.begin("db/t", Some("20260101000000000")).unwrap();
        for name in ["a\"b.parquet", "ü.parquet"] {
            sink.file(&FileEntry {
                partition: "p=1".to_owned(),
                name: name.to_owned(),
                size_bytes: Some(1),
                file_id: "f".to_owned(),
                instant: "001".to_owned(),
            })
            .unwrap();
        }
        let failed = [Problem::new("corrupt", "p=2: bad")];
        sink.end(&failed, &FilesSummary { files: 2, ..FilesSummary::default() }).unwrap();
    }

    #[test]
    fn document_and_lines_say_the_same() {
        let mut direct = Vec::new();
        feed(&mut JsonSink::new(&mut direct));
        let files: Files = serde_json::from_slice(&direct).unwrap();
        assert_eq!(files.files.len(), 2);
        assert_eq!(files.failed[0].code, "corrupt");

        let mut lines = Vec::new();
        feed(&mut LinesSink::new(&mut lines));
        let mut through = Vec::new();
        read_lines(&lines[..], &mut JsonSink::new(&mut through)).unwrap();
        assert_eq!(String::from_utf8(through).unwrap(), String::from_utf8(direct).unwrap());
    }

    #[test]
    fn a_cut_stream_is_an_error_at_every_byte() {
        let mut lines = Vec::new();
        feed(&mut LinesSink::new(&mut lines));
        for cut in 0..lines.len() {
            let mut out = Vec::new();
            assert!(read_lines(&lines[..cut], &mut JsonSink::new(&mut out)).is_err(), "cut at {cut}");
        }
    }
}
