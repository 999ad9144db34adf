//! Record bodies on their way in: whole, bounded and in time, or refused.
//!
//! A body is set aside as it arrives, a MiB at a time on a thread that may block, so that memory stays bounded whatever its
//! size. A body that stalls, breaks off or outgrows its limit leaves nothing behind.

use super::Limits;
use crate::control::body::{Body, RecordBody, Spool, SpoolLimits};
use crate::control::problem::{Failure, Problem};
use crate::record::decode::BodyFormat;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt;

/// The records of a request. What is refused for its type or announced length is refused before it is read.
pub async fn records(request: Request, limits: Limits) -> Result<RecordBody, Failure> {
    let format = format(request.headers())?;
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    if announced.is_some_and(|len: u64| len > limits.record_bytes) {
        return Err(too_large(limits));
    }
    let body = spool(request.into_body(), limits).await?;
    if body.is_empty() {
        return Err(Problem::new("invalid", "the body is empty").hint("send the records as the request's body").into());
    }
    Ok(RecordBody { format, body })
}

fn format(headers: &HeaderMap) -> Result<BodyFormat, Failure> {
    let hint = "send Content-Type: application/vnd.apache.arrow.stream, application/vnd.apache.parquet, \
                application/x-ndjson or text/csv";
    let refused = |detail: String| Failure::from(Problem::new("unsupported_media_type", detail).hint(hint));
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(refused("the body has a content encoding".to_owned()));
    }
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Err(refused("the body has no type".to_owned()));
    };
    let text = value.to_str().unwrap_or_default();
    BodyFormat::of_media_type(text).map_err(|_| refused(format!("the body's type is {text:?}")))
}

async fn spool(mut body: axum::body::Body, limits: Limits) -> Result<Body, Failure> {
    let bounds = SpoolLimits { memory_bytes: limits.record_memory_bytes, body_bytes: limits.record_bytes };
    let mut spool = Spool::new(bounds);
    loop {
        let frame = match tokio::time::timeout(limits.stall_time, body.frame()).await {
            Err(_) => {
                let message = format!("nothing more of the body came for {} s", limits.stall_time.as_secs_f32());
                return Err(Problem::new("timeout", message).into());
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                let message = format!("the body broke off after {} bytes: {error}", spool.len());
                return Err(Problem::new("body_incomplete", message).hint("nothing was written; send it again").into());
            }
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(piece) = frame.into_data() {
            spool = push(spool, piece, limits).await?;
        }
    }
    super::blocking(move || Ok(spool.finish()?)).await
}

/// Adds a piece; one that goes to the disk is added on a thread that may block.
async fn push(mut spool: Spool, piece: Bytes, limits: Limits) -> Result<Spool, Failure> {
    if spool.len().saturating_add(piece.len() as u64) > limits.record_bytes {
        return Err(too_large(limits));
    }
    if spool.stays_in_memory(piece.len()) {
        spool.push(&piece)?;
        return Ok(spool);
    }
    super::blocking(move || {
        spool.push(&piece)?;
        Ok(spool)
    })
    .await
}

fn too_large(limits: Limits) -> Failure {
    Problem::new("body_too_large", format!("the body is larger than {} bytes", limits.record_bytes))
        .hint("send it in parts, in one transaction if they belong together")
        .into()
}
