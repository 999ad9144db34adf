//! The server: connections, their limits, and the routes.
//!
//! Every connection has a peer whose uid was checked; every request has bounds on its head, its body and the time that it may
//! take to arrive; a reader that stops reading is dropped. Handlers run on threads that may block, and a panic in one is
//! that request's failure alone.

mod prefer;
mod receive;
mod respond;
mod routes;
mod transactions;
mod writes;

pub use routes::ROUTES;

use super::handler::Handler;
use super::peer::Peer;
use super::problem::{Failure, Problem};
use super::writes::Writes;
use crate::error::{Error, Result};
use crate::telemetry::event::{Event, EventCode};
use crate::telemetry::label::RefusedPeer;
use crate::telemetry::metric;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

/// Bounds on what clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections served at once.
    pub connections: usize,
    /// Head of a request, bytes.
    pub head_bytes: usize,
    /// Body of a request, bytes.
    pub body_bytes: usize,
    /// Time for a request's head to arrive, an idle connection's waiting included.
    pub head_time: Duration,
    /// Time for a request's body to arrive.
    pub body_time: Duration,
    /// Time that a client may take to accept the next piece of an answer, or to send the next piece of records.
    pub stall_time: Duration,
    /// Records in one request, bytes.
    pub record_bytes: u64,
    /// Records of one request that stay in memory, bytes; more go to a temporary file.
    pub record_memory_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 64,
            head_bytes: 32 * 1024,
            body_bytes: 64 * 1024,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(60),
            record_bytes: 256 << 30,
            record_memory_bytes: 1 << 20,
        }
    }
}

/// Who answers.
#[derive(Clone)]
pub struct Handlers {
    /// Questions.
    pub reads: Arc<dyn Handler>,
    /// Orders; without it nothing is written.
    pub writes: Option<Arc<dyn Writes>>,
}

/// Serves connections until `stop` turns true, then lets running requests finish for at most a second.
pub async fn serve(
    listener: std::os::unix::net::UnixListener,
    handlers: Handlers,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    let socket_error = |e| Error::io("control socket", e);
    listener.set_nonblocking(true).map_err(socket_error)?;
    let listener = UnixListener::from_std(listener).map_err(socket_error)?;
    let slots = Arc::new(Semaphore::new(limits.connections));
    // Refusals are answered too, but may not take the daemon's memory: beyond a few at once they are just closed.
    let refusals = Arc::new(Semaphore::new(8));
    let router = routes::router(handlers, limits);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors: give running connections time to end.
                    tracing::warn!("control socket: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = stopped(&mut stop) => break,
        };
        let (served_by, permit) = match admit(&stream, &slots) {
            Admission::Served(peer, permit) => (router.clone().layer(axum::Extension(peer)), permit),
            Admission::Refused(problem) => match Arc::clone(&refusals).try_acquire_owned() {
                Ok(permit) => (routes::refusing(*problem), permit),
                Err(_) => continue,
            },
        };
        let stop = stop.clone();
        tokio::spawn(async move {
            metric::CONTROL_CONNECTIONS.add((), 1);
            serve_connection(stream, served_by, limits, stop).await;
            metric::CONTROL_CONNECTIONS.add((), -1);
            drop(permit);
        });
    }
    // All permits are back once every connection has ended.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(Duration::from_secs(1), slots.acquire_many(all)).await;
    Ok(())
}

enum Admission {
    Served(Peer, tokio::sync::OwnedSemaphorePermit),
    Refused(Box<Problem>),
}

/// Checks who connects and whether there is room.
fn admit(stream: &UnixStream, slots: &Arc<Semaphore>) -> Admission {
    let peer = match stream.peer_cred() {
        Ok(cred) => Peer { uid: cred.uid(), pid: cred.pid() },
        Err(error) => {
            let problem = Problem::new("peer_refused", format!("the peer's user is not known: {error}"));
            return Admission::Refused(Box::new(problem));
        }
    };
    if !peer.is_allowed() {
        metric::CONTROL_REFUSED.inc(RefusedPeer::Uid);
        let message = format!("user {} may not use the control socket", peer.uid);
        let hint = "use the socket as the user who runs the daemon, or as root";
        Event::new(EventCode::PeerRefused, message.clone()).hint(hint).record();
        return Admission::Refused(Box::new(Problem::new("peer_refused", message).hint(hint)));
    }
    match Arc::clone(slots).try_acquire_owned() {
        Ok(permit) => Admission::Served(peer, permit),
        Err(_) => {
            metric::CONTROL_REFUSED.inc(RefusedPeer::Limit);
            let problem =
                Problem::new("too_many_connections", "the control socket serves as many connections as it may");
            Admission::Refused(Box::new(problem.hint("close idle connections, or try again")))
        }
    }
}

/// Waits until the server is to stop; the sender's end means the same.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopped| *stopped).await;
}

/// Runs one connection to its end, or asks it to end when the server stops.
async fn serve_connection(stream: UnixStream, router: Router, limits: Limits, mut stop: watch::Receiver<bool>) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("control connection: {error}");
    }
}

/// Runs `work` on a thread that may block; a panic in it becomes a problem.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    joined(tokio::task::spawn_blocking(work)).await
}

async fn joined<T>(
    task: impl Future<Output = Result<Result<T, Failure>, tokio::task::JoinError>>,
) -> Result<T, Failure> {
    match task.await {
        Ok(result) => result,
        Err(_) => {
            let message = "a request to the control socket failed by a mistake of hudifs";
            Event::new(EventCode::Internal, message).hint("report it with the log's lines around it").record();
            Err(Problem::new("internal", message).hint("the daemon's log says more").into())
        }
    }
}
