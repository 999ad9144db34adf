//! The table of metrics, and how they are kept and exported.
//!
//! Every metric is a `static` below; [`ALL`] is the table that `docs/observability.md` repeats (a test compares them).
//! Updates are single relaxed atomic additions. Names follow Prometheus: base units, `_total` on counters.

use super::event::EventCode;
use super::label::*;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a metric's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things or occurrences.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// The unit's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Def {
    /// Exported name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Label names.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

/// A metric of any kind, for export.
pub trait Metric: Sync {
    /// Its row of the table.
    fn def(&self) -> Def;
    /// Appends its samples in the Prometheus text format.
    fn samples(&self, out: &mut String);
}

/// A number that only grows, one for each label combination.
pub struct Counter<L: LabelSet, const N: usize> {
    def: Def,
    cells: [AtomicU64; N],
    labels: std::marker::PhantomData<fn(L)>,
}

/// A number that goes up and down, one for each label combination.
pub struct Gauge<L: LabelSet, const N: usize> {
    def: Def,
    cells: [AtomicI64; N],
    labels: std::marker::PhantomData<fn(L)>,
}

/// Upper bounds of the buckets of every histogram, microseconds: 10 µs to 30 s.
const BOUNDS_US: [u64; 14] =
    [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];

struct Buckets {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A distribution of durations, one for each label combination.
pub struct Histogram<L: LabelSet, const N: usize> {
    def: Def,
    cells: [Buckets; N],
    labels: std::marker::PhantomData<fn(L)>,
}

impl<L: LabelSet, const N: usize> Counter<L, N> {
    /// Adds one.
    pub fn inc(&self, labels: L) {
        self.add(labels, 1);
    }

    /// Adds `n`.
    pub fn add(&self, labels: L, n: u64) {
        if let Some(cell) = self.cells.get(labels.index()) {
            cell.fetch_add(n, Relaxed);
        }
    }

    /// The present value.
    pub fn get(&self, labels: L) -> u64 {
        self.cells.get(labels.index()).map_or(0, |c| c.load(Relaxed))
    }
}

impl<L: LabelSet, const N: usize> Gauge<L, N> {
    /// Sets the value.
    pub fn set(&self, labels: L, value: i64) {
        if let Some(cell) = self.cells.get(labels.index()) {
            cell.store(value, Relaxed);
        }
    }

    /// Adds `n`, which may be negative.
    pub fn add(&self, labels: L, n: i64) {
        if let Some(cell) = self.cells.get(labels.index()) {
            cell.fetch_add(n, Relaxed);
        }
    }

    /// Raises the value to `value` if it is lower.
    pub fn raise(&self, labels: L, value: i64) {
        if let Some(cell) = self.cells.get(labels.index()) {
            cell.fetch_max(value, Relaxed);
        }
    }

    /// The present value.
    pub fn get(&self, labels: L) -> i64 {
        self.cells.get(labels.index()).map_or(0, |c| c.load(Relaxed))
    }
}

impl<L: LabelSet, const N: usize> Histogram<L, N> {
    /// Records one duration.
    pub fn observe(&self, labels: L, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let Some(cell) = self.cells.get(labels.index()) else { return };
        if let Some(count) = cell.counts.get(BOUNDS_US.partition_point(|b| *b < us)) {
            count.fetch_add(1, Relaxed);
        }
        cell.sum_us.fetch_add(us, Relaxed);
    }

    /// Records the time since `start`.
    pub fn observe_since(&self, labels: L, start: Instant) {
        self.observe(labels, start.elapsed());
    }

    /// How many durations have been recorded.
    pub fn count(&self, labels: L) -> u64 {
        self.cells.get(labels.index()).map_or(0, |c| c.counts.iter().map(|n| n.load(Relaxed)).sum())
    }
}

/// `{a="x",b="y"}`, with `extra` as one more pair; empty without labels. Values come from closed enums: no escaping.
fn label_text<L: LabelSet>(index: usize, extra: Option<(&str, &str)>) -> String {
    let values = L::values(index);
    let pairs = L::NAMES.iter().copied().zip(values).chain(extra);
    let body: Vec<String> = pairs.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    if body.is_empty() { String::new() } else { format!("{{{}}}", body.join(",")) }
}

fn sample(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{name}{labels} {value}");
}

impl<L: LabelSet, const N: usize> Metric for Counter<L, N> {
    fn def(&self) -> Def {
        self.def
    }
    fn samples(&self, out: &mut String) {
        for (index, cell) in self.cells.iter().enumerate() {
            sample(out, self.def.name, &label_text::<L>(index, None), cell.load(Relaxed));
        }
    }
}

impl<L: LabelSet, const N: usize> Metric for Gauge<L, N> {
    fn def(&self) -> Def {
        self.def
    }
    fn samples(&self, out: &mut String) {
        for (index, cell) in self.cells.iter().enumerate() {
            sample(out, self.def.name, &label_text::<L>(index, None), cell.load(Relaxed));
        }
    }
}

impl<L: LabelSet, const N: usize> Metric for Histogram<L, N> {
    fn def(&self) -> Def {
        self.def
    }
    fn samples(&self, out: &mut String) {
        for (index, cell) in self.cells.iter().enumerate() {
            let mut total = 0;
            let bounds = BOUNDS_US.iter().map(|us| format!("{}", *us as f64 / 1e6)).chain(["+Inf".to_owned()]);
            for (count, bound) in cell.counts.iter().zip(bounds) {
                total += count.load(Relaxed);
                let labels = label_text::<L>(index, Some(("le", &bound)));
                sample(out, &format!("{}_bucket", self.def.name), &labels, total);
            }
            let labels = label_text::<L>(index, None);
            let sum = cell.sum_us.load(Relaxed) as f64 / 1e6;
            sample(out, &format!("{}_sum", self.def.name), &labels, sum);
            sample(out, &format!("{}_count", self.def.name), &labels, total);
        }
    }
}

macro_rules! metrics {
    ($($kind:ident $ident:ident<$labels:ty> = $name:literal, $unit:ident, $help:literal;)+) => {
        $(
            #[doc = $help]
            pub static $ident: $kind<$labels, { <$labels as LabelSet>::COUNT }> = $kind {
                def: Def {
                    name: $name,
                    kind: metrics!(@kind $kind),
                    unit: Unit::$unit,
                    labels: <$labels as LabelSet>::NAMES,
                    help: $help,
                },
                cells: [const { metrics!(@cell $kind) }; <$labels as LabelSet>::COUNT],
                labels: std::marker::PhantomData,
            };
        )+
        /// Every metric, in the order of the table.
        pub static ALL: &[&dyn Metric] = &[$(&$ident),+];
    };
    (@kind Counter) => { "counter" };
    (@kind Gauge) => { "gauge" };
    (@kind Histogram) => { "histogram" };
    (@cell Counter) => { AtomicU64::new(0) };
    (@cell Gauge) => { AtomicI64::new(0) };
    (@cell Histogram) => {
        Buckets { counts: [const { AtomicU64::new(0) }; BOUNDS_US.len() + 1], sum_us: AtomicU64::new(0) }
    };
}

metrics! {
    Counter FUSE_REQUESTS<FuseOp> = "hudifs_fuse_requests_total", Count, "FUSE requests answered.";
    Counter FUSE_ERRORS<(FuseOp, Errno)> = "hudifs_fuse_errors_total", Count, "FUSE requests answered with an errno.";
    Histogram FUSE_DURATION<FuseOp> = "hudifs_fuse_request_duration_seconds", Seconds, "Time from a FUSE request's arrival to its answer.";
    Counter FUSE_READ_BYTES<()> = "hudifs_fuse_read_bytes_total", Bytes, "Bytes returned by the daemon to FUSE reads; passthrough reads do not pass here.";
    Counter FUSE_OPENS<OpenMode> = "hudifs_fuse_opens_total", Count, "Files opened, by how they are served.";
    Gauge OPEN_FILES<()> = "hudifs_open_files", Count, "Files that are open now.";
    Gauge INODES<()> = "hudifs_inodes", Count, "Inodes that the kernel knows.";
    Counter NOTIFICATIONS<Notification> = "hudifs_kernel_notifications_total", Count, "Invalidations sent to the kernel.";
    Counter STORAGE_REQUESTS<StorageOp> = "hudifs_storage_requests_total", Count, "Calls to the store.";
    Counter STORAGE_ERRORS<StorageOp> = "hudifs_storage_errors_total", Count, "Calls to the store that failed after all retries; answers such as a missing object are none.";
    Counter STORAGE_RETRIES<StorageOp> = "hudifs_storage_retries_total", Count, "Calls to the store that were tried again.";
    Counter STORAGE_READ_BYTES<()> = "hudifs_storage_read_bytes_total", Bytes, "Bytes read from the store by the daemon.";
    Histogram STORAGE_DURATION<StorageOp> = "hudifs_storage_request_duration_seconds", Seconds, "Time of a call to the store, retries included.";
    Counter CACHE_REQUESTS<(Cache, CacheResult)> = "hudifs_cache_requests_total", Count, "Questions to a cache, by its answer.";
    Counter CACHE_EVICTIONS<Cache> = "hudifs_cache_evictions_total", Count, "Entries dropped from a cache to make room.";
    Gauge CACHE_BYTES<Cache> = "hudifs_cache_bytes", Bytes, "Bytes that a cache holds.";
    Histogram PARTITION_LOAD<()> = "hudifs_partition_load_duration_seconds", Seconds, "Time to load one partition.";
    Counter METADATA_FALLBACKS<()> = "hudifs_metadata_table_fallbacks_total", Count, "Times that an unusable metadata table made hudifs list storage instead.";
    Counter REFRESHES<RefreshResult> = "hudifs_refreshes_total", Count, "Checks for new commits, by result.";
    Histogram REFRESH_DURATION<()> = "hudifs_refresh_duration_seconds", Seconds, "Time to check for new commits and publish them.";
    Gauge GENERATION<()> = "hudifs_generation", Count, "Generations published since the start, over all tables.";
    Gauge NEWEST_COMMIT<()> = "hudifs_newest_commit_timestamp_seconds", Seconds, "Unix time at which the newest commit seen in any table became visible here.";
    Gauge TABLES<TableState> = "hudifs_tables", Count, "Tables of the mount, by state.";
    Gauge PINS<()> = "hudifs_pins", Count, "Pins that hold a view.";
    Counter CONTROL_REQUESTS<StatusClass> = "hudifs_control_requests_total", Count, "Requests to the control socket, by class of status.";
    Gauge CONTROL_CONNECTIONS<()> = "hudifs_control_connections", Count, "Open connections to the control socket.";
    Counter CONTROL_REFUSED<RefusedPeer> = "hudifs_control_refused_total", Count, "Connections to the control socket that were refused.";
    Counter WRITES<(WriteOperation, WriteResult)> = "hudifs_writes_total", Count, "Writes and table services asked for through this process, by result.";
    Histogram WRITE_DURATION<WriteOperation> = "hudifs_write_duration_seconds", Seconds, "Time from taking a write to its end, waiting for its turn included.";
    Counter WRITE_ROWS<()> = "hudifs_write_rows_total", Count, "Rows taken in by writes that were committed.";
    Gauge WRITES_RUNNING<()> = "hudifs_writes_running", Count, "Writes and table services that run or wait for their turn.";
    Gauge TRANSACTIONS<()> = "hudifs_transactions", Count, "Open transactions.";
    Counter EVENTS<EventCode> = "hudifs_events_total", Count, "Events recorded, repeated ones included.";
    Gauge RESIDENT_BYTES<()> = "hudifs_resident_memory_bytes", Bytes, "Resident memory of the daemon.";
    Gauge OPEN_FDS<()> = "hudifs_open_file_descriptors", Count, "File descriptors that the daemon holds.";
    Gauge START_TIME<()> = "hudifs_start_time_seconds", Seconds, "Unix time of the daemon's start.";
}

/// All metrics in the Prometheus text format, version 0.0.4.
pub fn export() -> String {
    sample_process();
    let mut out = String::with_capacity(32 * 1024);
    for metric in ALL {
        let def = metric.def();
        let _ = writeln!(out, "# HELP {} {}", def.name, def.help);
        let _ = writeln!(out, "# TYPE {} {}", def.name, def.kind);
        metric.samples(&mut out);
    }
    out
}

/// Memory and descriptors cost a look into /proc, so they are taken when somebody asks.
fn sample_process() {
    if let Some(bytes) = resident_bytes() {
        RESIDENT_BYTES.set((), i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the handle of this listing.
        OPEN_FDS.set((), i64::try_from(entries.count()).unwrap_or(i64::MAX).saturating_sub(1));
    }
}

/// Resident memory of this process, bytes.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    pages.checked_mul(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_numbered_densely() {
        let mut seen = vec![false; <(FuseOp, Errno)>::COUNT];
        for op in FuseOp::ALL {
            for errno in Errno::ALL {
                let index = (*op, *errno).index();
                assert!(!seen[index]);
                seen[index] = true;
                assert_eq!(<(FuseOp, Errno)>::values(index), [op.as_str(), errno.as_str()]);
            }
        }
        assert!(seen.into_iter().all(|s| s));
        assert_eq!(<(FuseOp, Errno)>::NAMES, ["op", "errno"]);
    }

    #[test]
    fn names_follow_the_conventions_and_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|m| m.def().name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in ALL {
            let def = metric.def();
            assert!(def.name.starts_with("hudifs_"), "{}", def.name);
            assert_eq!(def.kind == "counter", def.name.ends_with("_total"), "{}", def.name);
            assert!(def.help.ends_with('.'), "{}", def.name);
            match def.unit {
                Unit::Bytes => assert!(def.name.contains("bytes"), "{}", def.name),
                Unit::Seconds => assert!(def.name.contains("seconds"), "{}", def.name),
                Unit::Count => {}
            }
        }
    }

    #[test]
    fn export_is_cumulative_and_counts_what_was_recorded() {
        let before = FUSE_DURATION.count(FuseOp::Access);
        FUSE_DURATION.observe(FuseOp::Access, Duration::from_micros(50));
        FUSE_DURATION.observe(FuseOp::Access, Duration::from_secs(60));
        FUSE_ERRORS.add((FuseOp::Access, Errno::Eacces), 3);
        let text = export();
        let value = |series: &str| -> f64 {
            let line = text.lines().find(|l| l.starts_with(series)).unwrap_or_else(|| panic!("no {series}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let bucket =
            |le: &str| value(&format!("hudifs_fuse_request_duration_seconds_bucket{{op=\"access\",le=\"{le}\"}}"));
        assert!(bucket("0.0001") >= 1.0);
        assert!(bucket("+Inf") > bucket("30"));
        let count = value("hudifs_fuse_request_duration_seconds_count{op=\"access\"}");
        assert_eq!(bucket("+Inf"), count);
        assert!(count >= before as f64 + 2.0);
        assert!(value("hudifs_fuse_errors_total{op=\"access\",errno=\"EACCES\"}") >= 3.0);
        assert!(value("hudifs_resident_memory_bytes") > 1e6);
    }
}
