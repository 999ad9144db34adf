//! A small table to write to, without looking into its files: they hold any bytes.

use crate::servers;
use bytes::Bytes;
use hudifs::Result;
use hudifs::format::commit::{CommitMetadata, ReplacedGroups, WriteStat};
use hudifs::format::file_name::{WriteToken, base_file_name, log_file_name};
use hudifs::format::instant::{Action, InstantTime};
use hudifs::format::properties::TableType;
use hudifs::metadata::ColumnRange;
use hudifs::metadata::write::{AddedFile, Changes, DataFiles, MetadataKinds, MetadataOptions, MetadataWriter};
use hudifs::storage::{self, EntryKind, Storage, StorageOptions, TablePath};
use hudifs::table::{Table, TableOptions};
use hudifs::write::create::{self, TableSpec};
use hudifs::write::markers::MarkerKind;
use hudifs::write::{Committed, Session, Transaction, WriterOptions};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// A place for a table.
pub struct Place {
    pub storage: Arc<dyn Storage>,
    _dir: Option<tempfile::TempDir>,
}

/// An empty folder; in memory where there is such a place, since what dies here dies by itself and not with its disk.
pub fn local() -> Place {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let storage = storage::open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap();
    Place { storage, _dir: Some(dir) }
}

/// An empty prefix of the S3 server.
pub fn s3() -> Option<Place> {
    servers::s3()?;
    let prefix = format!("s3://hudifs/write/{}", uuid::Uuid::new_v4());
    Some(Place { storage: storage::open(&prefix, &StorageOptions::default()).unwrap(), _dir: None })
}

/// What the table is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub version: u32,
    pub mor: bool,
    /// It has a metadata table.
    pub mdt: bool,
}

pub const KINDS: [Kind; 4] = [
    Kind { version: 6, mor: false, mdt: false },
    Kind { version: 9, mor: false, mdt: false },
    Kind { version: 6, mor: true, mdt: false },
    Kind { version: 9, mor: true, mdt: false },
];

impl Kind {
    /// The same with a metadata table.
    pub fn with_metadata(self) -> Kind {
        Kind { mdt: true, ..self }
    }

    pub fn spec(self) -> TableSpec {
        TableSpec {
            version: self.version,
            table_type: if self.mor { TableType::MergeOnRead } else { TableType::CopyOnWrite },
            record_key: vec!["id".into()],
            partition_fields: vec!["p".into()],
            ..TableSpec::new("t")
        }
    }

    pub fn action(self) -> Action {
        if self.mor { Action::DeltaCommit } else { Action::Commit }
    }
}

/// A dead write of a [`quick`] session is known to be dead after so long.
pub const DEAD_AFTER: Duration = Duration::from_millis(25);

fn session(storage: &Arc<dyn Storage>, settings: &[(&str, &str)]) -> Arc<Session> {
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let options = WriterOptions { settings, ..WriterOptions::default() };
    Arc::new(Session::new(storage.clone(), options).unwrap())
}

/// For writes one after the other: the dead are known at once.
pub fn quick(storage: &Arc<dyn Storage>) -> Arc<Session> {
    let beats = [("hoodie.client.heartbeat.interval_in_ms", "15"), ("hoodie.client.heartbeat.tolerable.misses", "1")];
    // A lock of a dead process in a store has to expire, which takes its time.
    let lock = [("hoodie.write.lock.provider", "InProcessLockProvider")];
    let lock = if storage.is_object_store() { &lock[..] } else { &[] };
    session(storage, &[&beats, lock].concat())
}

/// For writes side by side.
pub fn steady(storage: &Arc<dyn Storage>) -> Arc<Session> {
    session(storage, &[])
}

/// One file that a write makes.
#[derive(Clone, Debug)]
pub struct New {
    pub partition: String,
    pub file_id: String,
    /// The base instant of the slice, of a log file or a new base file of an old group.
    pub on: Option<InstantTime>,
    pub log: bool,
}

impl New {
    pub fn base(partition: &str, file_id: &str) -> New {
        New { partition: partition.into(), file_id: file_id.into(), on: None, log: false }
    }

    fn name(&self, kind: Kind, instant: InstantTime, version: u32) -> String {
        let token = WriteToken { partition: 0, stage: 0, attempt: 0 };
        match (self.log, kind.version) {
            (false, _) => base_file_name(&self.file_id, token, instant, ".parquet"),
            (true, 6) => log_file_name(&self.file_id, self.on.unwrap(), version, token),
            (true, _) => log_file_name(&self.file_id, instant, version, token),
        }
    }
}

pub fn path(text: &str) -> TablePath {
    TablePath::parse(text).unwrap()
}

