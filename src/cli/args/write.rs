//! The arguments of what changes a table.

use super::StoreArgs;
use crate::record::decode::BodyFormat;
use crate::write::IndexKind;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `hudifs upsert` and the others that take rows.
#[derive(Args, Clone, Debug)]
pub struct RowsArgs {
    /// Files of records, which become one commit; `-` is standard input, as is none at all
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How the records are written [default: by the file's extension]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub format: Option<BodyFormat>,
    /// Where and how.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// `hudifs delete-partition`
#[derive(Args, Clone, Debug)]
pub struct DeletePartitionArgs {
    /// Partitions, as paths relative to the table
    #[arg(value_name = "PARTITION", required = true)]
    pub partitions: Vec<String>,
    /// Where and how.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Where a write goes, and how it is done.
#[derive(Args, Clone, Debug)]
pub struct WriteArgs {
    /// The table: a mount point, a path inside a mount, a control socket, or a table URI
    #[arg(long, value_name = "TARGET")]
    pub table: String,
    /// Show what would be written where, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// A retry with the same key returns the result of the commit that carries it
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Kind of index: bloom, global-bloom, simple, global-simple, bucket, record-index or none [default: the table's]
    #[arg(long, value_name = "KIND", value_parser = index, help_heading = "Writing")]
    pub index: Option<IndexKind>,
    /// A write setting of Hudi, as in hoodie.parquet.max.file.size=125829120; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, help_heading = "Writing")]
    pub set: Vec<(String, String)>,
    /// Leave cleaning, compaction and archival for another time
    #[arg(long, help_heading = "Writing")]
    pub no_services: bool,
    /// Drop indexes of the metadata table that hudifs cannot maintain, instead of refusing the table
    #[arg(long, help_heading = "Writing")]
    pub drop_unsupported_index: bool,
    /// How the store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// A table service.
#[derive(Args, Clone, Debug)]
pub struct ServiceArgs {
    /// A mount point, a path inside a mount, a control socket, or a table URI
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// A setting of Hudi, as in hoodie.cleaner.commits.retained=3; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Drop indexes of the metadata table that hudifs cannot maintain, instead of refusing the table
    #[arg(long)]
    pub drop_unsupported_index: bool,
    /// How the store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// `hudifs rollback`
#[derive(Args, Clone, Debug)]
pub struct RollbackArgs {
    /// The pending instant to roll back [default: every failed write]
    #[arg(long, value_name = "INSTANT")]
    pub instant: Option<String>,
    /// Where and how.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// `hudifs metadata`
#[derive(Subcommand, Clone, Debug)]
pub enum MetadataCommand {
    /// Compare the metadata table with the storage and the base files
    Verify(ServiceArgs),
    /// Make the metadata table anew, or one for a table without; no other writer may be active
    Rebuild(RebuildArgs),
}

/// `hudifs metadata rebuild`
#[derive(Args, Clone, Debug)]
pub struct RebuildArgs {
    /// Its partitions: files, column_stats, record_index [default: those that it has]
    #[arg(long, value_name = "PARTITION,...", value_delimiter = ',')]
    pub partitions: Vec<String>,
    /// Where and how.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// `hudifs create`
#[derive(Args, Clone, Debug)]
pub struct CreateArgs {
    /// The base path of the new table: a URI, a directory, or a path inside the mount of a warehouse
    #[arg(value_name = "TABLE_URI")]
    pub uri: String,
    /// Columns of the record key
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub record_key: Vec<String>,
    /// Columns of the partition path, outermost first
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub partition_by: Vec<String>,
    /// Columns whose greater values win when a key comes twice [default: the later row wins]
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub ordering: Vec<String>,
    /// Copy on write or merge on read
    #[arg(long = "type", value_enum, default_value_t = TableTypeArg::Cow, value_name = "TYPE")]
    pub table_type: TableTypeArg,
    /// Table version: 6, which every Hudi release from 0.14 on can write, or 9
    #[arg(long, value_name = "VERSION", default_value_t = 6)]
    pub table_version: u32,
    /// simple, complex, non_partitioned, timestamp, custom, or a class [default: by the columns]
    #[arg(long, value_name = "NAME")]
    pub key_generator: Option<String>,
    /// Name partition folders column=value
    #[arg(long)]
    pub hive_style: bool,
    /// URL-encode values in the names of partition folders
    #[arg(long)]
    pub url_encode: bool,
    /// Kind of index that the table is meant for: bloom, bucket, record-index and so on [default: bloom]
    #[arg(long, value_name = "KIND", value_parser = index)]
    pub index: Option<IndexKind>,
    /// A file with an Avro schema, or one with records that have the schema [default: that of the first write]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// The table's name in hoodie.properties [default: the base path's last component]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Partitions of the metadata table: files, column_stats, record_index [default: files]
    #[arg(long, value_name = "PARTITION,...", value_delimiter = ',')]
    pub metadata: Option<Vec<String>>,
    /// Make no metadata table
    #[arg(long, conflicts_with = "metadata")]
    pub no_metadata: bool,
    /// More entries of hoodie.properties; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How the store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// The type of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableTypeArg {
    /// Every commit writes base files anew
    Cow,
    /// Commits append logs, which compaction merges
    Mor,
}

impl TableTypeArg {
    /// `hoodie.table.type`'s words.
    pub fn name(self) -> &'static str {
        match self {
            TableTypeArg::Cow => "COPY_ON_WRITE",
            TableTypeArg::Mor => "MERGE_ON_READ",
        }
    }
}

fn format(text: &str) -> Result<BodyFormat, crate::Error> {
    text.parse()
}

fn index(text: &str) -> Result<IndexKind, crate::Error> {
    text.parse()
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no setting; write NAME=VALUE"))?;
    crate::control::writes::check_setting(key).map_err(|failure| failure.0.detail)?;
    Ok((key.to_owned(), value.to_owned()))
}
