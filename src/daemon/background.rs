//! Going into the background: the parent stays until the first view is served, and tells what went wrong if it never is.
//!
//! The fork happens before any thread exists: a forked copy of a process with threads may hold locks that nobody will ever
//! release. The child reports once, as a line of JSON on a pipe; a pipe that closes without one means that it died.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Longest report accepted, bytes.
const REPORT_MAX: u64 = 64 * 1024;

/// Which of the two processes this is after [`fork`].
#[derive(Debug)]
pub enum Forked {
    /// The one that was started; the child has reported.
    Parent(Report),
    /// The daemon.
    Child(Reporter),
}

/// What became of the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// The first view is served.
    Ready {
        /// The daemon's process.
        pid: u32,
    },
    /// It could not start.
    Failed {
        /// [`ErrorKind::code`] of the failure.
        code: String,
        /// What went wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
        /// Where the log is, if it got so far.
        log: Option<String>,
        /// True if the table could not be found or opened, rather than the mount made.
        table: bool,
    },
}

/// The daemon's end of the pipe; in the foreground there is nobody to report to.
#[derive(Debug, Default)]
pub struct Reporter(Option<File>);

impl Reporter {
    /// Reports that the first view is served. False if whoever started the daemon has gone away meanwhile.
    pub fn ready(&mut self) -> bool {
        self.send(&Report::Ready { pid: std::process::id() })
    }

    /// Reports a failure.
    pub fn failed(&mut self, error: &Error, log: Option<String>, table: bool) {
        self.send(&Report::Failed {
            code: error.kind().code().to_owned(),
            message: error.message().to_owned(),
            hint: error.hint().map(str::to_owned),
            log,
            table,
        });
    }

    fn send(&mut self, report: &Report) -> bool {
        let Some(mut pipe) = self.0.take() else { return true };
        // Strings and numbers always serialize.
        let line = serde_json::to_vec(report).unwrap_or_default();
        pipe.write_all(&line).is_ok()
    }
}

/// Splits into the parent, which waits for the child's report, and the child, which has left the terminal.
pub fn fork() -> Result<Forked> {
    check_single_threaded()?;
    let (read, write) = pipe()?;
    // SAFETY: this process has one thread, so the child's copy is whole.
    match unsafe { libc::fork() } {
        -1 => Err(Error::io("fork", std::io::Error::last_os_error())),
        0 => {
            drop(read);
            leave_terminal()?;
            Ok(Forked::Child(Reporter(Some(File::from(write)))))
        }
        child => {
            drop(write);
            Ok(Forked::Parent(wait(File::from(read), child)))
        }
    }
}

fn check_single_threaded() -> Result<()> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads == 1 { Ok(()) } else { Err(Error::internal(format!("fork with {threads} threads running"))) }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors that the call writes.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::io("pipe", std::io::Error::last_os_error()));
    }
    // SAFETY: the call succeeded, so both are open and nobody else's.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// A session of its own, `/` as the directory (so that no filesystem is kept busy), and no terminal.
fn leave_terminal() -> Result<()> {
    // SAFETY: setsid has no preconditions; it fails only for a group leader, which a fresh child is not.
    unsafe { libc::setsid() };
    std::env::set_current_dir("/").map_err(|e| Error::io("/", e))?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(|e| Error::io("/dev/null", e))?;
    for fd in 0..3 {
        // SAFETY: both descriptors are open or about to be replaced; the standard ones are owned by nobody.
        if unsafe { libc::dup2(null.as_raw_fd(), fd) } < 0 {
            return Err(Error::io("/dev/null", std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// Waits for the report, which comes or whose absence shows when the child ends.
fn wait(pipe: File, child: libc::pid_t) -> Report {
    let mut text = Vec::new();
    let read = pipe.take(REPORT_MAX).read_to_end(&mut text);
    if let (Ok(_), Ok(report)) = (read, serde_json::from_slice(&text)) {
        return report;
    }
    let mut status = 0;
    // SAFETY: `status` is a place for the status; the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    let how = if libc::WIFSIGNALED(status) {
        format!("was killed by signal {}", libc::WTERMSIG(status))
    } else {
        format!("ended with status {}", libc::WEXITSTATUS(status))
    };
    Report::Failed {
        code: ErrorKind::Internal.code().to_owned(),
        message: format!("the daemon {how} before it was ready"),
        hint: Some("run it with --foreground to see more".to_owned()),
        log: None,
        table: false,
    }
}
