//! The command line as typed. Nothing here is checked beyond its syntax; [`super::settings`] resolves it.

mod write;

pub use write::*;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// An Apache Hudi table as a directory of plain Parquet files, and writes to it.
#[derive(Debug, Parser)]
#[command(name = "hudifs", version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount a table, or every table below a folder
    Mount(MountArgs),
    /// Unmount
    Umount(UmountArgs),
    /// Show what a daemon serves, or how a table stands
    Status(ReadArgs),
    /// Show the instants of a table
    Timeline(TimelineArgs),
    /// List the files of the read-optimized view
    Files(FilesArgs),
    /// Look for new commits now
    Refresh(ReadArgs),
    /// Check a table and this machine, and explain each finding
    Doctor(DoctorArgs),
    /// Create a table
    Create(CreateArgs),
    /// Update rows whose keys are there, insert the others
    Upsert(RowsArgs),
    /// Add rows without looking for their keys
    Insert(RowsArgs),
    /// Add rows to new files
    BulkInsert(RowsArgs),
    /// Delete the keys of the rows given, which may have key and partition columns only
    Delete(RowsArgs),
    /// Drop whole partitions
    DeletePartition(DeletePartitionArgs),
    /// Replace the content of the partitions that the rows belong to
    InsertOverwrite(RowsArgs),
    /// Replace the content of the table
    InsertOverwriteTable(RowsArgs),
    /// Remove old file versions by the table's policy, but none that a reader holds
    Clean(ServiceArgs),
    /// Merge the log files of a merge-on-read table into its base files
    Compact(ServiceArgs),
    /// Move old instants out of the active timeline
    Archive(ServiceArgs),
    /// Undo failed writes
    Rollback(RollbackArgs),
    /// Verify or rebuild the metadata table
    #[command(subcommand)]
    Metadata(MetadataCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// An existing directory.
        directory: PathBuf,
    },
}

/// How a store is reached; the same for every command that takes a table URI.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// Region of the store
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Endpoint of an S3-compatible store
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Send requests without a signature, for public data
    #[arg(long)]
    pub no_sign_request: bool,
    /// Keep blocks of remote files in this directory
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Bound on the cache directory: MiB, or with a unit as in 10GiB
    #[arg(long, value_name = "SIZE", requires = "cache", value_parser = super::settings::parse_size)]
    pub max_cache_size: Option<u64>,
    /// Memory for blocks of remote files and for loaded partitions: MiB, or with a unit [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = super::settings::parse_size)]
    pub memory_target: Option<u64>,
    /// Where file names come from
    #[arg(long, value_enum, default_value_t = ListingArg::Auto, value_name = "FROM")]
    pub listing: ListingArg,
}

