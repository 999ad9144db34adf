//! Writes metadata tables for tests: what the tables at hand are too small, or too well kept, to show.

use crate::hfile_writer::{Generation, HFileWriter};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use hudifs::Result;
use hudifs::metadata::MetadataLister;
use hudifs::storage::{self, Storage, StorageOptions, TablePath};
use hudifs::timeline::{Timeline, load_config};
use parquet::arrow::ArrowWriter;
use std::path::PathBuf;
use std::sync::Arc;

const SCHEMA: &str = r#"{"type": "record", "name": "HoodieMetadataRecord", "namespace": "org.apache.hudi.avro.model",
 "fields": [{"name": "_hoodie_commit_time", "type": ["null", "string"]}, {"name": "key", "type": "string"},
 {"name": "type", "type": "int"}, {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values":
 {"type": "record", "name": "HoodieMetadataFileInfo", "fields": [{"name": "size", "type": "long"},
 {"name": "isDeleted", "type": "boolean"}]}}]}]}"#;

/// Name and size; `None` says deleted.
pub type Entry<'a> = (&'a str, Option<u64>);
/// A key and what its record says.
pub type Record<'a> = (&'a str, &'a [Entry<'a>]);

/// A data table without data, and its metadata table.
pub struct Synthetic {
    dir: tempfile::TempDir,
    version: u8,
    pub writer: HFileWriter,
}

impl Synthetic {
    /// A table of that version whose metadata table is said to list files.
    pub fn new(version: u8) -> Synthetic {
        let generation = if version < 9 { Generation::HBase } else { Generation::Native };
        let writer = HFileWriter { generation, gzip: true, block_size: 1 << 20, fanout: 0 };
        let table = Synthetic { dir: tempfile::tempdir().unwrap(), version, writer };
        table.properties("", "hoodie.table.metadata.partitions=files\n");
        table.properties(".hoodie/metadata/", "hoodie.table.base.file.format=HFILE\n");
        std::fs::create_dir_all(table.dir.path().join(".hoodie/metadata/files")).unwrap();
        table
    }

