//! `hudifs status` and `hudifs refresh`.

use super::args::ReadArgs;
use super::output::{self, Columns, Paint, paint, printable};
use super::target::Target;
use super::{Stop, exit};
use serde_json::Value;
use std::io::{self, Write};

/// Shows what a daemon serves, or how a table stands.
pub fn run(args: &ReadArgs) -> Result<(), Stop> {
    let status = Target::find(&args.target, &args.store)?.status()?;
    if args.json {
        return output::json(&status);
    }
    let mut out = output::stdout();
    head(&mut out, &status)?;
    tables(&mut out, &status)?;
    pins(&mut out, &status)?;
    events(&mut out, &status)?;
    out.flush()?;
    Ok(())
}

/// Looks for new commits; fails if a table could not be refreshed.
pub fn refresh(args: &ReadArgs) -> Result<(), Stop> {
    let refreshed = Target::find(&args.target, &args.store)?.refresh()?;
    if args.json {
        output::json(&refreshed)?;
    } else {
        let mut columns = Columns::new(&["TABLE", "RESULT", "INSTANT"]);
        for table in &refreshed.tables {
            let instant = table.instant.clone().unwrap_or_default();
            columns.row([printable(&table.table), table.result.clone(), instant]);
        }
        let mut out = output::stdout();
        columns.write(&mut out)?;
        out.flush()?;
    }
    let failed: Vec<_> = refreshed.tables.iter().filter_map(|t| t.error.clone()).collect();
    for problem in &failed {
        output::complain(&problem.clone().into_error());
    }
    if failed.is_empty() { Ok(()) } else { Err(Stop::Said(exit::FAILURE)) }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn colour(state: &str) -> Paint {
    match state {
        "serving" => Paint::Green,
        "stale" | "degraded" => Paint::Yellow,
        "failed" => Paint::Red,
        _ => Paint::Plain,
    }
}

fn head(out: &mut impl Write, status: &Value) -> io::Result<()> {
    let mount_point = text(status, "mount_point");
    if mount_point.is_empty() {
        return Ok(());
    }
    let state = text(status, "state");
    writeln!(out, "{mount_point}: {}", paint(colour(state), state))?;
    let started = status.get("started_ms").and_then(Value::as_i64).map(output::time).unwrap_or_default();
    writeln!(out, "  hudifs {}, pid {}, since {started}", text(status, "version"), status["pid"])?;
    writeln!(out, "  socket {}", text(status, "socket"))?;
    writeln!(out, "  log    {}", text(status, "log"))?;
    let passthrough = &status["passthrough"];
    if passthrough["active"] == true {
        writeln!(out, "  reads  by the kernel (passthrough)")?;
    } else {
        writeln!(out, "  reads  by the daemon: {}", text(passthrough, "reason"))?;
    }
    let bytes = |field| status["memory"].get(field).and_then(Value::as_u64).map_or("?".to_owned(), output::size);
    writeln!(out, "  memory {} resident, target {}\n", bytes("resident_bytes"), bytes("target_bytes"))
}

fn tables(out: &mut impl Write, status: &Value) -> io::Result<()> {
    let mut columns = Columns::new(&["TABLE", "STATE", "INSTANT", "TYPE", ">VERSION", "FILES FROM", "WATCH"]);
    for table in list(status, "tables") {
        let version = table.get("table_version").map(Value::to_string).unwrap_or_default();
        let cells = ["state", "instant", "table_type"].map(|f| text(table, f).to_owned());
        let [state, instant, table_type] = cells;
        let pinned = if table["pinned"] == true { " (pinned)" } else { "" };
        columns.row([
            printable(text(table, "name")),
            state,
            format!("{instant}{pinned}"),
            table_type,
            version,
            text(table, "lister").to_owned(),
            text(table, "watch").to_owned(),
        ]);
    }
    columns.write(out)?;
    for table in list(status, "tables") {
        let name = printable(text(table, "name"));
        if let Some(error) = table.get("error") {
            writeln!(out, "{name}: {}", paint(Paint::Red, &printable(text(error, "detail"))))?;
            if !text(error, "hint").is_empty() {
                writeln!(out, "  hint: {}", printable(text(error, "hint")))?;
            }
        }
        lease(out, &name, &table["lease"])?;
        for warning in list(table, "warnings").iter().filter_map(Value::as_str) {
            writeln!(out, "{name}: {}", paint(Paint::Yellow, &printable(warning)))?;
        }
    }
    Ok(())
}

/// Tells what cleaners of other processes are told; nothing where nobody has looked yet.
fn lease(out: &mut impl Write, name: &str, lease: &Value) -> io::Result<()> {
    match text(lease, "state") {
        "held" => writeln!(
            out,
            "{name}: lease on {} instants and {} open files until {}",
            lease["instants"],
            lease["files"],
            lease.get("expires_ms").and_then(Value::as_i64).map(output::time).unwrap_or_default()
        ),
        "off" => writeln!(out, "{name}: no lease: {}", printable(text(lease, "reason"))),
        _ => Ok(()),
    }
}

fn pins(out: &mut impl Write, status: &Value) -> io::Result<()> {
    if list(status, "pins").is_empty() {
        return Ok(());
    }
    let mut columns = Columns::new(&["PIN", "TABLE", "INSTANT", "UNTIL", "FOR"]);
    for pin in list(status, "pins") {
        let until = pin.get("expires_ms").and_then(Value::as_i64).map(output::time).unwrap_or_default();
        let [id, table, instant, label] = ["id", "table", "instant", "label"].map(|f| printable(text(pin, f)));
        columns.row([id, table, instant, until, label]);
    }
    writeln!(out)?;
    columns.write(out)
}

fn events(out: &mut impl Write, status: &Value) -> io::Result<()> {
    for (number, event) in list(status, "events").iter().enumerate() {
        if number == 0 {
            writeln!(out, "\n{}", paint(Paint::Bold, "EVENTS"))?;
        }
        let time = event.get("time_ms").and_then(Value::as_i64).map(output::time).unwrap_or_default();
        let times = event.get("count").and_then(Value::as_u64).unwrap_or(1);
        let repeated = if times > 1 { format!(" ({times} times)") } else { String::new() };
        let place: Vec<_> =
            ["table", "partition", "file"].iter().map(|f| text(event, f)).filter(|t| !t.is_empty()).collect();
        let place = if place.is_empty() { String::new() } else { format!(" [{}]", printable(&place.join(" "))) };
        writeln!(out, "{time}  {}{repeated}{place}: {}", text(event, "code"), printable(text(event, "message")))?;
        if !text(event, "hint").is_empty() {
            writeln!(out, "  hint: {}", printable(text(event, "hint")))?;
        }
    }
    Ok(())
}
