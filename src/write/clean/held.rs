//! What readers hold: leases of daemons on the table, and files that this process serves.

use super::super::options::Protected;
use crate::error::Result;
use crate::format::instant::InstantTime;
use crate::storage::{Storage, TablePath};
use crate::table::lease;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// What may not be removed, whatever the policy says.
#[derive(Debug, Default)]
pub struct Held {
    /// Instants whose views are in use.
    pub instants: BTreeSet<InstantTime>,
    files: BTreeSet<TablePath>,
    protected: Option<Protected>,
    /// Why nothing at all may be removed.
    pub everything: Option<String>,
}

impl Held {
    /// By the table's leases as they are now, and by `protected`.
    pub fn load(storage: &dyn Storage, protected: Option<&Protected>) -> Result<Held> {
        let leases = lease::read(storage, SystemTime::now())?;
        Ok(Held {
            instants: leases.instants(),
            files: leases.files().into_iter().cloned().collect(),
            protected: protected.cloned(),
            everything: leases.holds_everything(),
        })
    }

    /// True if somebody reads the file, by its path in the table.
    pub fn holds(&self, file: &TablePath) -> bool {
        self.everything.is_some() || self.files.contains(file) || self.protected.as_ref().is_some_and(|p| (p.0)(file))
    }
}
