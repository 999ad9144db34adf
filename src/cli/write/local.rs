//! Writing in this process, without a daemon.

use super::{Order, failed};
use crate::cli::Stop;
use crate::cli::progress::{Bar, TICK};
use crate::control::job::{Job, Outcome};
use crate::control::problem::Failure;
use crate::control::writes::{CallOptions, ServiceCall, WriteCall, Writes};
use crate::daemon::{Service, Writing};
use crate::error::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// How long a commit may take to end after an interrupt.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a shell makes of a process that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// One commit.
pub fn write(service: &Arc<Service>, order: Order, bar: &mut Bar) -> Result<Outcome, Stop> {
    let writing = Writing::new(service.clone());
    let bodies = order.sources.into_iter().map(|source| source.into_body()).collect::<Result<_>>()?;
    let call = WriteCall {
        operation: order.operation,
        bodies,
        partitions: order.partitions,
        dry_run: order.dry_run,
        idempotency_key: order.idempotency_key,
        options: order.options,
    };
    watch(&writing, writing.write("", call), bar)
}

/// One table service.
pub fn service(
    service: &Arc<Service>,
    call: ServiceCall,
    options: CallOptions,
    bar: &mut Bar,
) -> Result<Outcome, Stop> {
    let writing = Writing::new(service.clone());
    watch(&writing, writing.service("", call, options), bar)
}

/// Waits for a job, and shows how far it is.
fn watch(writing: &Writing, job: Result<Arc<Job>, Failure>, bar: &mut Bar) -> Result<Outcome, Stop> {
    let job = job.map_err(|failure| failed(failure.into()))?;
    end_on_interrupt(writing.clone())?;
    loop {
        if let Some(result) = job.wait(TICK) {
            return result.map_err(|failure| failed(failure.into()));
        }
        bar.job(&job.status());
    }
}

/// An interrupt, or SIGTERM, breaks off what can be broken off; a second one ends the process.
fn end_on_interrupt(writing: Writing) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::io("runtime", e))?;
    let guard = runtime.enter();
    let install = |kind| signal(kind).map_err(|e| Error::io("signal handler", e));
    let (mut interrupt, mut terminate) = (install(SignalKind::interrupt())?, install(SignalKind::terminate())?);
    drop(guard);
    let wait = move || {
        let mut next = || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
        };
        next();
        std::thread::spawn(move || writing.end(PATIENCE));
        next();
        std::process::exit(INTERRUPTED);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(|e| Error::io("thread", e))?;
    Ok(())
}
