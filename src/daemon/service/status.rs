//! State as documents: the control socket's status and the mount's virtual files.

use super::{Entry, Service, Watched, passthrough};
use crate::control::types::{Memory, Pin, Status, TableStatus, TimelineQuery, ViewTotals};
use crate::format::properties::TableType;
use crate::fs::{self, Host, VirtualFile};
use crate::telemetry::{Cache, TableState, event, metric};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

impl Service {
    /// The whole state, or what concerns one table.
    pub(super) fn status_of(&self, only: Option<&Entry>) -> Status {
        let entries = self.entries();
        let shown = entries.iter().filter(|e| only.is_none_or(|o| o.name == e.name));
        let tables: Vec<_> = shown.map(|e| self.table_status(e)).collect();
        let degraded = tables.iter().any(|t| t.state != TableState::Serving.as_str());
        let events = event::recent().into_iter().filter(|e| match (only, &e.table) {
            (Some(only), Some(table)) => *table == only.name || *table == only.uri,
            _ => true,
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_ms: self.started_ms,
            mount_point: self.mount_point().map(|p| p.display().to_string()),
            socket: self.options.socket.as_ref().map(|p| p.display().to_string()),
            log: self.options.log.clone(),
            state: if degraded { "degraded" } else { "serving" }.to_owned(),
            passthrough: self.session().map(passthrough),
            memory: Memory { resident_bytes: metric::resident_bytes(), target_bytes: self.options.memory_target_bytes },
            tables,
            pins: self.pin_list().into_iter().filter(|p| only.is_none_or(|o| o.name == p.table)).collect(),
            events: events.collect(),
        }
    }

    /// Every metric, with the numbers that the filesystem keeps for itself.
    pub(super) fn export_metrics(&self) -> String {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        if let Some(mounted) = self.mounted.get() {
            let stats = mounted.fs.stats();
            metric::OPEN_FILES.set((), signed(stats.open_files));
            metric::INODES.set((), signed(stats.inodes));
            metric::CACHE_BYTES.set(Cache::Partition, signed(stats.partition_bytes));
        }
        metric::export()
    }

    /// One table's state.
    pub(super) fn table_status(&self, entry: &Entry) -> TableStatus {
        let snapshot = self.shown(entry).ok();
        let config = snapshot.as_ref().map(|s| s.config());
        let generation = entry.opened_table().map(|t| t.snapshot().generation());
        let table_state = entry.table_state();
        let state = entry.state();
        TableStatus {
            name: entry.name.clone(),
            uri: entry.uri.clone(),
            state: table_state.as_str().to_owned(),
            hudi_name: config.map(|c| c.name().to_owned()),
            table_type: config.map(|c| table_type_name(c.table_type()).to_owned()),
            table_version: config.map(|c| u32::from(c.version().code())),
            instant: snapshot.as_ref().and_then(|s| s.instant()).map(|i| i.to_string()),
            generation,
            pinned: self.options.as_of.is_some(),
            lister: snapshot.as_ref().map(|s| s.lister_name().to_owned()),
            watch: state.watched.as_str().to_owned(),
            refreshed_ms: state.refreshed_ms,
            error: state.error.clone(),
            totals: self.mounted.get().and_then(|m| m.fs.totals(&entry.path)).map(|t| ViewTotals {
                files: t.files,
                size_bytes: t.bytes,
                log_only_groups: t.log_only_groups,
                complete: t.complete,
            }),
            lease: self.mounted.get().map(|_| state.lease.at_present(self.options.read_only)),
            warnings: snapshot.map(|s| s.warnings()).unwrap_or_default(),
        }
    }

    /// Pins that have not ended.
    pub(super) fn pin_list(&self) -> Vec<Pin> {
        let Some(mounted) = self.mounted.get() else { return Vec::new() };
        mounted.fs.pins().list(SystemTime::now()).iter().map(|pin| self.pin_document(pin)).collect()
    }

    pub(super) fn pin_document(&self, pin: &fs::Pin) -> Pin {
        let entries = self.entries();
        let name = entries.iter().find(|e| e.path.as_str() == pin.table).map_or(pin.table.as_str(), |e| &e.name);
        let expires = pin.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        let below = format!(".hudifs/read_optimized/{}", pin.instant);
        Pin {
            id: pin.id.0.to_string(),
            table: name.to_owned(),
            instant: pin.instant.to_string(),
            path: if pin.table.is_empty() { below } else { format!("{}/{below}", pin.table) },
            expires_ms: i64::try_from(expires.as_millis()).unwrap_or(i64::MAX),
            label: Some(pin.note.clone()).filter(|n| !n.is_empty()),
            leased: None,
        }
    }
}

impl Host for Service {
    fn content(&self, table: Option<&str>, file: VirtualFile) -> Vec<u8> {
        let entries = self.entries();
        let entry = table.and_then(|path| entries.iter().find(|e| e.path.as_str() == path));
        match file {
            VirtualFile::Metrics => self.export_metrics().into_bytes(),
            VirtualFile::Status => document(&self.status_of(entry.map(|e| &**e))),
            VirtualFile::Timeline => match entry.map(|e| self.timeline_of(e, TimelineQuery::default())) {
                Some(Ok(timeline)) => document(&timeline),
                Some(Err(failure)) => document(&failure.0),
                None => Vec::new(),
            },
        }
    }

    fn view_opened(&self, _table: &str) {
        self.wake_keeper();
    }

    fn control_socket(&self) -> Option<PathBuf> {
        self.options.socket.clone()
    }
}

impl Watched {
    fn as_str(self) -> &'static str {
        match self {
            Watched::Inotify => "inotify",
            Watched::Poll => "poll",
            Watched::No => "none",
        }
    }
}

/// `hoodie.table.type`'s words.
pub fn table_type_name(table_type: TableType) -> &'static str {
    match table_type {
        TableType::CopyOnWrite => "COPY_ON_WRITE",
        TableType::MergeOnRead => "MERGE_ON_READ",
    }
}

/// Indented, because these are read by people with `cat`.
fn document(value: &impl Serialize) -> Vec<u8> {
    // Documents are strings, numbers and lists: they always serialize.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
