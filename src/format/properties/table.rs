//! [`TableConfig`]: what `hoodie.properties` says about a table, and which tables this build refuses.
//!
//! Versions are refused by name: 7 (a bridge that was hardly released), 10 and above (logs that look like base files), and
//! codes that nobody has given out. Format: docs/format.md, "hoodie.properties".

use super::Properties;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Layout, Zone};
use std::sync::Arc;

/// A table version that this build reads: 0 to 6, 8 and 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u8);

/// How a table takes updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableType {
    /// Each update rewrites base files.
    CopyOnWrite,
    /// Updates go to log files until a compaction.
    MergeOnRead,
}

/// The format of base files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseFormat {
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
    /// HBase's HFile: metadata tables.
    HFile,
    /// Lance.
    Lance,
}

/// A table's settings. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TableConfig(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    properties: Properties,
    version: Version,
    layout: Layout,
    table_type: TableType,
    base_format: BaseFormat,
    zone: Zone,
}

impl Version {
    /// The code, as in `hoodie.table.version`.
    pub fn code(self) -> u8 {
        self.0
    }

    /// From 8 on, completion times decide which slice a log file belongs to.
    pub fn slices_by_completion_time(self) -> bool {
        self.0 >= 8
    }

    fn layout(self) -> Layout {
        match self.0 {
            0 => Layout::V0,
            1..=7 => Layout::V1,
            _ => Layout::V2,
        }
    }
}

impl BaseFormat {
    /// The extension of its files, with the dot.
    pub fn extension(self) -> &'static str {
        match self {
            BaseFormat::Parquet => ".parquet",
            BaseFormat::Orc => ".orc",
            BaseFormat::HFile => ".hfile",
            BaseFormat::Lance => ".lance",
        }
    }
}

impl TableConfig {
    /// Reads `hoodie.properties`, checks its checksum and refuses what this build cannot read.
    pub fn parse(bytes: &[u8]) -> Result<TableConfig> {
        let properties = Properties::parse(bytes);
        let name = non_empty(&properties, "hoodie.table.name").ok_or_else(|| {
            Error::corrupt("hoodie.properties has no hoodie.table.name").with_hint("the file is empty or was cut off")
        })?;
        check_checksum(&properties, name)?;
        check_table_format(&properties)?;
        let (version, layout) = version_and_layout(&properties)?;
        let table_type = match non_empty(&properties, "hoodie.table.type") {
            None => TableType::CopyOnWrite,
            Some(t) if t.eq_ignore_ascii_case("COPY_ON_WRITE") => TableType::CopyOnWrite,
            Some(t) if t.eq_ignore_ascii_case("MERGE_ON_READ") => TableType::MergeOnRead,
            Some(t) => return Err(Error::unsupported(format!("table type {t:?} is not known"))),
        };
        let base_format = base_format(&properties)?;
        let zone = match non_empty(&properties, "hoodie.table.timeline.timezone") {
            None => Zone::Local,
            Some(z) if z.eq_ignore_ascii_case("LOCAL") => Zone::Local,
            Some(z) if z.eq_ignore_ascii_case("UTC") => Zone::Utc,
            Some(z) => return Err(Error::unsupported(format!("timeline time zone {z:?} is neither LOCAL nor UTC"))),
        };
        Ok(TableConfig(Arc::new(Inner { properties, version, layout, table_type, base_format, zone })))
    }

    /// `hoodie.table.name`.
    pub fn name(&self) -> &str {
        self.get("hoodie.table.name").unwrap_or_default()
    }

    /// `hoodie.database.name`, if any.
    pub fn database(&self) -> Option<&str> {
        self.get("hoodie.database.name")
    }

    /// The table version.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// The timeline layout.
    pub fn layout(&self) -> Layout {
        self.0.layout
    }

    /// Copy on write or merge on read.
    pub fn table_type(&self) -> TableType {
        self.0.table_type
    }

    /// The format of base files.
    pub fn base_format(&self) -> BaseFormat {
        self.0.base_format
    }

    /// True if base files may be of several formats.
    pub fn multiple_base_formats(&self) -> bool {
        self.flag("hoodie.table.multiple.base.file.formats.enable", false)
    }

    /// The zone of instant times.
    pub fn zone(&self) -> Zone {
        self.0.zone
    }

    /// The folder of active instants, relative to the table.
    pub fn timeline_folder(&self) -> String {
        match self.layout() {
            Layout::V0 | Layout::V1 => ".hoodie".to_owned(),
            Layout::V2 => format!(".hoodie/{}", self.get("hoodie.timeline.path").unwrap_or("timeline")),
        }
    }

    /// The folder of archived instants, relative to the table.
    pub fn history_folder(&self) -> String {
        match self.layout() {
            Layout::V0 | Layout::V1 => {
                format!(".hoodie/{}", self.get("hoodie.archivelog.folder").unwrap_or("archived"))
            }
            Layout::V2 => {
                let history = self.get("hoodie.timeline.history.path").unwrap_or("history");
                format!("{}/{history}", self.timeline_folder())
            }
        }
    }

