//! Arrow IPC streams.

use super::{Source, unreadable, wrong};
use crate::error::{Error, Result};
use ::arrow::array::RecordBatch;
use ::arrow::buffer::Buffer;
use ::arrow::datatypes::{Schema, SchemaRef};
use ::arrow::ipc::reader::StreamDecoder;
use std::io::Read;
use std::sync::Arc;

/// Bytes taken in at once.
const PIECE: usize = 1 << 20;
/// Most bytes of one batch with the dictionaries before it.
const BATCH_BYTES_MAX: usize = 1 << 30;
/// Most bytes before the schema is known.
const SCHEMA_BYTES_MAX: usize = 16 << 20;

struct Ipc {
    body: Box<dyn Read + Send>,
    decoder: StreamDecoder,
    rest: Buffer,
    schema: SchemaRef,
    /// A batch that came together with the schema.
    first: Option<RecordBatch>,
    number: u64,
    ended: bool,
}

pub(super) fn open(body: Box<dyn Read + Send>) -> Result<Box<dyn Source>> {
    let mut ipc = Ipc {
        body,
        decoder: StreamDecoder::new(),
        rest: Buffer::from(Vec::<u8>::new()),
        schema: Arc::new(Schema::empty()),
        first: None,
        number: 0,
        ended: false,
    };
    let mut taken = 0;
    while ipc.decoder.schema().is_none() && ipc.first.is_none() && !ipc.ended {
        taken += ipc.fill()?;
        ipc.first = ipc.decode()?;
        if taken > SCHEMA_BYTES_MAX {
            return Err(Error::invalid("the body is no Arrow stream: there is no schema at its beginning"));
        }
    }
    match ipc.decoder.schema() {
        Some(schema) => ipc.schema = schema,
        None => {
            return Err(Error::invalid("the body is no Arrow stream, or an empty one").with_hint(
                "send the streaming format, which begins with its schema; a file (Feather) is another format",
            ));
        }
    }
    Ok(Box::new(ipc))
}

impl Ipc {
    /// Takes a piece in; its length, 0 at the end.
    fn fill(&mut self) -> Result<usize> {
        let mut piece = Vec::with_capacity(PIECE);
        let len = self.body.by_ref().take(PIECE as u64).read_to_end(&mut piece).map_err(unreadable)?;
        self.ended = len == 0;
        self.rest = Buffer::from(piece);
        Ok(len)
    }

    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        let number = self.number + 1;
        let batch = self.decoder.decode(&mut self.rest).map_err(|e| wrong(format_args!("batch {number}"), &e))?;
        self.number += u64::from(batch.is_some());
        Ok(batch)
    }
}

impl Source for Ipc {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let mut taken = 0;
        loop {
            if let Some(batch) = self.decode()? {
                return Ok(Some(batch));
            }
            if self.ended {
                let number = self.number + 1;
                let end = self.decoder.finish();
                return end.map(|()| None).map_err(|e| wrong(format_args!("batch {number} is cut off"), &e));
            }
            taken += self.fill()?;
            if taken > BATCH_BYTES_MAX {
                return Err(Error::invalid(format!("batch {} has more than 1 GiB", self.number + 1))
                    .with_hint("send smaller batches"));
            }
        }
    }
}
