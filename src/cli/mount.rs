//! `hudifs mount`, in the foreground or background, and as a helper of mount(8).

use super::args::{Cli, Command, MountArgs};
use super::{Stop, exit, helper, output, settings};
use crate::daemon::background::{Forked, Report, Reporter, fork};
use crate::daemon::{DaemonSettings, run as run_daemon};
use crate::error::Error;
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;

/// Mounts; returns when the mount has ended, or in the background when it is served.
pub fn run(args: &MountArgs) -> Result<(), Stop> {
    let settings = settings::mount(args)?;
    if settings.foreground { foreground(&settings) } else { background(&settings) }
}

fn foreground(settings: &DaemonSettings) -> Result<(), Stop> {
    run_daemon(settings, &mut Reporter::default())
        .map_err(|failure| if failure.table { Stop::table(failure.error) } else { failure.error.into() })
}

fn background(settings: &DaemonSettings) -> Result<(), Stop> {
    match fork()? {
        Forked::Child(mut reporter) => {
            let code = match run_daemon(settings, &mut reporter) {
                Ok(()) => exit::OK,
                Err(_) => exit::FAILURE,
            };
            // The parent has the report; this process has no terminal to say more.
            Err(Stop::Said(code))
        }
        Forked::Parent(Report::Ready { .. }) => Ok(()),
        Forked::Parent(Report::Failed { code, message, hint, log, table }) => {
            let mut problem = crate::control::Problem::new(&code, message);
            problem.hint = hint;
            let error: Error = problem.into_error();
            output::complain(&error);
            if let Some(log) = log {
                let _ = writeln!(std::io::stderr(), "  log: {log}");
            }
            Err(Stop::Said(if table { exit::for_table(&error) } else { exit::for_error(&error) }))
        }
    }
}

/// What mount(8) runs. Its exit codes are mount(8)'s: 1 for a wrong call, 32 for a failed mount.
pub fn as_helper(args: &[OsString]) -> u8 {
    let usage = |message: String| {
        let _ = writeln!(std::io::stderr(), "mount.hudifs: {message}");
        exit::FAILURE
    };
    let call = match helper::translate(args) {
        Ok(call) => call,
        Err(message) => return usage(message),
    };
    let mount = match Cli::try_parse_from(&call.args) {
        Ok(Cli { command: Command::Mount(mount) }) => mount,
        Ok(_) => return usage("not a mount".to_owned()),
        Err(error) => return usage(error.to_string()),
    };
    if call.fake {
        return settings::mount(&mount).map_or_else(|e| usage(e.to_string()), |_| exit::OK);
    }
    match run(&mount) {
        Ok(()) | Err(Stop::PipeClosed) => exit::OK,
        Err(Stop::Said(exit::OK)) => exit::OK,
        Err(Stop::Said(_)) => exit::MOUNT_FAILED,
        Err(Stop::Failed(error, _)) => {
            output::complain(&error);
            exit::MOUNT_FAILED
        }
    }
}
