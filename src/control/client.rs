//! The command line's side of the control socket.
//!
//! Calls block, each on a connection of its own, and every wait is bounded. An answer that is a problem document becomes an
//! [`Error`] with the same kind, message and hint.

use super::problem::{Failure, Problem};
use super::sink::{FileSink, LINES_MEDIA_TYPE, read_lines};
use super::types::FilesQuery;
use crate::error::{Error, ErrorKind, Result};
use axum::body::Body;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Largest document accepted from a daemon, bytes; lists of files are streamed and have no such bound.
const DOCUMENT_MAX: usize = 256 * 1024 * 1024;
/// Records are sent in pieces of this size.
const PIECE: usize = 256 * 1024;
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A daemon's control socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    timeout: Duration,
}

impl Client {
    /// The socket at a path; nothing is sent yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Client { socket: socket.into(), timeout: Duration::from_secs(120) }
    }

    /// Bounds the wait for an answer, and for each piece of a streamed one.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Gets a JSON document.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(Method::GET, path, Bytes::new())
    }

    /// Posts a JSON document and gets one back.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|e| Error::internal(format!("request to {path}: {e}")))?;
        self.json(Method::POST, path, body.into())
    }

    /// Sends a request with headers of its own, without a body, and gets a JSON document and its status back.
    pub fn ask<T: DeserializeOwned>(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(u16, T)> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|e| Error::internal(e.to_string()))?;
        runtime()?.block_on(async {
            let response = self.exchange(method, path, headers, Body::empty(), None).await?;
            self.parsed(path, response).await
        })
    }

    /// Posts a JSON document with headers of its own, and gets a JSON document and its status back.
    pub fn order<T: DeserializeOwned>(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &impl Serialize,
    ) -> Result<(u16, T)> {
        let body = serde_json::to_vec(body).map_err(|e| Error::internal(format!("request to {path}: {e}")))?;
        let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
        runtime()?.block_on(async {
            let response = self.exchange(Method::POST, path, &headers, body.into(), None).await?;
            self.parsed(path, response).await
        })
    }

    /// Posts records, piece by piece as they are read, and gets a JSON document and its status back. `sent` counts bytes. A
    /// reader that fails breaks the request off, so that nothing is written.
    pub fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        records: Box<dyn Read + Send>,
        sent: Arc<AtomicU64>,
    ) -> Result<(u16, T)> {
        let (pieces, mut received) = mpsc::channel(4);
        let failed = Arc::new(Mutex::new(None));
        let reading = read_pieces(records, pieces, failed.clone());
        let stream = futures::stream::poll_fn(move |context| received.poll_recv(context)).inspect({
            let sent = sent.clone();
            move |piece: &io::Result<Bytes>| {
                let len = piece.as_ref().map_or(0, Bytes::len);
                sent.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        let body = Body::from_stream(stream);
        std::thread::Builder::new().name("records".to_owned()).spawn(reading).map_err(|e| Error::io("thread", e))?;
        let result = runtime()?.block_on(async {
            let response = self.exchange(Method::POST, path, headers, body, Some(sent)).await?;
            self.parsed(path, response).await
        });
        match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(Error::io("records", error)),
            None => result,
        }
    }

    async fn parsed<T: DeserializeOwned>(&self, path: &str, response: Response<Incoming>) -> Result<(u16, T)> {
        let status = response.status().as_u16();
        let bytes = self.collect(response).await?;
        let bytes = if bytes.is_empty() { Bytes::from_static(b"null") } else { bytes };
        Ok((status, serde_json::from_slice(&bytes).map_err(|_| self.garbled(path))?))
    }

    /// Gets a document as it is, such as `/metrics`.
    pub fn text(&self, path: &str) -> Result<String> {
        let runtime = runtime()?;
        let bytes = runtime.block_on(self.document(Method::GET, path, Bytes::new()))?;
        String::from_utf8(bytes.into()).map_err(|_| self.garbled(path))
    }

    /// Streams a list of files into `sink`.
    pub fn files(&self, table: &str, query: &FilesQuery, sink: &mut dyn FileSink) -> Result<(), Failure> {
        let runtime = runtime()?;
        let path = format!("/v1/tables/{}/files?{}", percent(table), query_text(query));
        let response = runtime.block_on(self.send(Method::GET, &path, Bytes::new()))?;
        let body = BodyReader { runtime, body: response.into_body(), piece: Bytes::new(), timeout: self.timeout };
        read_lines(body, sink)
    }

    fn json<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T> {
        let bytes = runtime()?.block_on(self.document(method, path, body))?;
        serde_json::from_slice(&bytes).map_err(|_| self.garbled(path))
    }

    async fn document(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let response = self.send(method, path, body).await?;
        self.collect(response).await
    }

    /// Sends a request; an answer that refuses it is an error already.
    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let json: &[(&str, &str)] = if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        self.exchange(method, path, json, body.into(), None).await
    }

    /// The same with headers and any body. Where the body counts what it has sent, the wait is from the last piece.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
        sent: Option<Arc<AtomicU64>>,
    ) -> Result<Response<Incoming>> {
        let mut sender = self.connect().await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "hudifs")
            .header(header::ACCEPT, format!("{LINES_MEDIA_TYPE}, application/json"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(body)
            .map_err(|e| Error::invalid(format!("{path:?} is not a request to the control socket: {e}")))?;
        let mut response = std::pin::pin!(sender.send_request(request));
        let mut seen = 0;
        let response = loop {
            match tokio::time::timeout(self.timeout, response.as_mut()).await {
                Ok(response) => break response.map_err(|e| self.broken(&e))?,
                Err(_) => match sent.as_ref().map(|sent| sent.load(Ordering::Relaxed)) {
                    Some(now) if now > seen => seen = now,
                    _ => return Err(self.silent(path)),
                },
            }
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = self.collect(response).await?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(problem.into_error()),
            Err(_) => {
                Err(Error::new(ErrorKind::Unavailable, format!("the control socket answered {path} with {status}")))
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Body>> {
        let unreachable = |e: io::Error| {
            Error::io(format!("control socket {}", self.socket.display()), e)
                .with_hint("is the daemon running? `hudifs mount` starts one")
        };
        let connecting = tokio::net::UnixStream::connect(&self.socket);
        let stream = tokio::time::timeout(CONNECT_TIME, connecting)
            .await
            .map_err(|_| self.silent("a connection"))?
            .map_err(unreachable)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(&e))?;
        tokio::spawn(async move {
            // The request's own result reports what went wrong.
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Bytes> {
        let limited = http_body_util::Limited::new(response.into_body(), DOCUMENT_MAX);
        let collected = tokio::time::timeout(self.timeout, limited.collect())
            .await
            .map_err(|_| self.silent("the rest of an answer"))?;
        let body = collected.map_err(|e| {
            Error::new(ErrorKind::Unavailable, format!("control socket {}: {e}", self.socket.display()))
        })?;
        Ok(body.to_bytes())
    }

    fn silent(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("control socket {}: {what} took too long", self.socket.display()))
            .with_hint("look into the daemon's log")
    }

    fn broken(&self, error: &hyper::Error) -> Error {
        Error::new(ErrorKind::Unavailable, format!("control socket {}: {error}", self.socket.display()))
    }

    fn garbled(&self, path: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("the answer of {} to {path} cannot be read", self.socket.display()))
            .with_hint("is the daemon another version of hudifs?")
    }
}

/// Reads records and passes them on; what goes wrong is left in `failed` and breaks the request off.
fn read_pieces(
    mut records: Box<dyn Read + Send>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    failed: Arc<Mutex<Option<io::Error>>>,
) -> impl FnOnce() + Send {
    move || {
        loop {
            let mut piece = BytesMut::zeroed(PIECE);
            let piece = match records.read(&mut piece) {
                Ok(0) => return,
                Ok(len) => piece.split_to(len).freeze(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // Left there before the request breaks off, whose own error says less.
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    let _ = pieces.blocking_send(Err(io::Error::other("the records cannot be read")));
                    return;
                }
            };
            // The daemon refused the request and reads no more.
            if pieces.blocking_send(Ok(piece)).is_err() {
                return;
            }
        }
    }
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| Error::io("runtime", e))
}

/// A response's body as a blocking reader.
struct BodyReader {
    runtime: Runtime,
    body: Incoming,
    piece: Bytes,
    timeout: Duration,
}

impl Read for BodyReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let next = self.runtime.block_on(async { tokio::time::timeout(self.timeout, self.body.frame()).await });
            match next {
                Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "the daemon fell silent")),
                Ok(None) => return Ok(0),
                Ok(Some(Err(error))) => return Err(io::Error::other(error)),
                Ok(Some(Ok(frame))) => self.piece = frame.into_data().unwrap_or_default(),
            }
        }
        let len = self.piece.len().min(into.len());
        self.piece.split_to(len).copy_to_slice(into.get_mut(..len).unwrap_or_default());
        Ok(len)
    }
}

/// Percent-encodes all but RFC 3986's unreserved characters, so that a name is one segment or one query value.
pub fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn query_text(query: &FilesQuery) -> String {
    let pairs = [("partition", &query.partition), ("as_of", &query.as_of)];
    let present =
        pairs.into_iter().filter_map(|(name, value)| value.as_ref().map(|v| format!("{name}={}", percent(v))));
    present.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_one_segment() {
        assert_eq!(percent("db/trips 2026%ü"), "db%2Ftrips%202026%25%C3%BC");
        let query = FilesQuery { partition: Some("a=b&c".to_owned()), as_of: Some("20260101".to_owned()) };
        assert_eq!(query_text(&query), "partition=a%3Db%26c&as_of=20260101");
        assert_eq!(query_text(&FilesQuery::default()), "");
    }

    #[test]
    fn a_missing_socket_says_so() {
        let error = Client::new("/nonexistent/s.sock").get::<serde_json::Value>("/v1/status").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.hint().unwrap().contains("mount"));
    }
}
