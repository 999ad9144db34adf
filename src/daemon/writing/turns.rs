//! Turns: work on one table is done one after the other, in the order in which it was taken.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The order of work on one table.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<u64>,
    last: u64,
}

/// A place in the line. Who drops it leaves the line, from its head or from any other place.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

impl Turns {
    /// A place behind all others.
    pub fn ticket(&self) -> Ticket {
        let mut line = self.0.line();
        line.last += 1;
        let number = line.last;
        line.waiting.push_back(number);
        Ticket { shared: self.0.clone(), number }
    }
}

impl Ticket {
    /// Waits until nobody is before it; the turn lasts until the ticket is dropped.
    pub fn wait(&self) {
        let mut line = self.shared.line();
        while line.waiting.front() != Some(&self.number) {
            line = self.shared.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.line().waiting.retain(|number| *number != self.number);
        self.shared.moved.notify_all();
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        // Numbers are pushed and removed whole.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_the_order_of_tickets_and_those_who_leave_hold_nobody_up() {
        let turns = Turns::default();
        let tickets: Vec<Ticket> = (0..20).map(|_| turns.ticket()).collect();
        let order = Arc::new(Mutex::new(Vec::new()));
        // Started in the opposite order; every third gives up without waiting.
        let threads: Vec<_> = tickets
            .into_iter()
            .enumerate()
            .rev()
            .map(|(at, ticket)| {
                let order = order.clone();
                std::thread::spawn(move || {
                    if at % 3 == 1 {
                        return;
                    }
                    ticket.wait();
                    order.lock().unwrap().push(at);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let wanted: Vec<usize> = (0..20).filter(|at| at % 3 != 1).collect();
        assert_eq!(*order.lock().unwrap(), wanted);
    }
}
