//! Where the records of a command come from: files, or standard input.

use crate::cli::args::RowsArgs;
use crate::control::body::{Body, RecordBody, Spool, SpoolLimits};
use crate::error::{Error, Result};
use crate::record::decode::BodyFormat;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

/// Bytes of a pipe that are kept in memory.
const MEMORY: usize = 8 << 20;
const PIECE: usize = 256 << 10;

/// Records of one file or pipe.
pub struct Source {
    format: BodyFormat,
    name: String,
    reader: Reader,
}

enum Reader {
    File(File, u64),
    /// Standard input, a pipe, a device.
    Stream(Box<dyn Read + Send>),
}

/// Opens what the command names, before anything is asked of the table.
pub fn open(args: &RowsArgs) -> Result<Vec<Source>> {
    if args.files.is_empty() {
        return Ok(vec![stdin(args.format)?]);
    }
    args.files
        .iter()
        .map(|path| if path == Path::new("-") { stdin(args.format) } else { file(path, args.format) })
        .collect()
}

fn stdin(format: Option<BodyFormat>) -> Result<Source> {
    let format = format.ok_or_else(|| unknown("standard input"))?;
    if std::io::stdin().is_terminal() {
        return Err(
            Error::invalid("the records would come from the terminal").with_hint("name a file, or pipe them in")
        );
    }
    Ok(Source { format, name: "standard input".to_owned(), reader: Reader::Stream(Box::new(std::io::stdin())) })
}

fn file(path: &Path, format: Option<BodyFormat>) -> Result<Source> {
    let name = path.display().to_string();
    let format = format.or_else(|| BodyFormat::of_file_name(&name)).ok_or_else(|| unknown(&name))?;
    let file = File::open(path).map_err(|e| Error::io(&name, e))?;
    let found = file.metadata().map_err(|e| Error::io(&name, e))?;
    if found.is_dir() {
        return Err(Error::invalid(format!("{name} is a directory")).with_hint("name the files in it"));
    }
    let reader = if found.is_file() { Reader::File(file, found.len()) } else { Reader::Stream(Box::new(file)) };
    Ok(Source { format, name, reader })
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("it is not known how the records of {name} are written"))
        .with_hint("say --format arrow, parquet, ndjson or csv")
}

impl Source {
    /// How the records are written.
    pub fn format(&self) -> BodyFormat {
        self.format
    }

    /// Size, where it is known, bytes.
    pub fn len(&self) -> Option<u64> {
        match &self.reader {
            Reader::File(_, len) => Some(*len),
            Reader::Stream(_) => None,
        }
    }

    /// The bytes, in order.
    pub fn into_reader(self) -> Box<dyn Read + Send> {
        match self.reader {
            Reader::File(file, _) => Box::new(file),
            Reader::Stream(stream) => stream,
        }
    }

    /// A body to write from: a file as it is; a pipe is read to its end.
    pub fn into_body(self) -> Result<RecordBody> {
        let body = match self.reader {
            Reader::File(file, _) => Body::of_file(file, &self.name)?,
            Reader::Stream(mut stream) => {
                let mut spool = Spool::new(SpoolLimits { memory_bytes: MEMORY, body_bytes: u64::MAX });
                let mut piece = vec![0; PIECE];
                loop {
                    match stream.read(&mut piece) {
                        Ok(0) => break spool.finish()?,
                        Ok(len) => spool.push(piece.get(..len).unwrap_or_default())?,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(Error::io(&self.name, error)),
                    }
                }
            }
        };
        if body.is_empty() {
            return Err(Error::invalid(format!("{} is empty", self.name)));
        }
        Ok(RecordBody { format: self.format, body })
    }
}
