//! [`ParquetFile`]: one version of a stored Parquet file, as the Parquet library reads it.
//!
//! Reads go by position, so that several threads may share it. What the storage says (a file replaced meanwhile is `Stale`)
//! comes through the library's own errors and out again by [`failed`].

use crate::error::{Error, Result};
use crate::storage::{RandomRead, Storage, TablePath};
use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{BufReader, Read};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Bytes of one read while a column chunk is streamed.
const STREAM_LEN: usize = 1 << 20;
/// Most bytes of one request to the storage.
const REQUEST_MAX: u64 = 256 << 20;

/// One version of a stored Parquet file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ParquetFile {
    file: Arc<dyn RandomRead>,
    name: Arc<str>,
}

impl ParquetFile {
    /// Opens a file; with a size, one of another size is `Stale`.
    pub fn open(storage: &dyn Storage, path: &TablePath, size: Option<u64>) -> Result<ParquetFile> {
        Ok(ParquetFile { file: storage.open(path, size)?, name: path.as_str().into() })
    }

    /// Its path in the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Reads the footer; with the page index where there is one, if asked for.
    pub fn metadata(&self, page_index: bool) -> Result<Arc<ParquetMetaData>> {
        let policy = if page_index { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let reader = ParquetMetaDataReader::new().with_page_index_policy(policy);
        reader.parse_and_finish(self).map(Arc::new).map_err(|e| failed(&self.name, e))
    }

    /// Exactly that range.
    pub fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.size());
        if !inside {
            return Err(Error::corrupt(format!(
                "{}: has {} bytes, and its footer speaks of {len} bytes at {offset}",
                self.name,
                self.size()
            )));
        }
        if len <= REQUEST_MAX {
            return self.request(offset, len);
        }
        let mut all = Vec::with_capacity(len as usize);
        while (all.len() as u64) < len {
            let at = all.len() as u64;
            all.extend_from_slice(&self.request(offset + at, (len - at).min(REQUEST_MAX))?);
        }
        Ok(all.into())
    }

    fn request(&self, offset: u64, len: u64) -> Result<Bytes> {
        let (sender, receiver) = sync_channel(1);
        let done = Box::new(move |result| drop(sender.send(result)));
        self.file.read_at(offset, u32::try_from(len).unwrap_or(u32::MAX), done);
        let bytes = receiver.recv().unwrap_or_else(|_| Err(Error::internal("a read was never answered")))?;
        match bytes.len() as u64 == len {
            true => Ok(bytes),
            false => Err(Error::corrupt(format!("{}: {} of {len} bytes at {offset}", self.name, bytes.len()))),
        }
    }
}

impl Length for ParquetFile {
    fn len(&self) -> u64 {
        self.size()
    }
}

impl ChunkReader for ParquetFile {
    type T = BufReader<Stream>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let stream = Stream { file: self.clone(), at: start, held: Bytes::new() };
        Ok(BufReader::with_capacity(0, stream))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.read(start, length as u64).map_err(|e| ParquetError::External(Box::new(e)))
    }
}

/// The bytes from some place on.
pub struct Stream {
    file: ParquetFile,
    at: u64,
    held: Bytes,
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.held.is_empty() {
            let len = (STREAM_LEN as u64).min(self.file.size().saturating_sub(self.at));
            self.held = self.file.read(self.at, len).map_err(std::io::Error::other)?;
            self.at += len;
        }
        let len = into.len().min(self.held.len());
        self.held.copy_to_slice(into.get_mut(..len).unwrap_or_default());
        Ok(len)
    }
}

/// What the Parquet library says about a file: the storage's own error where there is one inside, else `Corrupt`.
pub fn failed(name: &str, error: ParquetError) -> Error {
    let inner = match &error {
        ParquetError::External(inner) => {
            let inner: &(dyn std::error::Error + 'static) = inner.as_ref();
            inner.downcast_ref::<Error>().or_else(|| {
                let io = inner.downcast_ref::<std::io::Error>()?;
                io.get_ref()?.downcast_ref::<Error>()
            })
        }
        _ => None,
    };
    match inner {
        Some(inner) => inner.duplicate(),
        None => Error::corrupt(format!("{name}: {error}")).with_source(error),
    }
}
