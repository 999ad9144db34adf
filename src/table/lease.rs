//! Leases: what the readers of a table hold, told to whoever removes files from it.
//!
//! Each daemon that shows a table keeps one small JSON file below `.hoodie/.aux/.leases`, writes it anew from time to time and
//! removes it when it ends. The file names the instants whose files are in use, and files that are open. A daemon that dies
//! leaves a lease that ends by itself.
//!
//! Whoever removes files asks [`read`] first. The invariant is that doubt holds: a lease that cannot be read or understood holds the
//! whole table, until it is so old that its writer must have ended. Hudi's own cleaner does not know leases.

use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::storage::{EntryKind, Storage, TablePath};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The folder of a table's leases.
pub const FOLDER: &str = ".hoodie/.aux/.leases";
/// Longest life of a lease after it was last written, whatever it says itself.
pub const LIFE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How far apart the clocks of two machines may be.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(120);
/// Most open files that a lease names; with more it holds the whole table.
pub const FILES_MAX: usize = 4096;
/// Most instants that a lease names; with more it holds the whole table.
pub const INSTANTS_MAX: usize = 16_384;
/// Largest lease read, bytes.
const LEASE_BYTES_MAX: u64 = 8 << 20;
/// The version of the form below.
const VERSION: u32 = 1;

/// What one daemon holds of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name: the file's name without the extension.
    pub id: String,
    /// Who holds it, for people: host, process and mount point.
    pub owner: String,
    /// When it was written, milliseconds since the epoch.
    pub renewed_ms: i64,
    /// When it ends unless it is written again, milliseconds since the epoch.
    pub expires_ms: i64,
    /// Instants whose views are in use: no file that such a view shows may be removed.
    pub instants: Vec<InstantTime>,
    /// Stored paths of open files.
    pub files: Vec<TablePath>,
    /// Nothing may be removed: there is more in use than a lease can name.
    pub everything: bool,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    owner: String,
    renewed_ms: i64,
    expires_ms: i64,
    instants: Vec<String>,
    files: Vec<String>,
    #[serde(default)]
    everything: bool,
}

impl Lease {
    /// A lease from `now` for `life`, at most [`LIFE_MAX`]. What does not fit makes it hold the whole table.
    pub fn new(id: &str, owner: &str, now: SystemTime, life: Duration) -> Lease {
        let renewed_ms = epoch_ms(now);
        let expires_ms = renewed_ms.saturating_add(millis(life.min(LIFE_MAX)));
        let (instants, files) = (Vec::new(), Vec::new());
        Lease { id: id.to_owned(), owner: owner.to_owned(), renewed_ms, expires_ms, instants, files, everything: false }
    }

    /// Adds what is held.
    pub fn hold(mut self, instants: Vec<InstantTime>, files: Vec<TablePath>) -> Lease {
        self.everything |= instants.len() > INSTANTS_MAX || files.len() > FILES_MAX;
        (self.instants, self.files) = if self.everything { Default::default() } else { (instants, files) };
        self
    }

    /// Where it is kept. `Invalid` for an id that is no file name.
    pub fn path(&self) -> Result<TablePath> {
        path_of(&self.id)
    }

    /// The file's content.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let document = Document {
            version: VERSION,
            owner: self.owner.clone(),
            renewed_ms: self.renewed_ms,
            expires_ms: self.expires_ms,
            instants: self.instants.iter().map(|i| i.as_str().to_owned()).collect(),
            files: self.files.iter().map(|f| f.as_str().to_owned()).collect(),
            everything: self.everything,
        };
        serde_json::to_vec(&document).map_err(|e| Error::internal(format!("a lease cannot be written: {e}")))
    }

    /// Reads a file's content. `Corrupt` for what is no lease, `Unsupported` for a newer form.
    pub fn decode(id: &str, bytes: &[u8]) -> Result<Lease> {
        let broken = |e: &dyn std::fmt::Display| Error::corrupt(format!("lease {id}: {e}"));
        let document: Document = serde_json::from_slice(bytes).map_err(|e| broken(&e))?;
        if document.version != VERSION {
            return Err(Error::unsupported(format!("lease {id}: version {}", document.version)));
        }
        let instant = |text: &String| InstantTime::parse(text).ok_or_else(|| broken(&format!("no instant: {text:?}")));
        let file = |text: &String| TablePath::parse(text).map_err(|e| broken(&e.message()));
        Ok(Lease {
            id: id.to_owned(),
            owner: document.owner,
            renewed_ms: document.renewed_ms,
            expires_ms: document.expires_ms,
            instants: document.instants.iter().map(instant).collect::<Result<_>>()?,
            files: document.files.iter().map(file).collect::<Result<_>>()?,
            everything: document.everything,
        })
    }
}

