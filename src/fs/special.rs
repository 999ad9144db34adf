//! The places that are not partitions: a warehouse's directories, `.hudifs`, and the views as of a moment.

use super::ino::{Number, Seed};
use super::lookup::{Lookup, NO_COMMIT_MS, stamp};
use super::node::{Dir, Place, Scope};
use super::state::{Table, ViewState, lock};
use super::table_fs::{Mounted, TableFs};
use super::{Attr, Fault, Kind, View, VirtualFile, Wait};
use crate::error::ErrorKind;
use crate::format::instant::InstantTime;
use crate::storage::TablePath;
use crate::telemetry::EventCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A name in such a place.
pub(super) struct Named {
    pub kind: Kind,
    pub number: Number,
    pub place: Place,
}

/// The names in such a place.
pub(super) type Names = BTreeMap<String, Named>;

impl TableFs {
    /// Attributes of anything but a data file.
    pub(super) fn place_attr(&self, ino: u64, place: &Place, wait: Wait) -> Result<Attr, Fault> {
        let newest_ms = |state: &ViewState| {
            let view = &state.generation().view;
            stamp(&**view, view.instant())
        };
        let attr = match place {
            // The root can be stat'ed before the partitions are known.
            Place::Dir(dir) if dir.part.path.is_root() => self.dir_attr_with(ino, newest_ms(&dir.part.state), false),
            Place::Dir(dir) => self.child_dir_attr(&dir.part, &dir.part.state.generation(), wait)?,
            Place::Namespace(_) | Place::Failed | Place::Hudifs(None) => self.dir_attr_with(ino, NO_COMMIT_MS, false),
            Place::Hudifs(Some(state)) | Place::Moments(state) => self.dir_attr_with(ino, newest_ms(state), false),
            Place::Moment(_) => Attr { cacheable: false, ..self.dir_attr_with(ino, NO_COMMIT_MS, false) },
            Place::Virtual(scope, file) => self.virtual_attr(scope, *file, wait)?,
            Place::Socket => {
                let target = self.host.control_socket().ok_or(Fault::NOT_FOUND)?;
                link_attr(target.as_os_str().len(), NO_COMMIT_MS)
            }
            Place::Latest(state) => {
                let instant = state.generation().view.instant().ok_or(Fault::NOT_FOUND)?;
                link_attr(instant.as_str().len(), newest_ms(state))
            }
        };
        Ok(Attr { ino, ..attr })
    }

    fn virtual_attr(&self, scope: &Scope, file: VirtualFile, wait: Wait) -> Result<Attr, Fault> {
        if wait == Wait::No {
            return Err(Fault::WouldBlock);
        }
        let size = self.content(scope, file).len() as u64;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mtime_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let mode = self.options.file_mode & 0o444;
        Ok(Attr { ino: 0, kind: Kind::File, size, mtime_ms, nlink: 1, mode, cacheable: false })
    }

    /// Names in a directory of a warehouse.
    pub(super) fn names_in_namespace(&self, ino: u64, path: &TablePath) -> Names {
        let prefix = if path.is_root() { String::new() } else { format!("{path}/") };
        let tables = self.tables();
        let below = tables.keys().filter_map(|t| t.as_str().strip_prefix(&prefix)?.split('/').next());
        let mut names = Names::new();
        for name in below {
            if !names.contains_key(name)
                && let Ok(child) = path.join(name)
            {
                names.insert(name.to_owned(), self.named_in_namespace(ino, child));
            }
        }
        names
    }

    fn named_in_namespace(&self, parent: u64, path: TablePath) -> Named {
        let seed = Seed::new("mount").child("namespace");
        let mounted = self.tables().get(&path).cloned();
        let (number, place) = match mounted {
            Some(Mounted::Serving(state)) => {
                let number = state.table.seed.child("d").number("");
                let ino = lock(&self.nodes).peek(number);
                (number, Place::Dir(self.root_dir(&state, ino, parent)))
            }
            Some(Mounted::Failed) => (seed.child("failed").number(path.as_str()), Place::Failed),
            None => (seed.number(path.as_str()), Place::Namespace(path)),
        };
        Named { kind: Kind::Dir, number, place }
    }

    pub(super) fn lookup_in_namespace(&self, parent: u64, path: &TablePath, name: &str) -> Result<Lookup, Fault> {
        let named = match name {
            ".hudifs" if path.is_root() => {
                let number = Seed::new("mount").number(name);
                Named { kind: Kind::Dir, number, place: Place::Hudifs(None) }
            }
            _ => match self.names_in_namespace(parent, path).remove(name) {
                Some(named) => named,
                // Tables come and go without the kernel being told of each name.
                None => return Ok(Lookup::Absent { keep: false }),
            },
        };
        self.found_place(parent, named, Wait::No)
    }

