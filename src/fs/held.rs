//! What readers hold of a table: what its lease tells to whoever removes files.
//!
//! Held are the view that the root shows, those that it showed a short while ago, pinned views, views as of an instant that somebody
//! looks at, and open files. What was listed before is not known once the kernel has it: it is kept by the cleaner's grace time.

use super::TableFs;
use super::state::lock;
use crate::format::instant::InstantTime;
use crate::storage::TablePath;
use std::time::{Duration, SystemTime};

/// How long a view that the root no longer shows is held: listings that were begun in it go on.
const REPLACED_AGE_MAX: Duration = Duration::from_secs(600);

/// What readers hold of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Instants whose views are in use, sorted.
    pub instants: Vec<InstantTime>,
    /// Stored paths of files that are open, sorted.
    pub files: Vec<TablePath>,
}

impl TableFs {
    /// What readers hold of a table; `None` while nobody has looked into it.
    pub fn held(&self, table: &TablePath) -> Option<Held> {
        let state = self.serving(table)?;
        let mut instants = self.pins().held(table.as_str(), SystemTime::now());
        let moments = lock(&state.table.moments);
        instants.extend(moments.iter().filter(|(_, s)| s.strong_count() > 0).map(|(i, _)| *i));
        drop(moments);
        let files = self.opens.stored(&state.table);
        let generation = state.generation();
        if generation.loaded_tree().is_none() && instants.is_empty() && files.is_empty() {
            return None;
        }
        instants.extend(generation.view.instant());
        instants.extend(state.replaced_within(REPLACED_AGE_MAX));
        instants.sort_unstable();
        instants.dedup();
        Some(Held { instants, files })
    }
}
