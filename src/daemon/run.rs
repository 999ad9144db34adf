//! A daemon's life: start, signals, orderly end.

use super::background::Reporter;
use super::service::{Service, ServiceOptions};
use super::watch::Watcher;
use super::writing::Writing;
use super::{DaemonSettings, socket_path, stale, systemd};
use crate::control::{peer, server};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Host, TableFs};
use crate::fuse::Session;
use crate::telemetry::event::{Event, EventCode};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

/// How long an unmount is tried while the mount is in use, before it is made lazily.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// How long running writes may take to end.
const WRITES_PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for one call to unmount.
const UNMOUNT_CALL_MAX: Duration = Duration::from_secs(10);

/// Longest wait for leases to be given back.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A daemon that serves.
pub struct Started {
    runtime: Runtime,
    signals: Signals,
    service: Arc<Service>,
    listener: UnixListener,
    socket: SocketFile,
    watcher: Watcher,
}

/// Why a daemon did not start, and where its log is if it got so far.
#[derive(Debug)]
pub struct StartFailure {
    /// What went wrong.
    pub error: Error,
    /// True if the table could not be found or opened.
    pub table: bool,
}

/// Starts, reports, serves until it is unmounted or told to end.
pub fn run(settings: &DaemonSettings, reporter: &mut Reporter) -> Result<(), StartFailure> {
    let other = |error| StartFailure { error, table: false };
    let log = crate::telemetry::log::init(&settings.log).map_err(other).inspect_err(|failure| {
        reporter.failed(&failure.error, None, false);
    })?;
    log_panics();
    raise_open_files();
    let started = start(settings, log.clone()).inspect_err(|failure| {
        // In the foreground the command itself tells it on the same standard error.
        if !settings.foreground || settings.log.directory.is_some() {
            tracing::error!(hint = failure.error.hint(), "{}", failure.error.message());
        }
        reporter.failed(&failure.error, Some(log), failure.table);
    })?;
    if !reporter.ready() {
        tracing::warn!("whoever started the daemon has gone; unmounting");
        return end(started).map_err(other);
    }
    started.serve().map_err(other)
}

fn start(settings: &DaemonSettings, log: String) -> Result<Started, StartFailure> {
    let other = |error| StartFailure { error, table: false };
    let begun = Instant::now();
    let socket = socket_path(&settings.directory);
    let options = ServiceOptions {
        storage: settings.storage.clone(),
        listing: settings.listing,
        as_of: settings.fs.as_of.clone(),
        memory_target_bytes: Some(settings.memory_target_bytes),
        read_only: settings.read_only,
        lease_life: settings.lease_life,
        socket: Some(socket.clone()),
        log: Some(log),
    };
    let service = if settings.warehouse {
        Service::warehouse(&settings.uri, options)
    } else {
        Service::table(&settings.uri, options)
    };
    let service = Arc::new(service.map_err(|error| StartFailure { error, table: true })?);
    let fs = tree(&service, settings).map_err(other)?;
    // Before anything exists that a signal's default action would leave behind.
    let runtime = runtime().map_err(other)?;
    let signals = runtime.block_on(async { Signals::new() }).map_err(other)?;
    let listener = peer::bind(&socket).map_err(other)?;
    let socket = SocketFile(socket);
    let session = mount(&fs, settings).map_err(other)?;
    service.set_mounted(fs, session).map_err(other)?;
    service.keep_leases();
    let watcher = Watcher::spawn(service.clone(), settings.watch, settings.poll);
    tracing::info!(
        uri = settings.uri,
        mount_point = %settings.directory.display(),
        tables = service.entries().len(),
        took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        "mounted"
    );
    Ok(Started { runtime, signals, service, listener, socket, watcher })
}

fn mount(fs: &Arc<TableFs>, settings: &DaemonSettings) -> Result<Session> {
    let mut options = settings.mount.clone();
    if stale::is_ours(&settings.directory, &options.source) {
        tracing::info!("replacing the dead mount of an earlier daemon");
        options.replace_stale = true;
    }
    Session::mount(fs.clone(), &settings.directory, &options)
}

fn tree(service: &Arc<Service>, settings: &DaemonSettings) -> Result<Arc<TableFs>> {
    let host: Arc<dyn Host> = service.clone();
    if settings.warehouse {
        let fs = TableFs::warehouse(host, settings.fs.clone());
        service.fill(&fs)?;
        return Ok(fs);
    }
    let only = service.entries().into_iter().next().and_then(|e| e.opened_table());
    let table = only.ok_or_else(|| Error::internal("the table is not open"))?;
    TableFs::single(table, host, settings.fs.clone())
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(32)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(|e| Error::io("runtime", e))
}

impl Started {
    /// Serves until the end.
    fn serve(self) -> Result<()> {
        let Started { runtime, signals, service, listener, socket, watcher } = self;
        let result = runtime.block_on(attend(service, signals, listener, socket, watcher));
        // Requests that still run are abandoned: the mount is gone.
        runtime.shutdown_timeout(Duration::from_millis(500));
        result
    }
}

