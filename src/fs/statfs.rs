//! statfs: the bytes and files of the view.
//!
//! Both are sums over all partitions, so the first question starts a walk through them in the background, and waits for it only
//! briefly (`find` asks too). A commit changes only the sums of the partitions that it touched. A partition that cannot be counted
//! leaves the sums without it, and is tried again after a while.

use super::node::Place;
use super::part::Part;
use super::state::{Generation, ViewState, lock};
use super::table_fs::{Mounted, TableFs};
use super::{Fault, Wait};
use crate::storage::TablePath;
use crate::view::PartitionView;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Unit of the block counts.
pub const BLOCK: u64 = 4096;
/// Shown as free where the store does not say: some tools refuse to read from a full disk.
const FREE_BYTES: u64 = 1 << 50;
/// How long a partition that could not be counted is left alone.
const RETRY: Duration = Duration::from_secs(30);
/// How long the first question waits for the sums.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// What statfs shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes of the view's files.
    pub bytes: u64,
    /// The view's files.
    pub files: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Files that could be added.
    pub free_files: u64,
    /// File groups that have only log files, of which the view shows nothing.
    pub log_only_groups: u64,
    /// True once every partition is counted.
    pub complete: bool,
}

/// What a partition holds, or several.
#[derive(Clone, Copy, Default)]
struct Counts {
    files: u64,
    bytes: u64,
    log_only_groups: u64,
}

/// The sums of one table.
#[derive(Default)]
pub struct Totals {
    sums: Mutex<Sums>,
    done: Condvar,
}

#[derive(Default)]
struct Sums {
    /// What each partition that is counted holds.
    counted: HashMap<TablePath, Counts>,
    /// The generation that `counted` holds for.
    generation: u64,
    /// Since when a count has been under way.
    running: Option<Instant>,
    /// When a count ended without some partition.
    failed: Option<Instant>,
    complete: bool,
}

impl TableFs {
    /// Bytes and files of the view that an inode belongs to.
    pub fn statfs(&self, ino: u64) -> Result<StatFs, Fault> {
        let place = lock(&self.nodes).place(ino).map(|(place, _)| place);
        let state = match &place {
            Some(Place::Namespace(_) | Place::Failed | Place::Hudifs(None) | Place::Virtual(None, _)) => None,
            Some(Place::Socket) => None,
            Some(place) => place.table().and_then(|t| self.serving(&t.path)),
            None => lock(&self.nodes).file(ino).and_then(|f| self.serving(&f.part.state.table.path)),
        };
        let states = match state {
            Some(state) => vec![state],
            None => self
                .tables()
                .values()
                .filter_map(|m| if let Mounted::Serving(s) = m { Some(s.clone()) } else { None })
                .collect(),
        };
        let mut all = StatFs { complete: true, ..StatFs::default() };
        for state in &states {
            let one = self.table_totals(state);
            all.bytes = all.bytes.saturating_add(one.bytes);
            all.files = all.files.saturating_add(one.files);
            all.complete &= one.complete;
        }
        (all.free_bytes, all.free_files) = free(&states);
        Ok(all)
    }