    /// Names in a `.hudifs`.
    pub(super) fn names_in_hudifs(&self, scope: &Scope) -> Names {
        let seed = scope.as_ref().map_or_else(|| Seed::new("mount"), |s| s.table.seed).child("v");
        let mut names = Names::new();
        let mut add = |name: &str, kind, place| {
            names.insert(name.to_owned(), Named { kind, number: seed.number(name), place });
        };
        add("status.json", Kind::File, Place::Virtual(scope.clone(), VirtualFile::Status));
        add("metrics", Kind::File, Place::Virtual(scope.clone(), VirtualFile::Metrics));
        if self.host.control_socket().is_some() {
            add("control.sock", Kind::Link, Place::Socket);
        }
        if let Some(state) = scope {
            add("timeline.json", Kind::File, Place::Virtual(scope.clone(), VirtualFile::Timeline));
            add("read_optimized", Kind::Dir, Place::Moments(state.clone()));
        }
        names
    }

    pub(super) fn lookup_in_hudifs(&self, parent: u64, scope: &Scope, name: &str, wait: Wait) -> Result<Lookup, Fault> {
        match self.names_in_hudifs(scope).remove(name) {
            Some(named) => self.found_place(parent, named, wait),
            // The socket may appear later.
            None => Ok(Lookup::Absent { keep: false }),
        }
    }

    fn found_place(&self, parent: u64, named: Named, wait: Wait) -> Result<Lookup, Fault> {
        // Before the claim: what would block is asked again.
        let attr = self.place_attr(0, &named.place, wait)?;
        let (ino, _) = lock(&self.nodes).claim_place(named.number, parent, |_| named.place);
        Ok(Lookup::keep(Attr { ino, ..attr }))
    }

    pub(super) fn lookup_moment(
        &self,
        parent: u64,
        live: &Arc<ViewState>,
        name: &str,
        wait: Wait,
    ) -> Result<Lookup, Fault> {
        if name == "latest" {
            return match live.generation().view.instant() {
                Some(_) => self.found_place(parent, latest(live), wait),
                None => Ok(Lookup::Absent { keep: false }),
            };
        }
        if wait == Wait::No {
            return Err(Fault::WouldBlock);
        }
        let table = &live.table;
        let view = match table.source.as_of(name) {
            Ok(view) => view,
            Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::NotFound) => {
                return Ok(Lookup::Absent { keep: false });
            }
            Err(error) => {
                table.event(EventCode::ViewFailed, &error).record();
                return Err(Fault::IO);
            }
        };
        let Some(instant) = view.instant() else { return Ok(Lookup::Absent { keep: false }) };
        let state = self.moment_state(table, instant, view);
        let seed = moment_seed(table, name, &instant);
        let part = state.part(&TablePath::root());
        let (ino, place) = lock(&self.nodes).claim_place(seed.number(""), parent, |ino| {
            Place::Dir(Arc::new(Dir {
                ino,
                parent,
                seed,
                part,
                moment: Some(name.into()),
                absent: Default::default(),
                read_ms: AtomicU64::new(0),
            }))
        });
        let attr = self.place_attr(ino, &place, wait)?;
        // A moment between commits may mean another commit one day.
        Ok(Lookup::Found { attr, keep: name == instant.as_str() })
    }
}

impl TableFs {
    /// The state of a view as of an instant, one for all who look at it.
    fn moment_state(&self, table: &Arc<Table>, instant: InstantTime, view: Arc<dyn View>) -> Arc<ViewState> {
        let mut moments = lock(&table.moments);
        moments.retain(|_, s| s.strong_count() > 0);
        if let Some(state) = moments.get(&instant).and_then(std::sync::Weak::upgrade) {
            return state;
        }
        let state = ViewState::new(table.clone(), view, Some(instant), self.budget.clone());
        moments.insert(instant, Arc::downgrade(&state));
        drop(moments);
        self.host.view_opened(table.path.as_str());
        state
    }
}

/// Names in a `read_optimized`. Views are not made for a listing.
pub(super) fn names_of_moments(live: &Arc<ViewState>) -> Names {
    let view = &live.generation().view;
    let mut names: Names = view
        .instants()
        .iter()
        .map(|i| {
            let number = moment_seed(&live.table, i.as_str(), i).number("");
            (i.as_str().to_owned(), Named { kind: Kind::Dir, number, place: Place::Moment(live.clone()) })
        })
        .collect();
    if view.instant().is_some() {
        names.insert("latest".to_owned(), latest(live));
    }
    names
}

/// A moment that comes to mean another commit gets another directory.
fn moment_seed(table: &Table, name: &str, instant: &InstantTime) -> Seed {
    table.seed.child("d").child(name).child(instant.as_str())
}

fn latest(live: &Arc<ViewState>) -> Named {
    let number = live.table.seed.child("v").child("read_optimized").number("latest");
    Named { kind: Kind::Link, number, place: Place::Latest(live.clone()) }
}

fn link_attr(len: usize, mtime_ms: i64) -> Attr {
    Attr { ino: 0, kind: Kind::Link, size: len as u64, mtime_ms, nlink: 1, mode: 0o777, cacheable: true }
}
