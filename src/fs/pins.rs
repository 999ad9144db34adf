//! Pins: promises to keep the files of a view for a while.
//!
//! A pin names a table and an instant and ends by itself unless it is extended. Whoever removes files asks [`Pins::held`]
//! first. Time is passed in, so that nothing here reads a clock.

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::telemetry::metric;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Most pins at a time: each is a promise that costs disk space.
pub const PINS_MAX: usize = 10_000;
/// Longest life of a pin from now.
pub const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest note kept, bytes.
const NOTE_MAX: usize = 1024;

/// Names a pin; never used twice in a daemon's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinId(pub u64);

/// One pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Its name.
    pub id: PinId,
    /// The table's path in the mount; empty where the mount is one table.
    pub table: String,
    /// The view's instant.
    pub instant: InstantTime,
    /// When it ends.
    pub expires: SystemTime,
    /// Who wants it and why, for people.
    pub note: String,
}

/// All pins of a daemon.
#[derive(Debug, Default)]
pub struct Pins(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pins: BTreeMap<PinId, Pin>,
    last: u64,
}

impl Pins {
    /// Pins a view from `now` for `ttl`. `Invalid` for a `ttl` of zero or over [`TTL_MAX`], `Unavailable` with too many pins.
    pub fn create(&self, table: &str, instant: InstantTime, ttl: Duration, note: &str, now: SystemTime) -> Result<Pin> {
        check_ttl(ttl)?;
        let mut state = self.state();
        state.expire(now);
        if state.pins.len() >= PINS_MAX {
            return Err(Error::new(crate::error::ErrorKind::Unavailable, format!("there are {PINS_MAX} pins already"))
                .with_hint("delete pins that are no longer needed, or let them expire"));
        }
        state.last += 1;
        let note: String = note.char_indices().take_while(|(at, _)| *at < NOTE_MAX).map(|(_, c)| c).collect();
        let pin = Pin { id: PinId(state.last), table: table.to_owned(), instant, expires: now + ttl, note };
        state.pins.insert(pin.id, pin.clone());
        state.count();
        Ok(pin)
    }

    /// Lets a pin end `ttl` from `now`, later or sooner than before. `NotFound` once it has ended.
    pub fn extend(&self, id: PinId, ttl: Duration, now: SystemTime) -> Result<Pin> {
        check_ttl(ttl)?;
        let mut state = self.state();
        state.expire(now);
        let pin = state.pins.get_mut(&id).ok_or_else(|| unknown(id))?;
        pin.expires = now + ttl;
        Ok(pin.clone())
    }

    /// Ends a pin. `NotFound` once it has ended.
    pub fn delete(&self, id: PinId, now: SystemTime) -> Result<Pin> {
        let mut state = self.state();
        state.expire(now);
        let pin = state.pins.remove(&id).ok_or_else(|| unknown(id))?;
        state.count();
        Ok(pin)
    }

    /// The pins that hold at `now`, oldest first.
    pub fn list(&self, now: SystemTime) -> Vec<Pin> {
        let mut state = self.state();
        state.expire(now);
        state.pins.values().cloned().collect()
    }

    /// The instants of a table that pins hold at `now`, sorted.
    pub fn held(&self, table: &str, now: SystemTime) -> Vec<InstantTime> {
        let mut held: Vec<_> = self.list(now).into_iter().filter(|p| p.table == table).map(|p| p.instant).collect();
        held.sort_unstable();
        held.dedup();
        held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one map operation, so a panic elsewhere leaves the state whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn expire(&mut self, now: SystemTime) {
        self.pins.retain(|_, pin| pin.expires > now);
        self.count();
    }

    fn count(&self) {
        metric::PINS.set((), i64::try_from(self.pins.len()).unwrap_or(i64::MAX));
    }
}

fn check_ttl(ttl: Duration) -> Result<()> {
    match ttl {
        Duration::ZERO => Err(Error::invalid("a pin must last longer than 0 s")),
        t if t > TTL_MAX => Err(Error::invalid(format!("a pin may last {} s at most", TTL_MAX.as_secs()))
            .with_hint("extend it from time to time instead")),
        _ => Ok(()),
    }
}

fn unknown(id: PinId) -> Error {
    Error::not_found(format!("there is no pin {}", id.0)).with_hint("it may have expired")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_pin_holds_until_it_ends() {
        let pins = Pins::default();
        let t1 = InstantTime::parse("001").unwrap();
        let t2 = InstantTime::parse("002").unwrap();
        let a = pins.create("t", t2, Duration::from_secs(10), "a", at(100)).unwrap();
        let b = pins.create("t", t1, Duration::from_secs(20), "b", at(100)).unwrap();
        pins.create("u", t1, Duration::from_secs(20), "", at(100)).unwrap();
        assert_ne!(a.id, b.id);
        assert_eq!(pins.held("t", at(105)), [t1, t2]);
        assert_eq!(pins.held("t", at(110)), [t1], "the end itself is not held");
        assert_eq!(pins.extend(a.id, Duration::from_secs(5), at(111)).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(pins.extend(b.id, Duration::from_secs(50), at(111)).unwrap().expires, at(161));
        assert_eq!(pins.held("t", at(150)), [t1]);
        pins.delete(b.id, at(150)).unwrap();
        assert_eq!(pins.delete(b.id, at(150)).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(pins.list(at(150)).is_empty());
    }

    #[test]
    fn life_number_and_notes_are_bounded() {
        let pins = Pins::default();
        let t = InstantTime::zero();
        for ttl in [Duration::ZERO, TTL_MAX + Duration::from_secs(1)] {
            assert_eq!(pins.create("t", t, ttl, "", at(0)).unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert!(pins.create("t", t, TTL_MAX, &"é".repeat(5000), at(0)).unwrap().note.len() <= NOTE_MAX + 1);
        for _ in 1..PINS_MAX {
            pins.create("t", t, Duration::from_secs(1), "", at(0)).unwrap();
        }
        assert_eq!(pins.create("t", t, TTL_MAX, "", at(0)).unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(pins.create("t", t, TTL_MAX, "", at(2)).is_ok(), "expired pins make room");
    }
}
