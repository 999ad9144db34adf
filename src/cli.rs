//! The command line: arguments as typed ([`args`]), settings as resolved ([`settings`]), one function a subcommand.
//!
//! Commands take a mount, a control socket or a table URI (module `target`) and print text or, with `--json`, the control
//! socket's own documents; those that write go through the daemon where there is one, and write by themselves where there is
//! none. A pipe that closes early is not a failure.

pub mod args;
mod create;
mod doctor;
pub mod exit;
mod files;
pub mod helper;
mod manual;
mod mount;
mod output;
mod progress;
pub mod settings;
mod status;
mod target;
mod timeline;
mod umount;
mod write;

use crate::control::writes::ServiceCall;
use crate::error::Error;
use crate::write::Operation;
use args::{Cli, Command, MetadataCommand};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;

/// Why a command ends with a code other than 0.
#[derive(Debug)]
pub enum Stop {
    /// A failure to tell about, and its exit code.
    Failed(Error, u8),
    /// Everything has been said already.
    Said(u8),
    /// Nobody reads the output any more.
    PipeClosed,
}

impl Stop {
    /// A failure to find or open a table.
    pub fn table(error: Error) -> Stop {
        let code = exit::for_table(&error);
        Stop::Failed(error, code)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        let code = exit::for_error(&error);
        Stop::Failed(error, code)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Stop::PipeClosed,
            _ => Error::io("output", error).into(),
        }
    }
}

/// Runs a command line and returns the exit code.
pub fn run(args: Vec<OsString>) -> u8 {
    let subcommands: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let subcommands: Vec<&str> = subcommands.iter().map(String::as_str).chain(["help"]).collect();
    if helper::is_helper_call(&args, &subcommands) {
        return mount::as_helper(&args);
    }
    match Cli::try_parse_from(args) {
        Ok(cli) => finish(dispatch(cli.command)),
        Err(error) => {
            // Help and version are printed to standard output, usage errors to standard error.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(exit::USAGE)
        }
    }
}

fn dispatch(command: Command) -> Result<(), Stop> {
    match command {
        Command::Mount(args) => mount::run(&args),
        Command::Umount(args) => umount::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Refresh(args) => status::refresh(&args),
        Command::Timeline(args) => timeline::run(&args),
        Command::Files(args) => files::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Upsert(args) => write::rows(Operation::Upsert, &args),
        Command::Insert(args) => write::rows(Operation::Insert, &args),
        Command::BulkInsert(args) => write::rows(Operation::BulkInsert, &args),
        Command::Delete(args) => write::rows(Operation::Delete, &args),
        Command::DeletePartition(args) => write::delete_partition(&args),
        Command::InsertOverwrite(args) => write::rows(Operation::InsertOverwrite, &args),
        Command::InsertOverwriteTable(args) => write::rows(Operation::InsertOverwriteTable, &args),
        Command::Clean(args) => write::service(ServiceCall::Clean, &args),
        Command::Compact(args) => write::service(ServiceCall::Compact, &args),
        Command::Archive(args) => write::service(ServiceCall::Archive, &args),
        Command::Rollback(args) => write::service(ServiceCall::Rollback(args.instant), &args.service),
        Command::Metadata(MetadataCommand::Verify(args)) => write::service(ServiceCall::VerifyMetadata, &args),
        Command::Metadata(MetadataCommand::Rebuild(args)) => {
            write::service(ServiceCall::RebuildMetadata(args.partitions), &args.service)
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { directory } => manual::pages(&directory),
    }
}

fn finish(result: Result<(), Stop>) -> u8 {
    match result {
        Ok(()) | Err(Stop::PipeClosed) => exit::OK,
        Err(Stop::Said(code)) => code,
        Err(Stop::Failed(error, code)) => {
            output::complain(&error);
            code
        }
    }
}
