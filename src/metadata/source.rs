//! [`FileSource`]: one stored file as a [`ByteSource`], which is how HFiles and log files are read by range.

use crate::error::{Error, Result};
use crate::format::source::ByteSource;
use crate::storage::RandomRead;
use bytes::{Bytes, BytesMut};
use std::sync::{Arc, mpsc};

/// One version of a stored file's bytes.
#[derive(Clone, Debug)]
pub(crate) struct FileSource(pub Arc<dyn RandomRead>);

impl ByteSource for FileSource {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        if offset.checked_add(len).is_none_or(|end| end > self.size()) {
            return Err(Error::corrupt(format!("{len} bytes at byte {offset} of {}", self.size())));
        }
        let first = self.read_some(offset, len)?;
        if first.len() as u64 == len {
            return Ok(first);
        }
        let mut all = BytesMut::from(first.as_ref());
        while (all.len() as u64) < len {
            let at = offset + all.len() as u64;
            let more = self.read_some(at, len - all.len() as u64)?;
            if more.is_empty() {
                return Err(Error::corrupt(format!("ends at byte {at}, {} were announced", self.size())));
            }
            all.extend_from_slice(&more);
        }
        Ok(all.freeze())
    }
}

impl FileSource {
    /// One read, perhaps of fewer bytes.
    fn read_some(&self, offset: u64, len: u64) -> Result<Bytes> {
        let (send, receive) = mpsc::sync_channel(1);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.0.read_at(offset, len, Box::new(move |result| drop(send.send(result))));
        // Storage bounds its own waits, and drops the sender if it gives up.
        receive.recv().unwrap_or_else(|_| Err(Error::internal("a read was dropped without an answer")))
    }
}