    /// The columns that the table is partitioned by, without a custom key generator's types; empty if it is not.
    pub fn partition_fields(&self) -> Vec<&str> {
        list(self.get("hoodie.table.partition.fields")).map(|f| f.split_once(':').map_or(f, |(name, _)| name)).collect()
    }

    /// True if partition folders are named `<field>=<value>`.
    pub fn hive_style_partitioning(&self) -> bool {
        self.flag("hoodie.datasource.write.hive_style_partitioning", false)
    }

    /// True if partition values are escaped in folder names.
    pub fn url_encoded_partitions(&self) -> bool {
        self.flag("hoodie.datasource.write.partitionpath.urlencode", false)
    }

    /// False if the five `_hoodie_*` columns are not filled.
    pub fn populate_meta_fields(&self) -> bool {
        self.flag("hoodie.populate.meta.fields", true)
    }

    /// The usable partitions of the metadata table; `files` among them means that it lists the table's files.
    pub fn metadata_partitions(&self) -> Vec<&str> {
        list(self.get("hoodie.table.metadata.partitions")).collect()
    }

    /// The dataset that a bootstrapped table was made over.
    pub fn bootstrap_base_path(&self) -> Option<&str> {
        self.get("hoodie.bootstrap.base.path")
    }

    /// Any property; empty values count as absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        non_empty(&self.0.properties, key)
    }

    /// Every property, known or not.
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |v| v.eq_ignore_ascii_case("true"))
    }
}

fn non_empty<'a>(properties: &'a Properties, key: &str) -> Option<&'a str> {
    properties.get(key).map(str::trim).filter(|v| !v.is_empty())
}

fn list(value: Option<&str>) -> impl Iterator<Item = &str> {
    value.unwrap_or_default().split(',').map(str::trim).filter(|v| !v.is_empty())
}

/// The checksum covers the names only: it tells a file of another table, not a torn one.
fn check_checksum(properties: &Properties, name: &str) -> Result<()> {
    let Some(stated) = non_empty(properties, "hoodie.table.checksum") else { return Ok(()) };
    let database = properties.get("hoodie.database.name").unwrap_or_default();
    let actual = crc32fast::hash(format!("{database}.{name}").as_bytes());
    // Writers outside Spark leave the database out of the file, yet take Spark's default one for the checksum.
    let with_default = database.is_empty().then(|| crc32fast::hash(format!("default.{name}").as_bytes()));
    if stated.parse() == Ok(actual) || with_default.is_some_and(|sum| stated.parse() == Ok(sum)) {
        return Ok(());
    }
    Err(Error::corrupt(format!("hoodie.properties states checksum {stated:?}, but {database}.{name} has {actual}"))
        .with_hint("the file was edited or damaged; restore it, or correct hoodie.table.checksum"))
}

/// From 1.1 on, another table format may keep the timeline; its readers see what ours would not.
fn check_table_format(properties: &Properties) -> Result<()> {
    match non_empty(properties, "hoodie.table.format") {
        None => Ok(()),
        Some(f) if f.eq_ignore_ascii_case("native") => Ok(()),
        Some(f) => Err(Error::unsupported(format!("table format {f:?} is not Hudi's own (hoodie.table.format)"))
            .with_hint("read the table with the engine of that format")),
    }
}

fn base_format(properties: &Properties) -> Result<BaseFormat> {
    let name = non_empty(properties, "hoodie.table.base.file.format")
        .or_else(|| non_empty(properties, "hoodie.table.ro.file.format"))
        .unwrap_or("PARQUET");
    match name.to_ascii_uppercase().as_str() {
        "PARQUET" => Ok(BaseFormat::Parquet),
        "ORC" => Ok(BaseFormat::Orc),
        "HFILE" => Ok(BaseFormat::HFile),
        "LANCE" => Ok(BaseFormat::Lance),
        _ => Err(Error::unsupported(format!("base file format {name:?} is not known"))),
    }
}

/// Which version and layout a table has. A table of before 0.6 states neither, or only a layout.
fn version_and_layout(properties: &Properties) -> Result<(Version, Layout)> {
    let layout = match integer(properties, "hoodie.timeline.layout.version")? {
        None => None,
        Some(0) => Some(Layout::V0),
        Some(1) => Some(Layout::V1),
        Some(2) => Some(Layout::V2),
        Some(other) => return Err(Error::unsupported(format!("timeline layout version {other} is not known"))),
    };
    let version = match (integer(properties, "hoodie.table.version")?, layout) {
        (Some(code @ (0..=6 | 8 | 9)), _) => Version(code as u8),
        (Some(code), _) => return Err(refused_version(code)),
        // Releases before 0.9 wrote no version; their layout rules are those of version 0.
        (None, None | Some(Layout::V0 | Layout::V1)) => Version(0),
        (None, Some(Layout::V2)) => {
            return Err(Error::corrupt("hoodie.properties has timeline layout 2 but no hoodie.table.version"));
        }
    };
    let layout = layout.unwrap_or_else(|| version.layout());
    if (layout == Layout::V2) != version.slices_by_completion_time() {
        return Err(Error::corrupt(format!("table version {} cannot have timeline layout {layout:?}", version.code()))
            .with_hint("an upgrade or a downgrade of the table was cut off; finish it with Hudi"));
    }
    Ok((version, layout))
}

