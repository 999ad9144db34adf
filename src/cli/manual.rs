//! `hudifs completions` and `hudifs man`: both made from the definition of the arguments, so they cannot differ from it.

use super::args::Cli;
use super::{Stop, output};
use crate::error::Error;
use clap::CommandFactory;
use std::io::Write;
use std::path::Path;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<(), Stop> {
    // The generator panics when its writer fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hudifs", &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}

/// Writes `hudifs.1` and a page for each subcommand.
pub fn pages(directory: &Path) -> Result<(), Stop> {
    clap_mangen::generate_to(Cli::command(), directory)
        .map_err(|e| Error::io(directory.display(), e).with_hint("give an existing directory"))?;
    Ok(())
}
