//! `hudifs timeline`.

use super::Stop;
use super::args::TimelineArgs;
use super::output::{self, Columns};
use super::target::Target;
use std::io::Write;

/// Shows the instants of a table, oldest first.
pub fn run(args: &TimelineArgs) -> Result<(), Stop> {
    let timeline = Target::find(&args.read.target, &args.read.store)?.timeline(args.table.as_deref(), args.all)?;
    if args.read.json {
        return output::json(&timeline);
    }
    let headings = [
        "REQUESTED",
        "ACTION",
        "STATE",
        "COMPLETED",
        "OPERATION",
        ">PARTITIONS",
        ">FILES",
        ">RECORDS",
        ">SIZE",
        ">REPLACED",
    ];
    let mut columns = Columns::new(&headings);
    for instant in &timeline.instants {
        let count = |get: fn(&crate::control::types::CommitCounts) -> u64| {
            instant.counts.as_ref().map(|c| get(c).to_string()).unwrap_or_default()
        };
        let shown = timeline.instant.as_deref() == Some(&instant.requested);
        columns.row([
            format!("{}{}", instant.requested, if shown { " *" } else { "" }),
            instant.action.clone(),
            if instant.archived { "archived".to_owned() } else { instant.state.clone() },
            instant.completed.clone().unwrap_or_default(),
            instant.operation.as_deref().map(output::printable).unwrap_or_default(),
            count(|c| c.partitions),
            count(|c| c.files),
            count(|c| c.records),
            instant.counts.as_ref().map(|c| output::size(c.size_bytes)).unwrap_or_default(),
            count(|c| c.replaced),
        ]);
    }
    let mut out = output::stdout();
    columns.write(&mut out)?;
    out.flush()?;
    Ok(())
}