/// Waits for the signals and for the end of the mount.
async fn attend(
    service: Arc<Service>,
    mut signals: Signals,
    listener: UnixListener,
    socket: SocketFile,
    watcher: Watcher,
) -> Result<()> {
    let (stop, stopped) = watch::channel(false);
    let writing = Writing::new(service.clone());
    let handlers = server::Handlers { reads: service.clone(), writes: Some(Arc::new(writing.clone())) };
    let served = tokio::spawn(server::serve(listener, handlers, server::Limits::default(), stopped));
    let mut ended = wait_for_unmount(service.clone())?;
    let mut result = Ok(());
    systemd::notify(&format!("READY=1\nSTATUS=serving {}", service.uri()));
    let by_signal = loop {
        tokio::select! {
            how = &mut ended => {
                result = how.unwrap_or_else(|_| Err(Error::internal("nobody waits for the mount's end")));
                break false;
            }
            name = signals.next() => match name {
                // Not awaited: a store that hangs must not keep a later signal from being heard.
                "SIGHUP" => drop(tokio::spawn(reload(service.clone()))),
                name => {
                    tracing::info!("{name}: unmounting");
                    break true;
                }
            },
        }
    };
    systemd::notify("STOPPING=1\nSTATUS=finishing writes");
    finish_writes(writing, &mut signals).await;
    systemd::notify("STATUS=unmounting");
    drop(watcher);
    if by_signal {
        unmount(&service, &mut signals, &mut ended).await;
    } else if result.is_ok() {
        tracing::info!("unmounted by somebody else");
    }
    release_leases(&service).await;
    let _ = stop.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), served).await;
    drop(socket);
    match &result {
        Ok(()) => tracing::info!("ended"),
        Err(error) => tracing::error!("the mount ended: {error}"),
    }
    result
}

/// Lets running writes end: those that still read their rows are rolled back, the others are committed. A second signal
/// ends the patience.
async fn finish_writes(writing: Writing, signals: &mut Signals) {
    let waited = tokio::task::spawn_blocking(move || writing.end(WRITES_PATIENCE));
    tokio::select! {
        ended = waited => {
            if !matches!(ended, Ok(true)) {
                tracing::warn!("a write has not ended; what it leaves is rolled back by the next writer");
            }
        }
        name = signals.next_ending() => tracing::warn!("{name} again: not waiting for writes"),
    }
}

/// Gives the leases back; a store that does not answer lets them end by themselves.
async fn release_leases(service: &Arc<Service>) {
    let service = service.clone();
    let release = tokio::task::spawn_blocking(move || service.release_leases());
    if tokio::time::timeout(RELEASE_MAX, release).await.is_err() {
        tracing::info!("the store does not answer: leases are left to end by themselves");
    }
}

async fn reload(service: Arc<Service>) {
    tracing::info!("SIGHUP: refreshing");
    systemd::notify_reloading();
    if tokio::task::spawn_blocking(move || service.refresh_all()).await.is_err() {
        Event::new(EventCode::Internal, "a refresh failed by a mistake of hudifs").record();
    }
    systemd::notify("READY=1");
}

/// Unmounts, with patience while the mount is in use; a second signal ends the patience.
async fn unmount(service: &Arc<Service>, signals: &mut Signals, ended: &mut oneshot::Receiver<Result<()>>) {
    let limit = Instant::now() + UNMOUNT_PATIENCE;
    loop {
        match try_unmount(service, false).await {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::Conflict && Instant::now() < limit => {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                    _ = &mut *ended => return,
                    _ = signals.next_ending() => {
                        let _ = try_unmount(service, true).await;
                        break;
                    }
                }
            }
            Err(error) => {
                tracing::warn!("{error}; unmounting lazily");
                if let Err(error) = try_unmount(service, true).await {
                    tracing::error!("{error}");
                }
                break;
            }
        }
    }
    // The session's threads end once the kernel has let go.
    let _ = tokio::time::timeout(Duration::from_secs(2), ended).await;
}

async fn try_unmount(service: &Arc<Service>, lazy: bool) -> Result<()> {
    let service = service.clone();
    let work = move || service.session().map_or(Ok(()), |session| session.unmount(lazy));
    match tokio::time::timeout(UNMOUNT_CALL_MAX, tokio::task::spawn_blocking(work)).await {
        Ok(joined) => joined.unwrap_or_else(|_| Err(Error::internal("unmounting failed by a mistake of hudifs"))),
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "unmounting takes too long")),
    }
}

/// A thread that waits for the mount's end, however it comes.
fn wait_for_unmount(service: Arc<Service>) -> Result<oneshot::Receiver<Result<()>>> {
    let (tell, ended) = oneshot::channel();
    let wait = move || {
        // Without a time limit, waiting ends with a result only.
        let _ = tell.send(service.session().and_then(|session| session.wait(None)).unwrap_or(Ok(())));
    };
    std::thread::Builder::new().name("unmounted".to_owned()).spawn(wait).map_err(|e| Error::io("thread", e))?;
    Ok(ended)
}

/// Unmounts a daemon that never served.
fn end(started: Started) -> Result<()> {
    drop(started.watcher);
    let Some(session) = started.service.session() else { return Ok(()) };
    session.unmount(false).or_else(|_| session.unmount(true))
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        let install = |kind| signal(kind).map_err(|e| Error::io("signal handler", e));
        Ok(Signals {
            hangup: install(SignalKind::hangup())?,
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
            quit: install(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.hangup.recv() => "SIGHUP",
            name = Self::ending(&mut self.terminate, &mut self.interrupt, &mut self.quit) => name,
        }
    }

    async fn next_ending(&mut self) -> &'static str {
        Self::ending(&mut self.terminate, &mut self.interrupt, &mut self.quit).await
    }

    async fn ending(terminate: &mut Signal, interrupt: &mut Signal, quit: &mut Signal) -> &'static str {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            _ = quit.recv() => "SIGQUIT",
        }
    }
}

/// The socket's file, removed at the end.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        remove_quietly(&self.0);
    }
}

fn remove_quietly(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!("{}: {error}", path.display());
    }
}

/// Every file that is being read takes a descriptor: use all that the user may have.
fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is filled. Raising up to the hard limit is always allowed; a refusal leaves the old limit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// A panic in a background process has no terminal to print to.
fn log_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        tracing::error!("{info}");
        default(info);
    }));
}
