//! Small tables made by hand, for what no writer leaves behind on purpose: crashes, races, files of other engines.

use hudifs::format::instant::InstantTime;
use hudifs::storage::{LocalStorage, Storage, TablePath};
use hudifs::timeline::{Timeline, load_config};
use hudifs::view::{ListedFile, Lister, PartitionView, StorageLister, ViewContext, load_listed, load_partition};
use hudifs::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

pub fn time(text: &str) -> InstantTime {
    InstantTime::parse(text).unwrap()
}

/// A table on the local disk.
pub struct Built {
    dir: tempfile::TempDir,
    timeline: &'static str,
}

impl Built {
    /// A copy-on-write table of that version, partitioned by `p`, without instants.
    pub fn new(version: u8) -> Built {
        let timeline = if version >= 8 { ".hoodie/timeline" } else { ".hoodie" };
        let built = Built { dir: tempfile::tempdir().unwrap(), timeline };
        let layout = if version >= 8 { 2 } else { 1 };
        std::fs::create_dir_all(built.path(timeline)).unwrap();
        built.property("hoodie.table.name=t");
        built.property(&format!("hoodie.table.version={version}"));
        built.property(&format!("hoodie.timeline.layout.version={layout}"));
        built.property("hoodie.table.partition.fields=p");
        built
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// Adds a line to hoodie.properties.
    pub fn property(&self, line: &str) -> &Built {
        let path = self.path(".hoodie/hoodie.properties");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}{line}\n")).unwrap();
        self
    }

    /// A file of the timeline.
    pub fn instant(&self, name: &str, content: &str) -> &Built {
        self.file(&format!("{}/{name}", self.timeline), content.as_bytes())
    }

    pub fn remove(&self, relative: &str) -> &Built {
        std::fs::remove_file(self.path(relative)).unwrap();
        self
    }

    /// A file of the timeline that is gone.
    pub fn remove_instant(&self, name: &str) -> &Built {
        self.remove(&format!("{}/{name}", self.timeline))
    }

    /// Empty files in partition `a`, which is made a partition.
    pub fn data(&self, names: &[&str]) -> &Built {
        self.file("a/.hoodie_partition_metadata", b"commitTime=1\npartitionDepth=1\n");
        for name in names {
            self.file(&format!("a/{name}"), name.as_bytes());
        }
        self
    }

    pub fn file(&self, relative: &str, content: &[u8]) -> &Built {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::new(self.dir.path()).unwrap())
    }

    pub fn timeline(&self) -> Timeline {
        let storage = self.storage();
        let config = load_config(&*storage, &TablePath::root()).unwrap();
        Timeline::load(&*storage, &TablePath::root(), &config).unwrap()
    }

    pub fn context(&self, as_of: Option<&str>) -> Result<ViewContext> {
        let timeline = self.timeline();
        let config = timeline.config().clone();
        ViewContext::load(&*self.storage(), &timeline, &config, as_of.map(time))
    }

    /// Partition `a`, listed from storage.
    pub fn view(&self, as_of: Option<&str>) -> Result<(PartitionView, Vec<String>)> {
        let context = self.context(as_of)?;
        let lister = StorageLister::new(self.storage(), TablePath::root(), context.config());
        let view = load_partition(&*self.storage(), &context, &lister, &TablePath::parse("a").unwrap())?;
        Ok((view, context.timeline().warnings()))
    }

    /// Names listed in partition `a`, by name.
    pub fn listed(&self, as_of: Option<&str>) -> Vec<String> {
        let (view, _) = self.view(as_of).unwrap_or_else(|e| panic!("{e}"));
        view.listed().map(|f| f.name().to_owned()).collect()
    }

    /// Partition `a` with names as a metadata table would list them.
    pub fn on_record(&self, names: &[&str], as_of: Option<&str>) -> Result<PartitionView> {
        let files: Vec<ListedFile> =
            names.iter().map(|n| ListedFile { name: (*n).to_owned(), size: Some(7) }).collect();
        let context = self.context(as_of)?;
        load_listed(&*self.storage(), &context, &TablePath::parse("a").unwrap(), &files, true)
    }

    pub fn error(&self, as_of: Option<&str>) -> Error {
        self.view(as_of).map(|(v, _)| v.listed().map(|f| f.name().to_owned()).collect::<Vec<_>>()).unwrap_err()
    }

    pub fn partitions(&self) -> Vec<String> {
        let timeline = self.timeline();
        let lister = StorageLister::new(self.storage(), TablePath::root(), timeline.config());
        lister.partitions().unwrap().iter().map(TablePath::to_string).collect()
    }
}

/// Commit metadata in JSON that replaces groups of partition `a`.
pub fn replacing(ids: &[&str]) -> String {
    serde_json::json!({"partitionToWriteStats": {}, "operationType": "INSERT_OVERWRITE",
        "partitionToReplaceFileIds": {"a": ids}})
    .to_string()
}

/// Commit metadata in JSON that wrote one file of partition `a`.
pub fn wrote(file_id: &str, name: &str) -> String {
    serde_json::json!({"partitionToWriteStats": {"a": [{"fileId": file_id, "path": format!("a/{name}")}]},
        "operationType": "UPSERT"})
    .to_string()
}
