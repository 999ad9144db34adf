//! Bodies as rows, for a writer.

use crate::control::body::RecordBody;
use crate::error::{Error, ErrorKind, Result};
use crate::record::TableSchema;
use crate::record::decode::{BodyFormat, Rows};
use crate::write::Records;
use arrow::array::RecordBatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::vec::IntoIter;

/// The rows of all bodies, one after the other. They end with an error once `stop` is set. The first body is opened at once, so
/// that what is no body at all is refused before anything is begun.
pub fn records(bodies: Vec<RecordBody>, schema: Option<TableSchema>, stop: Arc<AtomicBool>) -> Result<Records> {
    let mut bodies = bodies.into_iter();
    let rows = bodies.next().map(|body| open(&body, schema.as_ref())).transpose()?;
    Ok(Box::new(Chain { rows, bodies, schema, stop }))
}

/// Reads a body through and counts its rows.
pub fn count(body: &RecordBody, schema: Option<TableSchema>, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut rows = 0_u64;
    for batch in records(vec![body.clone()], schema, stop)? {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}

fn open(body: &RecordBody, schema: Option<&TableSchema>) -> Result<Rows> {
    match body.format {
        BodyFormat::Parquet => Rows::of_parquet(body.body.clone()),
        format => Rows::read(format, Box::new(body.body.reader()), schema),
    }
}

struct Chain {
    rows: Option<Rows>,
    bodies: IntoIter<RecordBody>,
    schema: Option<TableSchema>,
    stop: Arc<AtomicBool>,
}

impl Iterator for Chain {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.stop.load(Ordering::Relaxed) {
            let error = Error::new(ErrorKind::Unavailable, "the daemon is ending; the write is rolled back");
            return Some(Err(error.with_hint("mount again and send it again")));
        }
        loop {
            if let Some(batch) = self.rows.as_mut()?.next() {
                return Some(batch);
            }
            self.rows = match self.bodies.next().map(|body| open(&body, self.schema.as_ref())).transpose() {
                Ok(rows) => rows,
                Err(error) => return Some(Err(error)),
            };
        }
    }
}