/// Where the lease of that id is kept. `Invalid` for an id that is no file name.
pub fn path_of(id: &str) -> Result<TablePath> {
    crate::storage::path::check_component(id)?;
    TablePath::parse(FOLDER)?.join(&format!("{id}.json"))
}

/// All leases of a table.
#[derive(Debug, Default)]
pub struct Leases {
    /// Those that hold.
    pub live: Vec<Lease>,
    /// Those that cannot be read or understood and may hold: each holds the whole table.
    pub unreadable: Vec<(TablePath, Error)>,
    /// Those that have ended; their files may be removed.
    pub expired: Vec<TablePath>,
}

impl Leases {
    /// Why nothing at all may be removed, if so.
    pub fn holds_everything(&self) -> Option<String> {
        if let Some((path, error)) = self.unreadable.first() {
            return Some(format!("the lease {path} cannot be understood and may hold anything: {}", error.message()));
        }
        let all = self.live.iter().find(|l| l.everything)?;
        Some(format!("{} has more in use than a lease can name", all.owner))
    }

    /// The instants whose views are in use, sorted.
    pub fn instants(&self) -> BTreeSet<InstantTime> {
        self.live.iter().flat_map(|l| &l.instants).copied().collect()
    }

    /// Stored paths of the files that are open, sorted.
    pub fn files(&self) -> BTreeSet<&TablePath> {
        self.live.iter().flat_map(|l| &l.files).collect()
    }
}

/// Reads the leases of a table and tells those that hold at `now` from those that have ended.
///
/// An error means that it is not known what is held: the caller removes nothing.
pub fn read(storage: &dyn Storage, now: SystemTime) -> Result<Leases> {
    let folder = TablePath::parse(FOLDER)?;
    let entries = match storage.list(&folder) {
        Ok(entries) => entries,
        // Nobody has held a lease on this table yet.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Leases::default()),
        Err(error) => return Err(error.context("the leases of readers")),
    };
    // Files on their way into place have names of their own form.
    let is_lease = |name: &str| !name.starts_with('.') && name.ends_with(".json");
    let files = entries.into_iter().filter(|e| matches!(e.kind, EntryKind::File { .. }) && is_lease(&e.name));
    let mut names: Vec<String> = files.map(|e| e.name).collect();
    names.sort_unstable();
    let paths = names.iter().map(|name| folder.join(name)).collect::<Result<Vec<_>>>()?;
    let contents = storage.read_many(&paths, LEASE_BYTES_MAX);
    let mut leases = Leases::default();
    for (path, content) in paths.into_iter().zip(contents) {
        leases.add(storage, path, content.as_deref(), epoch_ms(now));
    }
    Ok(leases)
}

impl Leases {
    fn add(&mut self, storage: &dyn Storage, path: TablePath, content: Result<&[u8], &Error>, now_ms: i64) {
        let id = path.file_name().trim_end_matches(".json");
        let lease = content.map_err(Error::duplicate).and_then(|bytes| Lease::decode(id, bytes));
        // The store's own time of writing bounds what the file says of itself.
        let written = storage.stat(&path);
        let gone = |r: Option<&Error>| r.is_some_and(|e| e.kind() == ErrorKind::NotFound);
        if gone(lease.as_ref().err()) || gone(written.as_ref().err()) {
            // Given back in this moment.
            return;
        }
        let life_end = written.as_ref().map_or(i64::MAX, |meta| meta.modified_ms.saturating_add(millis(LIFE_MAX)));
        let ended = |at: i64| now_ms > at.saturating_add(millis(CLOCK_SKEW_MAX));
        match lease {
            _ if ended(life_end) => self.expired.push(path),
            Ok(lease) if ended(lease.expires_ms) => self.expired.push(path),
            Ok(lease) => self.live.push(lease),
            Err(error) => self.unreadable.push((path, error)),
        }
    }
}

