//! Threads of this process, one after the other for each table.

use super::{Held, LockProvider};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

/// One lock a table, as long as anybody has it open.
static LOCKS: LazyLock<Mutex<HashMap<String, Weak<State>>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct State {
    held: Mutex<bool>,
    freed: Condvar,
}

/// The lock of one table among threads.
#[derive(Debug)]
pub(super) struct ProcessLock(Arc<State>);

/// A thread's turn; over when dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<State>);

impl ProcessLock {
    /// That of the table at `uri`.
    pub(super) fn of(uri: &str) -> ProcessLock {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = locks.get(uri).and_then(Weak::upgrade) {
            return ProcessLock(state);
        }
        locks.retain(|_, state| state.strong_count() > 0);
        let state = Arc::new(State::default());
        locks.insert(uri.to_owned(), Arc::downgrade(&state));
        ProcessLock(state)
    }

    /// Waits for a turn; `None` if it takes too long.
    pub(super) fn lock(&self, wait: Duration) -> Option<Turn> {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.freed.wait_timeout_while(held, wait, |held| *held);
        let (mut held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() && *held {
            return None;
        }
        *held = true;
        Some(Turn(self.0.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.freed.notify_one();
    }
}

/// Nothing beyond the turn that every lock has.
#[derive(Debug)]
pub(super) struct InProcess;

impl LockProvider for InProcess {
    fn try_lock(&self) -> Result<std::result::Result<Box<dyn Held>, String>> {
        Ok(Ok(Box::new(InProcess)))
    }

    fn name(&self) -> &'static str {
        "in process"
    }
}

impl Held for InProcess {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}