fn integer(properties: &Properties, key: &str) -> Result<Option<u32>> {
    let Some(text) = non_empty(properties, key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Error::corrupt(format!("{key} is {text:?}, not a number")))
}

fn refused_version(code: u32) -> Error {
    let why = match code {
        7 => "a bridge between two layouts that this build does not read",
        10 => "whose log files look like base files; this build does not read it yet",
        _ => "which this build does not know",
    };
    Error::new(ErrorKind::Unsupported, format!("table version {code}, {why}"))
        .with_hint("this build reads table versions 0 to 6, 8 and 9")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &str) -> Result<TableConfig> {
        TableConfig::parse(format!("hoodie.table.name=t\n{extra}").as_bytes())
    }

    #[test]
    fn checksums_of_real_tables() {
        for (database, table, sum) in [
            ("default", "v8_trips_8i3u1d", 1197752875u32),
            ("", "v8_trips_8i3u1d", 1197752875),
            ("default", "v6_nonpartitioned_rollback", 1120353670),
            ("", "v8_trips_8i3u1d_metadata", 380169000),
        ] {
            let text = |sum: u32| {
                format!("hoodie.table.name={table}\nhoodie.database.name={database}\nhoodie.table.checksum={sum}\n")
            };
            assert!(TableConfig::parse(text(sum).as_bytes()).is_ok());
            assert_eq!(TableConfig::parse(text(sum + 1).as_bytes()).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn versions_and_layouts() {
        let accepted = [
            ("", 0, Layout::V0),
            ("hoodie.timeline.layout.version=1", 0, Layout::V1),
            ("hoodie.table.version=0\nhoodie.timeline.layout.version=0", 0, Layout::V0),
            ("hoodie.table.version=1", 1, Layout::V1),
            ("hoodie.table.version=6\nhoodie.timeline.layout.version=1", 6, Layout::V1),
            ("hoodie.table.version=8\nhoodie.timeline.layout.version=2", 8, Layout::V2),
            ("hoodie.table.version=9", 9, Layout::V2),
        ];
        for (text, version, layout) in accepted {
            let config = parse(text).unwrap();
            assert_eq!((config.version().code(), config.layout()), (version, layout), "{text}");
        }
        for code in [7, 10, 11, 99] {
            let error = parse(&format!("hoodie.table.version={code}\nhoodie.timeline.layout.version=2")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(&format!("version {code}")), "{error}");
        }
        for text in [
            "hoodie.timeline.layout.version=2",
            "hoodie.table.version=8\nhoodie.timeline.layout.version=1",
            "hoodie.table.version=6\nhoodie.timeline.layout.version=2",
            "hoodie.table.version=six",
            "hoodie.table.version=-1",
        ] {
            assert_eq!(parse(text).unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
        }
    }

    #[test]
    fn refusals_by_name() {
        for text in [
            "hoodie.table.format=iceberg",
            "hoodie.timeline.layout.version=3",
            "hoodie.table.type=COPY_ON_READ",
            "hoodie.table.base.file.format=AVRO",
            "hoodie.table.timeline.timezone=CET",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
            assert!(error.message().contains(text.split('=').nth(1).unwrap()), "{error}");
        }
        assert_eq!(TableConfig::parse(b"").unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn typed_keys() {
        let config = parse(
            "hoodie.table.version=8\nhoodie.table.type=merge_on_read\nhoodie.timeline.path=tl\n\
             hoodie.table.partition.fields=a:SIMPLE, b:TIMESTAMP\nhoodie.table.metadata.partitions=files,record_index\n\
             hoodie.table.timeline.timezone=utc\nhoodie.datasource.write.hive_style_partitioning=true\nx.y=z",
        )
        .unwrap();
        assert_eq!(config.table_type(), TableType::MergeOnRead);
        assert_eq!(config.timeline_folder(), ".hoodie/tl");
        assert_eq!(config.history_folder(), ".hoodie/tl/history");
        assert_eq!(config.partition_fields(), ["a", "b"]);
        assert_eq!(config.metadata_partitions(), ["files", "record_index"]);
        assert_eq!(config.zone(), Zone::Utc);
        assert!(config.hive_style_partitioning() && !config.url_encoded_partitions() && config.populate_meta_fields());
        assert_eq!(config.get("x.y"), Some("z"));
        assert_eq!(parse("").unwrap().history_folder(), ".hoodie/archived");
    }
}