fn epoch_ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LocalStorage;
    use proptest::prelude::*;

    fn instant(text: &str) -> InstantTime {
        InstantTime::parse(text).unwrap()
    }

    fn table() -> (tempfile::TempDir, LocalStorage) {
        let dir = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(dir.path()).unwrap();
        (dir, storage)
    }

    fn put(dir: &tempfile::TempDir, name: &str, content: &[u8]) {
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), content).unwrap();
    }

    fn lease(id: &str, life: u64, instants: &[&str], files: &[&str]) -> Lease {
        let files = files.iter().map(|f| TablePath::parse(f).unwrap()).collect();
        Lease::new(id, "here", SystemTime::now(), Duration::from_secs(life))
            .hold(instants.iter().map(|i| instant(i)).collect(), files)
    }

    #[test]
    fn a_table_without_leases_is_free() {
        let (_dir, storage) = table();
        let leases = read(&storage, SystemTime::now()).unwrap();
        assert!(leases.holds_everything().is_none() && leases.instants().is_empty() && leases.files().is_empty());
    }

    #[test]
    fn live_leases_add_up_and_end_by_themselves() {
        let (dir, storage) = table();
        put(&dir, "a.json", &lease("a", 60, &["002", "001"], &["p=1/x.parquet"]).encode().unwrap());
        put(&dir, "b.json", &lease("b", 6000, &["002", "003"], &[]).encode().unwrap());
        put(&dir, ".b.json.tmp", b"half a le");
        let now = SystemTime::now();
        let leases = read(&storage, now).unwrap();
        assert_eq!(leases.instants().into_iter().collect::<Vec<_>>(), ["001", "002", "003"].map(instant));
        assert_eq!(leases.files().iter().map(|f| f.as_str()).collect::<Vec<_>>(), ["p=1/x.parquet"]);
        assert!(leases.holds_everything().is_none() && leases.expired.is_empty());
        // Not at the very moment: another machine's clock may go before ours.
        assert_eq!(read(&storage, now + Duration::from_secs(90)).unwrap().live.len(), 2);
        let later = read(&storage, now + Duration::from_secs(60 + 121)).unwrap();
        assert_eq!(later.expired.iter().map(TablePath::as_str).collect::<Vec<_>>(), [".hoodie/.aux/.leases/a.json"]);
        assert_eq!(later.instants().len(), 2);
    }

    #[test]
    fn what_cannot_be_understood_holds_everything_for_as_long_as_its_writer_may_live() {
        let newer = br#"{"version":2,"held":"who knows"}"#.as_slice();
        let bad_instant = br#"{"version":1,"owner":"x","renewed_ms":1,"expires_ms":9,"instants":["x"],"files":[]}"#;
        let outside = br#"{"version":1,"owner":"x","renewed_ms":1,"expires_ms":9,"instants":[],"files":["../x"]}"#;
        for content in [b"".as_slice(), b"{", newer, bad_instant, outside, &[0xff; 100]] {
            let (dir, storage) = table();
            put(&dir, "a.json", content);
            let now = SystemTime::now();
            let leases = read(&storage, now).unwrap();
            assert!(leases.holds_everything().unwrap().contains("a.json"), "{content:?}");
            let much_later = read(&storage, now + LIFE_MAX + CLOCK_SKEW_MAX + Duration::from_secs(5)).unwrap();
            assert_eq!((much_later.unreadable.len(), much_later.expired.len()), (0, 1));
        }
    }

    #[test]
    fn no_lease_outlives_its_writer_by_more_than_a_day_whatever_it_says() {
        let (dir, storage) = table();
        let mut forever = lease("a", 60, &["001"], &[]);
        forever.expires_ms = i64::MAX;
        put(&dir, "a.json", &forever.encode().unwrap());
        assert_eq!(read(&storage, SystemTime::now() + LIFE_MAX).unwrap().live.len(), 1);
        assert_eq!(read(&storage, SystemTime::now() + 2 * LIFE_MAX).unwrap().live.len(), 0);
    }

    #[test]
    fn more_than_a_lease_can_name_holds_everything() {
        let many = vec![TablePath::parse("p/f").unwrap(); FILES_MAX + 1];
        let full = lease("a", 60, &[], &[]).hold(Vec::new(), many);
        assert!(full.everything && full.files.is_empty());
        let (dir, storage) = table();
        put(&dir, "a.json", &full.encode().unwrap());
        assert!(read(&storage, SystemTime::now()).unwrap().holds_everything().unwrap().contains("here"));
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_an_error_and_not_freedom() {
        let (dir, storage) = table();
        std::fs::create_dir_all(dir.path().join(".hoodie/.aux")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join(FOLDER)).unwrap();
        assert!(read(&storage, SystemTime::now()).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            instants in proptest::collection::vec("[0-9]{3,17}", 0..8),
            files in proptest::collection::vec("[a-z=é\"\\\\]{1,9}(/[a-z%]{1,9}){0,3}", 0..8),
            owner in ".{0,40}",
        ) {
            let mut lease = lease("id", 60, &[], &[]);
            lease.owner = owner;
            lease.instants = instants.iter().filter_map(|i| InstantTime::parse(i)).collect();
            lease.files = files.iter().filter_map(|f| TablePath::parse(f).ok()).collect();
            prop_assert_eq!(Lease::decode("id", &lease.encode().unwrap()).unwrap(), lease);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Lease::decode("id", &bytes);
        }
    }
}
