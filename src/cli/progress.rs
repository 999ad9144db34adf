//! How far a write is, on one line of a terminal that is drawn again and again; nothing at all anywhere else.

use super::output::size;
use crate::control::types::JobStatus;
use crate::write::Phase;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two drawings.
pub const TICK: Duration = Duration::from_millis(100);
/// Columns of the bar.
const WIDTH: u64 = 24;

/// The line.
#[derive(Debug)]
pub struct Bar {
    operation: String,
    started: Instant,
    /// Nothing is shown of what is done sooner.
    shown_after: Duration,
    terminal: bool,
    drawn: bool,
}

impl Bar {
    /// A line on standard error, if that is a terminal.
    pub fn new(operation: &str) -> Bar {
        let terminal = io::stderr().is_terminal();
        let shown_after = Duration::from_millis(300);
        Bar { operation: operation.to_owned(), started: Instant::now(), shown_after, terminal, drawn: false }
    }

    /// Records on their way to the daemon.
    pub fn sending(&mut self, sent: u64, total: Option<u64>) {
        let text = match total {
            Some(total) => format!("{} sending {}", bar(sent, total), size(sent)),
            None => format!("sending {}", size(sent)),
        };
        self.draw(&text);
    }

    /// A job on its way.
    pub fn job(&mut self, job: &JobStatus) {
        let bar = if job.files_planned > 0 { bar(job.files_done, job.files_planned) } else { String::new() };
        let files = match job.files_planned {
            0 => String::new(),
            planned => format!(", {} of {planned} files", job.files_done),
        };
        let rows = if job.rows > 0 { format!(", {} rows", thousands(job.rows)) } else { String::new() };
        self.draw(format!("{bar} {}{rows}{files}", phase(job.phase)).trim_start());
    }

    /// Runs `work` and shows how much it has sent meanwhile.
    pub fn while_sending<T: Send>(
        &mut self,
        sent: &AtomicU64,
        total: Option<u64>,
        work: impl FnOnce() -> T + Send,
    ) -> T {
        if !self.terminal {
            return work();
        }
        std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let result = work();
                drop(done);
                result
            });
            while is_done.recv_timeout(TICK) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                self.sending(sent.load(Ordering::Relaxed), total);
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// How long it took.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn draw(&mut self, text: &str) {
        if !self.terminal || self.elapsed() < self.shown_after {
            return;
        }
        self.drawn = true;
        // A terminal that is gone is no reason to stop.
        let _ = write!(io::stderr().lock(), "\r\x1b[K{}: {text} ({} s)", self.operation, self.elapsed().as_secs());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    let filled = usize::try_from(done.min(total).saturating_mul(WIDTH).checked_div(total).unwrap_or(0)).unwrap_or(0);
    let width = WIDTH as usize;
    format!("[{:<width$}]", "=".repeat(filled))
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for its turn",
        Phase::Reading => "reading",
        Phase::Indexing => "looking up keys",
        Phase::Writing => "writing",
        Phase::Committing => "committing",
        Phase::Services => "table services",
        Phase::Done => "done",
    }
}

/// `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12345, "12,345"), (123_456_789, "123,456,789")]
        {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn a_bar_never_overflows() {
        assert_eq!(bar(0, 0).len(), 26);
        assert_eq!(bar(5, 2), format!("[{}]", "=".repeat(24)));
        assert_eq!(bar(u64::MAX, u64::MAX).len(), 26);
    }
}