    /// Replaces the properties of the table at `root`.
    pub fn properties(&self, root: &str, more: &str) {
        let layout = if self.version < 8 { 1 } else { 2 };
        let text = format!(
            "hoodie.table.name=t\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version={}\n\
             hoodie.timeline.layout.version={layout}\n{more}",
            self.version
        );
        self.put(&format!("{root}.hoodie/hoodie.properties"), text.as_bytes());
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn timeline_folder(&self, root: &str) -> String {
        format!("{root}.hoodie/{}", if self.version < 8 { "" } else { "timeline/" })
    }

    /// A file of the data table's timeline, by its name: `001_002.commit`.
    pub fn data(&self, file: &str) {
        self.put(&format!("{}{file}", self.timeline_folder("")), b"");
    }

    /// A file of the metadata table's timeline.
    pub fn metadata(&self, file: &str) {
        self.put(&format!("{}{file}", self.timeline_folder(".hoodie/metadata/")), b"");
    }

    /// Archives instants of the metadata table: requested and completion times.
    pub fn archive(&self, instants: &[(&str, &str)]) {
        let column = |of: fn(&(&str, &str)) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(instants.iter().map(of)))
        };
        let columns = [("instantTime", column(|i| i.0.to_owned())), ("completionTime", column(|i| i.1.to_owned()))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let history = ".hoodie/metadata/.hoodie/timeline/history";
        self.put(&format!("{history}/archived_0.parquet"), &file);
        let manifest = format!(r#"{{"files": [{{"fileName": "archived_0.parquet", "fileLen": {}}}]}}"#, file.len());
        self.put(&format!("{history}/manifest_1"), manifest.as_bytes());
        self.put(&format!("{history}/_version_"), b"1");
    }

    /// An instant that is completed in both, one after the other.
    pub fn commit(&self, time: &str, completed: &str) {
        let later = format!("{}", completed.parse::<u64>().unwrap() + 1);
        for (root, action, completed) in [(".hoodie/metadata/", "deltacommit", completed), ("", "commit", &later)] {
            let stem = if self.version < 8 { time.to_owned() } else { format!("{time}_{completed}") };
            self.put(&format!("{}{stem}.{action}", self.timeline_folder(root)), b"");
        }
    }

    /// A base file.
    pub fn base(&self, instant: &str, records: &[Record<'_>]) {
        self.put(&format!(".hoodie/metadata/files/files-0000-0_0-1-2_{instant}.hfile"), &self.hfile(records));
    }

    /// A log file.
    pub fn log(&self, instant: &str, version: u32, blocks: &[Vec<u8>]) {
        let name = format!(".hoodie/metadata/files/.files-0000-0_{instant}.log.{version}_0-1-2");
        self.put(&name, &blocks.concat());
    }

    /// A data block of that instant.
    pub fn block(&self, instant: &str, records: &[Record<'_>]) -> Vec<u8> {
        block(4, &[(0, instant), (2, SCHEMA)], &self.hfile(records))
    }

    /// A data block that replaces others.
    pub fn compacted_block(&self, instant: &str, times: &str, records: &[Record<'_>]) -> Vec<u8> {
        block(4, &[(0, instant), (4, times), (2, SCHEMA)], &self.hfile(records))
    }

    /// An HFile of records.
    pub fn hfile(&self, records: &[Record<'_>]) -> Vec<u8> {
        let mut cells: Vec<_> =
            records.iter().map(|(key, entries)| (key.as_bytes().to_vec(), record(key, entries))).collect();
        cells.sort();
        self.writer.write(&cells, SCHEMA)
    }

    pub fn base_path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub fn storage(&self) -> Arc<dyn Storage> {
        storage::open(&format!("file://{}", self.dir.path().display()), &StorageOptions::default()).unwrap()
    }

    pub fn timeline(&self) -> Timeline {
        let storage = self.storage();
        let config = load_config(&*storage, &TablePath::root()).unwrap();
        Timeline::load(&*storage, &TablePath::root(), &config).unwrap()
    }

    pub fn open(&self) -> Result<MetadataLister> {
        MetadataLister::open(&*self.storage(), &self.timeline())
    }
}

/// A rollback of an instant.
pub fn rollback_block(instant: &str, target: &str) -> Vec<u8> {
    block(0, &[(0, instant), (3, "0"), (1, target)], b"")
}

/// A delete block.
pub fn delete_block(instant: &str, keys: &[&str]) -> Vec<u8> {
    let mut list = Vec::new();
    if !keys.is_empty() {
        list.extend(zigzag(keys.len() as i64));
        for key in keys {
            list.extend([vec![2], text(key), vec![0, 4, 0]].concat());
        }
    }
    list.push(0);
    let content = [&[0, 0, 0, 3][..], &(list.len() as i32).to_be_bytes(), &list].concat();
    block(1, &[(0, instant)], &content)
}

fn block(kind: i32, header: &[(i32, &str)], content: &[u8]) -> Vec<u8> {
    let mut body = [1i32.to_be_bytes(), kind.to_be_bytes(), (header.len() as i32).to_be_bytes()].concat();
    for (key, value) in header {
        body.extend([key.to_be_bytes(), (value.len() as i32).to_be_bytes()].concat());
        body.extend(value.as_bytes());
    }
    body.extend((content.len() as i64).to_be_bytes());
    body.extend(content);
    body.extend([0; 4]);
    let len = body.len() as i64 + 8;
    [&b"#HUDI#"[..], &len.to_be_bytes(), &body, &(len + 6).to_be_bytes()].concat()
}

fn record(key: &str, entries: &[Entry<'_>]) -> Vec<u8> {
    let kind = if key == "__all_partitions__" { 1 } else { 2 };
    let mut out = [vec![0], text(""), zigzag(kind), vec![2]].concat();
    if !entries.is_empty() {
        out.extend(zigzag(entries.len() as i64));
        for (name, size) in entries {
            out.extend(text(name));
            out.extend(zigzag(size.unwrap_or(0) as i64));
            out.push(size.is_none() as u8);
        }
    }
    out.push(0);
    out
}

fn text(text: &str) -> Vec<u8> {
    [zigzag(text.len() as i64), text.as_bytes().to_vec()].concat()
}

fn zigzag(value: i64) -> Vec<u8> {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    let mut out = Vec::new();
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
    out
}
