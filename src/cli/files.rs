//! `hudifs files`.

use super::args::FilesArgs;
use super::output::{self, printable};
use super::target::Target;
use super::{Stop, exit};
use crate::control::problem::Problem;
use crate::control::sink::{FileSink, JsonSink};
use crate::control::types::{FileEntry, FilesQuery, FilesSummary};
use std::io::{self, Write};

/// Lists the files of a view. Partitions that cannot be listed are reported, and make the command fail after the others.
pub fn run(args: &FilesArgs) -> Result<(), Stop> {
    let target = Target::find(&args.read.target, &args.read.store)?;
    let query = FilesQuery { partition: args.partition.clone(), as_of: args.as_of.clone() };
    let mut sink = Watching { sink: sink(args), failed: 0 };
    target.files(args.table.as_deref(), &query, &mut sink)?;
    if sink.failed == 0 { Ok(()) } else { Err(Stop::Said(exit::DAMAGED)) }
}

fn sink(args: &FilesArgs) -> Box<dyn FileSink> {
    if args.read.json {
        Box::new(JsonSink::new(output::stdout()))
    } else {
        Box::new(Text { out: output::stdout(), long: args.long })
    }
}

/// Counts the partitions that failed.
struct Watching {
    sink: Box<dyn FileSink>,
    failed: usize,
}

impl FileSink for Watching {
    fn begin(&mut self, table: &str, instant: Option<&str>) -> io::Result<()> {
        self.sink.begin(table, instant)
    }

    fn file(&mut self, file: &FileEntry) -> io::Result<()> {
        self.sink.file(file)
    }

    fn end(&mut self, failed: &[Problem], summary: &FilesSummary) -> io::Result<()> {
        self.failed = failed.len();
        self.sink.end(failed, summary)?;
        for warning in &summary.warnings {
            output::warn(warning);
        }
        for problem in failed {
            output::complain(&problem.clone().into_error());
        }
        Ok(())
    }
}

/// A path a line, fit for `xargs`; with `--long`, size, instant and file group before it.
struct Text<W> {
    out: W,
    long: bool,
}

impl<W: Write> FileSink for Text<W> {
    fn begin(&mut self, _table: &str, _instant: Option<&str>) -> io::Result<()> {
        Ok(())
    }

    fn file(&mut self, file: &FileEntry) -> io::Result<()> {
        if self.long {
            let size = file.size_bytes.map_or("?".to_owned(), |s| s.to_string());
            write!(self.out, "{size:>12}  {:<17}  {}  ", file.instant, printable(&file.file_id))?;
        }
        let separator = if file.partition.is_empty() { "" } else { "/" };
        writeln!(self.out, "{}{separator}{}", printable(&file.partition), printable(&file.name))
    }

    fn end(&mut self, _failed: &[Problem], summary: &FilesSummary) -> io::Result<()> {
        self.out.flush()?;
        if self.long {
            let size = output::size(summary.size_bytes);
            writeln!(self.out, "{} files in {} partitions, {size}", summary.files, summary.partitions)?;
            if summary.log_only_groups > 0 {
                writeln!(self.out, "{} file groups have only log files and are not shown", summary.log_only_groups)?;
            }
        }
        self.out.flush()
    }
}
