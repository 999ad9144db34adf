//! The records of a request: bytes, and how they are written.
//!
//! A body that came over the socket is whole before a writer sees it: small ones in memory, larger ones in a temporary file
//! that has no name any more. So a body that is cut short, too large or too slow changes nothing, a slow client keeps nobody
//! waiting, and a transaction can be tried again. The command line hands files over as they are.

use crate::error::{Error, ErrorKind, Result};
use crate::record::decode::BodyFormat;
use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes that can be read more than once, also by several readers at a time.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory.
    Memory(Bytes),
    /// In a file, all of it.
    File(Arc<File>, u64),
}

/// The records of one request.
#[derive(Clone, Debug)]
pub struct RecordBody {
    /// How they are written.
    pub format: BodyFormat,
    /// Their bytes.
    pub body: Body,
}

impl Body {
    /// A file as it is now. `Invalid` for what cannot be read at any place, such as a pipe: see [`Spool`].
    pub fn of_file(file: File, name: &str) -> Result<Body> {
        let found = file.metadata().map_err(|e| Error::io(name, e))?;
        if !found.is_file() {
            return Err(Error::invalid(format!("{name} is no regular file")));
        }
        Ok(Body::File(Arc::new(file), found.len()))
    }

    /// Size, bytes.
    pub fn len(&self) -> u64 {
        match self {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File(_, len) => *len,
        }
    }

    /// True without a byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A reader at the beginning, with a place of its own.
    pub fn reader(&self) -> BodyReader {
        BodyReader { body: self.clone(), at: 0 }
    }
}

/// Reads a [`Body`].
#[derive(Debug)]
pub struct BodyReader {
    body: Body,
    at: u64,
}

impl Read for BodyReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &self.body {
            Body::Memory(bytes) => {
                let mut rest = bytes.get(usize::try_from(self.at).unwrap_or(usize::MAX)..).unwrap_or_default();
                let len = rest.len().min(into.len());
                rest.copy_to_slice(into.get_mut(..len).unwrap_or_default());
                len
            }
            Body::File(file, len) => {
                let room = usize::try_from(len.saturating_sub(self.at)).unwrap_or(usize::MAX).min(into.len());
                let read = file.read_at(into.get_mut(..room).unwrap_or_default(), self.at)?;
                if read == 0 && room > 0 {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter"));
                }
                read
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for BodyReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.body.len(), by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning");
        self.at = base.checked_add_signed(by).ok_or_else(before)?;
        Ok(self.at)
    }
}

/// Parquet is read in place.
impl Length for Body {
    fn len(&self) -> u64 {
        Body::len(self)
    }
}

impl ChunkReader for Body {
    type T = BodyReader;

    fn get_read(&self, start: u64) -> parquet::errors::Result<BodyReader> {
        Ok(BodyReader { body: self.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= Body::len(self));
        let end = end.ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start} lie beyond the end")))?;
        if let Body::Memory(bytes) = self {
            let range = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
            return Ok(bytes.slice(range));
        }
        let mut bytes = vec![0; length];
        BodyReader { body: self.clone(), at: start }.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Takes a body in, piece by piece.
#[derive(Debug)]
pub struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    len: u64,
    limits: SpoolLimits,
}

/// Bounds of a [`Spool`].
#[derive(Clone, Copy, Debug)]
pub struct SpoolLimits {
    /// Bytes kept in memory before they go to the file.
    pub memory_bytes: usize,
    /// Most bytes of a body.
    pub body_bytes: u64,
}

impl Spool {
    /// An empty one.
    pub fn new(limits: SpoolLimits) -> Spool {
        Spool { memory: Vec::new(), file: None, len: 0, limits }
    }

    /// True if so many more bytes will not go to the disk.
    pub fn stays_in_memory(&self, more: usize) -> bool {
        self.memory.len().saturating_add(more) <= self.limits.memory_bytes
    }

    /// Adds a piece. `Invalid` beyond the limit, `Unavailable` where there is no room for it.
    pub fn push(&mut self, piece: &[u8]) -> Result<()> {
        self.len = self.len.saturating_add(piece.len() as u64);
        if self.len > self.limits.body_bytes {
            return Err(Error::invalid(format!("the body is larger than {} bytes", self.limits.body_bytes)));
        }
        if !self.stays_in_memory(piece.len()) {
            self.spill()?;
        }
        self.memory.extend_from_slice(piece);
        Ok(())
    }

    /// Bytes taken in.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True without a byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole body.
    pub fn finish(mut self) -> Result<Body> {
        if self.file.is_none() {
            return Ok(Body::Memory(self.memory.into()));
        }
        self.spill()?;
        let file = self.file.ok_or_else(|| Error::internal("a spool without its file"))?;
        Ok(Body::File(Arc::new(file), self.len))
    }

    fn spill(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile().map_err(|e| no_room(&e))?);
        }
        if let Some(file) = &mut self.file {
            io::Write::write_all(file, &self.memory).map_err(|e| no_room(&e))?;
        }
        self.memory.clear();
        Ok(())
    }
}

fn no_room(error: &io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the body cannot be set aside in a temporary file: {error}"))
        .with_hint("free space in the temporary directory, or start the daemon with another TMPDIR")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spooled(limits: SpoolLimits, pieces: &[&[u8]]) -> Result<Body> {
        let mut spool = Spool::new(limits);
        for piece in pieces {
            spool.push(piece)?;
        }
        spool.finish()
    }

    #[test]
    fn bodies_are_the_same_in_memory_and_in_files() {
        let pieces: [&[u8]; 5] = [b"abc", b"", b"defghijkl", b"m", b"nopqrstuvwxyz"];
        let whole = pieces.concat();
        for memory_bytes in [0, 1, 3, 10, 100] {
            let body = spooled(SpoolLimits { memory_bytes, body_bytes: 26 }, &pieces).unwrap();
            assert_eq!(matches!(body, Body::Memory(_)), memory_bytes == 100);
            assert_eq!(body.len(), 26);
            for _ in 0..2 {
                let (mut one, mut other) = (body.reader(), body.reader());
                let mut read = Vec::new();
                other.seek(SeekFrom::End(-3)).unwrap();
                one.read_to_end(&mut read).unwrap();
                assert_eq!(read, whole);
                let mut end = String::new();
                other.read_to_string(&mut end).unwrap();
                assert_eq!(end, "xyz");
                assert!(other.seek(SeekFrom::Current(-27)).is_err());
                other.seek(SeekFrom::Start(1000)).unwrap();
                assert_eq!(other.read(&mut [0; 4]).unwrap(), 0);
            }
        }
    }

    #[test]
    fn a_body_over_the_limit_is_refused() {
        for memory_bytes in [0, 100] {
            let error = spooled(SpoolLimits { memory_bytes, body_bytes: 5 }, &[b"abc", b"def"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "0123456789").unwrap();
        let body = Body::of_file(File::open(&path).unwrap(), "x").unwrap();
        std::fs::write(&path, "01234").unwrap();
        assert!(body.reader().read_to_end(&mut Vec::new()).is_err());
        assert!(Body::of_file(File::open(dir.path()).unwrap(), "x").is_err());
    }
}