/// Writes the files of a transaction, and returns what to commit.
pub fn write_files(transaction: &Transaction, kind: Kind, news: &[New]) -> Result<CommitMetadata> {
    let storage = transaction.session().storage();
    let mut metadata = CommitMetadata::profile("UPSERT");
    metadata.extra.insert("schema".into(), r#"{"type":"record","name":"t","fields":[]}"#.into());
    for new in news {
        let folder = path(&new.partition);
        let taken = storage.list(&folder).unwrap_or_default();
        let mine = |e: &&hudifs::storage::DirEntry| e.name.contains(&new.file_id) && e.name.contains(".log.");
        let version = taken.iter().filter(mine).count() as u32 + 1;
        let name = new.name(kind, transaction.instant(), version);
        let mark = match (new.log, new.on) {
            (true, _) => MarkerKind::Append,
            (false, None) => MarkerKind::Create,
            (false, Some(_)) => MarkerKind::Merge,
        };
        transaction.marker_for(&new.partition, &name, mark)?;
        let mut writer = storage.create_writer(&folder.join(&name)?)?;
        writer.write_all(format!("bytes of {name}").as_bytes()).unwrap();
        let size = writer.finish()?.size;
        metadata.add(
            &new.partition,
            WriteStat {
                file_id: new.file_id.clone(),
                path: Some(format!("{}/{name}", new.partition)),
                previous: new.on.map(|t| t.to_string()),
                size: Some(size),
                records: Some(1),
                log_version: new.log.then_some(version),
                ..WriteStat::default()
            },
        );
    }
    Ok(metadata)
}

/// One write of a [`quick`] session.
pub fn write(storage: Arc<dyn Storage>, kind: Kind, news: &[New]) -> Result<Committed> {
    write_as(quick(&storage), kind, news)
}

/// One write from its beginning to its commit.
pub fn write_as(session: Arc<Session>, kind: Kind, news: &[New]) -> Result<Committed> {
    let storage = session.storage().clone();
    let mut transaction = Transaction::begin(session, kind.action(), Bytes::new())?;
    transaction.start(&CommitMetadata::profile("UPSERT"))?;
    let metadata = write_files(&transaction, kind, news)?;
    let (instant, changes) = (transaction.instant(), changes(&metadata));
    transaction.commit(metadata, &[], |critical| {
        match MetadataWriter::open(storage, critical.timeline(), MetadataOptions::default())? {
            Some(writer) => writer.update(instant, &changes),
            None => Ok(()),
        }
    })
}

/// What a commit changes, as the metadata table must know it.
fn changes(metadata: &CommitMetadata) -> Changes {
    let mut changes = Changes::default();
    for partition in &metadata.written {
        let added = partition
            .stats
            .iter()
            .map(|s| (s.file_name().unwrap().to_owned(), AddedFile { size: s.size.unwrap(), ..AddedFile::default() }));
        changes.partition(&partition.partition).added.extend(added);
    }
    changes
}

/// Only the list of files is made, so nobody asks for what is in them.
struct NoFiles;

impl DataFiles for NoFiles {
    fn columns(&self, _: &str, name: &str, _: u64, _: &[String]) -> Result<Vec<ColumnRange>> {
        panic!("{name} was asked for")
    }

    fn keys(&self, _: &str, file_id: &str, _: Option<&str>, _: &[String]) -> Result<Vec<String>> {
        panic!("{file_id} was asked for")
    }
}

/// A table with one commit of two groups, `a` and `b`, in two partitions.
pub fn table(place: &Place, kind: Kind) -> InstantTime {
    create::create(&*place.storage, &kind.spec()).unwrap();
    if kind.mdt {
        let timeline = quick(&place.storage).timeline().unwrap();
        let (kinds, options) = (MetadataKinds::default(), MetadataOptions::default());
        MetadataWriter::bootstrap(&place.storage, &timeline, &kinds, None, &NoFiles, &options).unwrap();
    }
    let first = write(place.storage.clone(), kind, &[New::base("p=1", "a-0"), New::base("p=2", "b-0")]).unwrap();
    first.instant.requested
}

/// The base files that a reader sees, by path.
pub fn seen(storage: &Arc<dyn Storage>) -> BTreeSet<String> {
    let table = Table::open(storage.clone(), TableOptions::default()).unwrap();
    let snapshot = table.snapshot();
    let mut seen = BTreeSet::new();
    for partition in snapshot.partitions().unwrap().iter() {
        for slice in snapshot.file_slices(partition).unwrap().iter() {
            let base = slice.base_file.iter().map(|b| b.name.clone());
            let logs = slice.log_files.iter().map(|l| l.name.clone());
            seen.extend(base.chain(logs).map(|name| format!("{partition}/{name}")));
        }
    }
    seen
}

/// All files outside `.hoodie` that are no partition metafiles.
pub fn data_files(storage: &Arc<dyn Storage>) -> BTreeSet<String> {
    files(storage, "").into_iter().filter(|f| !f.ends_with(".hoodie_partition_metadata")).collect()
}

/// All files below a folder, but `.hoodie` itself.
pub fn files(storage: &Arc<dyn Storage>, dir: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in storage.list(&path(dir)).unwrap_or_default() {
        let child = if dir.is_empty() { entry.name.clone() } else { format!("{dir}/{}", entry.name) };
        match entry.kind {
            EntryKind::Dir if child == ".hoodie" => {}
            EntryKind::Dir => found.extend(files(storage, &child)),
            EntryKind::File { .. } => drop(found.insert(child)),
        }
    }
    found
}

/// What two writes of one file group say.
pub fn replaced(partition: &str, file_id: &str) -> ReplacedGroups {
    ReplacedGroups { partition: partition.into(), file_ids: vec![file_id.into()] }
}
