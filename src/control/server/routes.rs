//! The routes: what each path and method answers. [`ROUTES`] is the list that `openapi.json` is compared with.

use super::respond::{Answer, body, json, text};
use super::{Handlers, Limits, blocking};
use crate::control::handler::Handler;
use crate::control::peer::Peer;
use crate::control::problem::{Failure, Problem};
use crate::control::sink::{FileSink, JsonSink, LINES_MEDIA_TYPE, LinesSink};
use crate::control::types::{FileEntry, FilesQuery, FilesSummary, TimelineQuery};
use crate::control::writes::Writes;
use crate::telemetry::label::StatusClass;
use crate::telemetry::metric;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Extension, Router, body::Body};
use bytes::Bytes;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Every method and path, as in the OpenAPI document.
pub const ROUTES: [(&str, &str); 36] = [
    ("GET", "/v1/status"),
    ("GET", "/v1/tables"),
    ("GET", "/v1/tables/{table}"),
    ("GET", "/v1/tables/{table}/timeline"),
    ("GET", "/v1/tables/{table}/files"),
    ("POST", "/v1/refresh"),
    ("GET", "/v1/pin"),
    ("POST", "/v1/pin"),
    ("PATCH", "/v1/pin/{id}"),
    ("POST", "/v1/pin/{id}"),
    ("DELETE", "/v1/pin/{id}"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("POST", "/v1/tables"),
    ("POST", "/v1/tables/{table}/upsert"),
    ("POST", "/v1/tables/{table}/insert"),
    ("POST", "/v1/tables/{table}/bulk_insert"),
    ("POST", "/v1/tables/{table}/delete"),
    ("POST", "/v1/tables/{table}/delete_partition"),
    ("POST", "/v1/tables/{table}/insert_overwrite"),
    ("POST", "/v1/tables/{table}/insert_overwrite_table"),
    ("POST", "/v1/tables/{table}/clean"),
    ("POST", "/v1/tables/{table}/compact"),
    ("POST", "/v1/tables/{table}/archive"),
    ("POST", "/v1/tables/{table}/rollback"),
    ("POST", "/v1/tables/{table}/metadata/verify"),
    ("POST", "/v1/tables/{table}/metadata/rebuild"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("GET", "/v1/transactions"),
    ("POST", "/v1/transactions"),
    ("GET", "/v1/transactions/{id}"),
    ("DELETE", "/v1/transactions/{id}"),
    ("POST", "/v1/transactions/{id}/records"),
    ("POST", "/v1/transactions/{id}/commit"),
    ("POST", "/v1/transactions/{id}/abort"),
];

#[derive(Clone)]
pub(super) struct Shared {
    handler: Arc<dyn Handler>,
    writes: Option<Arc<dyn Writes>>,
    pub limits: Limits,
}

impl Shared {
    /// Whoever writes.
    pub fn writes(&self) -> Result<Arc<dyn Writes>, Failure> {
        self.writes.clone().ok_or_else(|| Problem::new("read_only", "this socket takes no writes").into())
    }
}

/// The router of admitted peers.
pub(super) fn router(handlers: Handlers, limits: Limits) -> Router {
    let Handlers { reads: handler, writes } = handlers;
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/tables", get(tables).post(super::writes::create))
        .route("/v1/tables/{table}", get(table))
        .route("/v1/tables/{table}/timeline", get(timeline))
        .route("/v1/tables/{table}/files", get(files))
        .route("/v1/refresh", post(refresh))
        .route("/v1/pin", get(pins).post(pin))
        .route("/v1/pin/{id}", patch(extend).post(extend).delete(unpin))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .merge(super::writes::router())
        .merge(super::transactions::router())
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Shared { handler, writes, limits })
        .layer(axum::middleware::from_fn(observe))
}

/// The router of refused peers: the same problem for everything.
pub(super) fn refusing(problem: Problem) -> Router {
    Router::new().fallback(move || {
        let mut response = problem.clone().into_response();
        response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        std::future::ready(response)
    })
}

/// Counts every answer; what changes something is logged with its peer.
async fn observe(peer: Extension<Peer>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let status = response.status();
    metric::CONTROL_REQUESTS.inc(match status.as_u16() {
        ..400 => StatusClass::Success,
        400..500 => StatusClass::Client,
        _ => StatusClass::Server,
    });
    let status = status.as_u16();
    if method.is_safe() {
        tracing::debug!(uid = peer.uid, pid = peer.pid, status, "control: {method} {path}");
    } else {
        tracing::info!(uid = peer.uid, pid = peer.pid, status, "control: {method} {path}");
    }
    response
}

async fn unknown_route(request: Request) -> Problem {
    Problem::new("unknown_route", format!("there is no {}", request.uri().path()))
        .hint("GET /openapi.json lists every path; a slash inside a table's name is written %2F")
}

async fn method_not_allowed(request: Request) -> Problem {
    Problem::new("method_not_allowed", format!("{} does not take {}", request.uri().path(), request.method()))
        .hint("GET /openapi.json lists every path and method")
}

pub(super) fn segment(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    path.map(|Path(text)| text).map_err(|e| Problem::new("invalid", format!("the path cannot be read: {e}")).into())
}

pub(super) fn parsed<T>(query: Result<Query<T>, QueryRejection>, hint: &str) -> Result<T, Failure> {
    query
        .map(|Query(query)| query)
        .map_err(|e| Problem::new("invalid", format!("the query cannot be read: {}", e.body_text())).hint(hint).into())
}

async fn status(State(shared): State<Shared>) -> Answer {
    json(StatusCode::OK, &blocking(move || Ok(shared.handler.status())).await?)
}

async fn tables(State(shared): State<Shared>) -> Answer {
    json(StatusCode::OK, &blocking(move || Ok(shared.handler.tables())).await?)
}

async fn table(State(shared): State<Shared>, path: Result<Path<String>, PathRejection>) -> Answer {
    let name = segment(path)?;
    json(StatusCode::OK, &blocking(move || shared.handler.table(&name)).await?)
}

async fn timeline(
    State(shared): State<Shared>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<TimelineQuery>, QueryRejection>,
) -> Answer {
    let name = segment(path)?;
    let query = parsed(query, "it takes counts=true")?;
    json(StatusCode::OK, &blocking(move || shared.handler.timeline(&name, query)).await?)
}

async fn refresh(State(shared): State<Shared>, request: Request) -> Answer {
    let request = body(request, shared.limits).await?;
    json(StatusCode::OK, &blocking(move || shared.handler.refresh(&request)).await?)
}

async fn pins(State(shared): State<Shared>) -> Answer {
    json(StatusCode::OK, &blocking(move || Ok(shared.handler.pins())).await?)
}

async fn pin(State(shared): State<Shared>, request: Request) -> Answer {
    let request = body(request, shared.limits).await?;
    json(StatusCode::CREATED, &blocking(move || shared.handler.pin(&request)).await?)
}

async fn extend(State(shared): State<Shared>, path: Result<Path<String>, PathRejection>, request: Request) -> Answer {
    let id = segment(path)?;
    let request = body(request, shared.limits).await?;
    json(StatusCode::OK, &blocking(move || shared.handler.extend(&id, &request)).await?)
}

async fn unpin(State(shared): State<Shared>, path: Result<Path<String>, PathRejection>) -> Answer {
    let id = segment(path)?;
    blocking(move || shared.handler.unpin(&id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn metrics(State(shared): State<Shared>) -> Answer {
    let export = blocking(move || Ok(shared.handler.metrics())).await?;
    Ok(text("text/plain; version=0.0.4; charset=utf-8", export))
}

async fn openapi() -> Response {
    text("application/json", crate::control::OPENAPI)
}

/// Streams a list of files. What is wrong with the question is a problem; once the list has begun, a failure cuts the
/// response short, which every HTTP client notices, because it is sent in chunks.
async fn files(
    State(shared): State<Shared>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<FilesQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Answer {
    let name = segment(path)?;
    let query = parsed(query, "it takes partition= and as_of=")?;
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let lines = accept.split(',').any(|one| one.split(';').next().unwrap_or_default().trim() == LINES_MEDIA_TYPE);

    let (begun, has_begun) = oneshot::channel();
    let (pieces, mut received) = mpsc::channel(4);
    let limits = shared.limits;
    let task = tokio::task::spawn_blocking(move || {
        let out = io::BufWriter::with_capacity(64 * 1024, Pieces { pieces: pieces.clone(), limits });
        let mut sink: Box<dyn FileSink> =
            if lines { Box::new(LinesSink::new(out)) } else { Box::new(JsonSink::new(out)) };
        let mut sink = Announcing { sink: &mut *sink, begun: Some(begun) };
        let result = shared.handler.files(&name, &query, &mut sink);
        if result.is_err() {
            let cut = io::Error::other("the list of files failed");
            let _ = tokio::runtime::Handle::current().block_on(pieces.send(Err(cut)));
        }
        result
    });
    if has_begun.await.is_err() {
        // It ended before it began: the question was wrong, or nothing could be read.
        super::joined(task).await?;
        return Err(Problem::new("internal", "the list of files never began").into());
    }
    let stream = futures::stream::poll_fn(move |context| received.poll_recv(context));
    let media_type = if lines { LINES_MEDIA_TYPE } else { "application/json" };
    Ok(text(media_type, Body::from_stream(stream)))
}

/// Tells the response's maker that the list has begun.
struct Announcing<'a> {
    sink: &'a mut dyn FileSink,
    begun: Option<oneshot::Sender<()>>,
}

impl FileSink for Announcing<'_> {
    fn begin(&mut self, table: &str, instant: Option<&str>) -> io::Result<()> {
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(());
        }
        self.sink.begin(table, instant)
    }

    fn file(&mut self, file: &FileEntry) -> io::Result<()> {
        self.sink.file(file)
    }

    fn end(&mut self, failed: &[Problem], summary: &FilesSummary) -> io::Result<()> {
        self.sink.end(failed, summary)
    }
}

/// The writing end of a streamed body. A client that does not read for too long makes it fail.
struct Pieces {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    limits: Limits,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let sent = tokio::time::timeout(self.limits.stall_time, self.pieces.send(Ok(piece)));
        match tokio::runtime::Handle::current().block_on(sent) {
            Ok(Ok(())) => Ok(bytes.len()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