    fn table_totals(&self, state: &Arc<ViewState>) -> StatFs {
        let totals = lock(&self.totals).entry(state.table.path.clone()).or_default().clone();
        let generation = state.generation();
        let mut sums = lock(&totals.sums);
        if sums.generation != generation.number {
            sums.generation = generation.number;
            sums.complete = false;
            sums.failed = None;
        }
        let waits = sums.failed.is_some_and(|at| at.elapsed() < RETRY);
        if !sums.complete && sums.running.is_none() && !waits {
            sums.running = Some(Instant::now());
            let (totals, state, generation) = (totals.clone(), state.clone(), generation.clone());
            self.workers.run_ahead(move || totals.count(&state, &generation));
        }
        // From the count's start on, and once only where one failed before: not each question waits.
        while let Some(started) = sums.running.filter(|_| sums.failed.is_none()) {
            let left = WAIT_MAX.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            sums = totals.done.wait_timeout(sums, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        sums.total()
    }

    /// The sums of a table as far as they are known, without asking the store; `None` if nobody has asked yet.
    pub fn totals(&self, table: &TablePath) -> Option<StatFs> {
        let totals = lock(&self.totals).get(table).cloned()?;
        let sums = lock(&totals.sums);
        Some(sums.total())
    }

    /// The sums of these partitions (all, without any) are to be taken again.
    pub(super) fn recount(
        &self,
        table: &TablePath,
        generation: u64,
        changed: Option<&std::collections::BTreeSet<TablePath>>,
    ) {
        let Some(totals) = lock(&self.totals).get(table).cloned() else { return };
        let mut sums = lock(&totals.sums);
        match changed {
            Some(changed) => sums.counted.retain(|path, _| !changed.contains(path)),
            None => sums.counted.clear(),
        }
        // A count that runs for an older generation adds nothing from here on.
        sums.generation = generation;
        sums.complete = false;
        sums.failed = None;
    }
}

impl Sums {
    fn total(&self) -> StatFs {
        let mut total = StatFs { complete: self.complete, ..StatFs::default() };
        for one in self.counted.values() {
            total.files += one.files;
            total.bytes = total.bytes.saturating_add(one.bytes);
            total.log_only_groups += one.log_only_groups;
        }
        total
    }
}

impl Totals {
    fn count(&self, state: &Arc<ViewState>, generation: &Arc<Generation>) {
        let complete = self.count_all(state, generation);
        let mut sums = lock(&self.sums);
        sums.running = None;
        // A commit in between makes the next question count what it changed.
        let current = sums.generation == generation.number;
        sums.complete = complete && current;
        sums.failed = (current && !complete).then(Instant::now);
        drop(sums);
        self.done.notify_all();
    }

    fn count_all(&self, state: &Arc<ViewState>, generation: &Arc<Generation>) -> bool {
        let Ok(tree) = generation.tree(&state.table, Wait::Yes) else { return false };
        let mut complete = true;
        for path in tree.partitions().iter() {
            if state.generation().number != generation.number {
                return false;
            }
            if lock(&self.sums).counted.contains_key(path) {
                continue;
            }
            match count_one(&state.part(path), generation) {
                Some(counts) => {
                    let mut sums = lock(&self.sums);
                    if sums.generation == generation.number {
                        sums.counted.insert(path.clone(), counts);
                    }
                }
                None => complete = false,
            }
        }
        let mut sums = lock(&self.sums);
        sums.counted.retain(|path, _| tree.is_partition(path));
        complete
    }
}

/// What a partition holds. While there is room its list is kept, since whoever asks for sums often walks the tree next.
fn count_one(part: &Arc<Part>, generation: &Arc<Generation>) -> Option<Counts> {
    let counts = |view: &PartitionView| Counts {
        files: view.listed_len() as u64,
        bytes: view.listed_bytes(),
        log_only_groups: u64::from(view.log_only_groups()),
    };
    if part.state.budget.is_full() && !part.is_loaded() {
        let view = generation.view.partition(&part.path).ok()?;
        return Some(counts(&view));
    }
    let files = part.files(generation, Wait::Yes).ok()?;
    Some(counts(&files.view))
}

fn free(states: &[Arc<ViewState>]) -> (u64, u64) {
    let root = TablePath::root();
    let local = states.iter().find_map(|s| s.table.source.storage().local_path(&root));
    let unknown = (FREE_BYTES, FREE_BYTES / BLOCK);
    let Some(local) = local.and_then(|p| std::ffi::CString::new(p.into_os_string().into_encoded_bytes()).ok()) else {
        return unknown;
    };
    // SAFETY: all-zero bytes are a valid statvfs.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte and `stat` is writable.
    match unsafe { libc::statvfs(local.as_ptr(), &mut stat) } {
        0 => ((stat.f_bavail.saturating_mul(stat.f_frsize)).max(BLOCK), stat.f_favail.max(1)),
        _ => unknown,
    }
}
