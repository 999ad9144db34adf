//! What nobody uses any more is let go.
//!
//! A view as of an instant lives as long as the kernel knows a name in it, and so does a directory that is no longer listed. The kernel
//! gives names back only when it is short of memory or is told to. So it is told, once nobody has asked for a while; what it
//! then forgets is freed. A name that somebody still holds (an open file, a working directory) stays usable.

use super::Invalidation;
use super::node::Place;
use super::state::{ViewState, lock};
use super::table_fs::{Mounted, TableFs};
use crate::storage::TablePath;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

impl TableFs {
    /// Frees what the kernel has forgotten, and tells what it should forget.
    pub(super) fn expire_idle(&self) -> Vec<Invalidation> {
        let tables = self.tables();
        let states = tables.values().filter_map(|m| if let Mounted::Serving(s) = m { Some(s) } else { None });
        states.map(|state| self.expire_table(state)).filter(|told| !told.is_empty()).collect()
    }

    /// Views as of an instant that are in memory.
    pub(super) fn moments_in_use(&self) -> u64 {
        let tables = self.tables();
        let states = tables.values().filter_map(|m| if let Mounted::Serving(s) = m { Some(s) } else { None });
        let in_use = |s: &Arc<ViewState>| lock(&s.table.moments).values().filter(|s| s.strong_count() > 0).count();
        states.map(|s| in_use(s) as u64).sum()
    }

    fn expire_table(&self, live: &Arc<ViewState>) -> Invalidation {
        let mut told = Invalidation { table: live.table.path.clone(), ..Invalidation::default() };
        let idle = self.idle_moments(live);
        if !idle.is_empty() {
            let nodes = lock(&self.nodes);
            let roots = nodes.places().filter_map(|(_, place)| match place {
                Place::Dir(dir) if idle.iter().any(|s| Arc::ptr_eq(s, &dir.part.state)) => Some(dir),
                _ => None,
            });
            told.entries.extend(roots.filter_map(|dir| Some((dir.parent, dir.moment.clone()?))));
        }
        self.expire_vanished(live, &mut told);
        told
    }

    /// Views as of an instant that nobody has used for a while; each is returned once in that time.
    fn idle_moments(&self, live: &Arc<ViewState>) -> Vec<Arc<ViewState>> {
        let moments: Vec<_> = lock(&live.table.moments).values().filter_map(Weak::upgrade).collect();
        moments.iter().for_each(|state| state.free_parts());
        let idle: Vec<_> = moments.into_iter().filter(|s| s.idle() >= self.options.idle_max).collect();
        idle.iter().for_each(|state| state.touch());
        lock(&live.table.moments).retain(|_, state| state.strong_count() > 0);
        idle
    }

    fn expire_vanished(&self, live: &Arc<ViewState>, told: &mut Invalidation) {
        if !live.has_vanished() {
            return;
        }
        let known: HashMap<TablePath, u64> = lock(&self.nodes)
            .places()
            .filter_map(|(_, place)| match place {
                Place::Dir(dir) if Arc::ptr_eq(&dir.part.state, live) => Some((dir.part.path.clone(), dir.parent)),
                _ => None,
            })
            .collect();
        for path in live.expire_vanished(self.options.idle_max, |path| known.contains_key(path)) {
            if let Some(parent) = known.get(&path) {
                told.entries.push((*parent, path.file_name().into()));
            }
        }
    }
}