/// Where the files of a partition are listed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListingArg {
    /// The metadata table where it is usable, else the storage
    #[default]
    Auto,
    /// The storage
    Storage,
    /// The metadata table, or fail
    MetadataTable,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormatArg {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// `hudifs mount`
#[derive(Args, Clone, Debug)]
pub struct MountArgs {
    /// The table's base path: a directory, or a file, s3, gs, abfs, or hdfs URI
    #[arg(value_name = "TABLE_URI")]
    pub uri: String,
    /// Where to mount: an existing directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Mount every table found below TABLE_URI, each as a directory
    #[arg(long)]
    pub warehouse: bool,
    /// Stay in the foreground and log to standard error
    #[arg(short, long)]
    pub foreground: bool,
    /// Show the table as of an instant or a time, for good
    #[arg(long, value_name = "TIME")]
    pub as_of: Option<String>,
    /// Write nothing to the table: take no writes through the control socket, and keep no lease that tells cleaners which files
    /// are in use
    #[arg(long)]
    pub read_only: bool,
    /// Unmount a dead mount that is found at DIR, also one of somebody else
    #[arg(long)]
    pub replace_stale: bool,
    /// Let every user in
    #[arg(long, conflicts_with = "allow_root", help_heading = "Access")]
    pub allow_other: bool,
    /// Let root in besides you
    #[arg(long, help_heading = "Access")]
    pub allow_root: bool,
    /// Let fusermount3 unmount when the daemon ends, however it ends; needs --allow-other or --allow-root
    #[arg(long, help_heading = "Access")]
    pub auto_unmount: bool,
    /// Owner of every file [default: you]
    #[arg(long, value_name = "UID", help_heading = "Access")]
    pub uid: Option<u32>,
    /// Group of every file [default: yours]
    #[arg(long, value_name = "GID", help_heading = "Access")]
    pub gid: Option<u32>,
    /// Permissions of files, octal [default: 0644]
    #[arg(long, value_name = "MODE", value_parser = super::settings::parse_mode, help_heading = "Access")]
    pub file_mode: Option<u16>,
    /// Permissions of directories, octal [default: 0755]
    #[arg(long, value_name = "MODE", value_parser = super::settings::parse_mode, help_heading = "Access")]
    pub dir_mode: Option<u16>,
    /// How often to look for new commits where the store cannot tell: seconds, `minimal` or `indefinite` [default: 5]
    #[arg(long, value_name = "TTL", value_parser = super::settings::parse_ttl, help_heading = "Freshness and speed")]
    pub metadata_ttl: Option<super::settings::Ttl>,
    /// Do not rely on inotify, also on a local disk
    #[arg(long, help_heading = "Freshness and speed")]
    pub poll: bool,
    /// Answer every read in the daemon, also where the kernel could read local files by itself
    #[arg(long, help_heading = "Freshness and speed")]
    pub no_passthrough: bool,
    /// Threads that take FUSE requests
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// How long a lease lives unless it is renewed
    #[arg(long, value_name = "SECONDS", hide = true, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub lease_life: Option<u64>,
    /// Write the log to a file in this directory
    #[arg(long, value_name = "DIR", help_heading = "Log")]
    pub log_directory: Option<PathBuf>,
    /// Form of log lines
    #[arg(long, value_enum, default_value_t = LogFormatArg::Text, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: LogFormatArg,
    /// Log decisions and their reasons too
    #[arg(long, help_heading = "Log")]
    pub debug: bool,
    /// How the store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// `hudifs umount`
#[derive(Args, Clone, Debug)]
pub struct UmountArgs {
    /// The mount point, or a path inside the mount
    #[arg(value_name = "MOUNT")]
    pub mount: PathBuf,
    /// Take the mount out of the tree at once, even while it is in use
    #[arg(short, long)]
    pub lazy: bool,
}

/// A command that reads.
#[derive(Args, Clone, Debug)]
pub struct ReadArgs {
    /// A mount point, a path inside a mount, a control socket, or a table URI
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How the store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// `hudifs timeline`
#[derive(Args, Clone, Debug)]
pub struct TimelineArgs {
    /// Target, output and store.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Archived instants too
    #[arg(long)]
    pub all: bool,
    /// The table, where the target serves several
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

/// `hudifs files`
#[derive(Args, Clone, Debug)]
pub struct FilesArgs {
    /// Target, output and store.
    #[command(flatten)]
    pub read: ReadArgs,
    /// The table, where the target serves several
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// Only this partition; an empty one is the base of a table without partitions
    #[arg(long, value_name = "PATH")]
    pub partition: Option<String>,
    /// The view as of an instant or a time
    #[arg(long, value_name = "TIME")]
    pub as_of: Option<String>,
    /// Sizes, instants and file groups too
    #[arg(short, long)]
    pub long: bool,
}

/// `hudifs doctor`
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// A mount point or a table URI; without one, only the machine is checked
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show what was found right, too
    #[arg(short, long)]
    pub verbose: bool,
    /// How the store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_warehouse_reads_like_a_table() {
        let Command::Mount(args) = Cli::parse_from(["hudifs", "mount", "--warehouse", "s3://b/w", "/mnt/w"]).command
        else {
            panic!("not a mount");
        };
        assert!(args.warehouse);
        assert_eq!((args.uri.as_str(), args.directory.to_str()), ("s3://b/w", Some("/mnt/w")));
    }
}
