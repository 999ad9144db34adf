//! [`Sink`]: the file being written, as the Parquet library writes to it, and as we finish it afterwards.

use crate::error::{Error, Result};
use crate::storage::{ObjectMeta, ObjectWriter};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are gathered before the storage gets them.
const BUFFER_LEN: usize = 1 << 20;

/// A file that is written through one handle and finished through another. Dropped unfinished, nothing remains.
#[derive(Clone)]
pub(super) struct Sink(Arc<Mutex<Open>>);

struct Open {
    writer: Option<Box<dyn ObjectWriter>>,
    buffer: Vec<u8>,
}

impl Sink {
    pub fn new(writer: Box<dyn ObjectWriter>) -> Sink {
        Sink(Arc::new(Mutex::new(Open { writer: Some(writer), buffer: Vec::with_capacity(BUFFER_LEN) })))
    }

    /// Ends the file: durable, and visible under its name.
    pub fn finish(self) -> Result<ObjectMeta> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.drain().map_err(storage_error)?;
        let writer = open.writer.take().ok_or_else(|| Error::internal("a file was finished twice"))?;
        writer.finish()
    }
}

impl Open {
    fn drain(&mut self) -> io::Result<()> {
        let writer = self.writer.as_mut().ok_or_else(|| io::Error::other("the file is finished"))?;
        writer.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.buffer.len() + bytes.len() > BUFFER_LEN {
            open.drain()?;
        }
        if bytes.len() >= BUFFER_LEN {
            let writer = open.writer.as_mut().ok_or_else(|| io::Error::other("the file is finished"))?;
            writer.write_all(bytes)?;
        } else {
            open.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    /// Does not reach the storage: the library flushes after every row group.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The storage's own error, where there is one inside.
fn storage_error(error: io::Error) -> Error {
    match error.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
        Some(inner) => inner.duplicate(),
        None => Error::io("a base file", error),
    }
}
