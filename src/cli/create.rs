//! `hudifs create`.

use super::args::CreateArgs;
use super::target::{Target, mount_of};
use super::{Stop, output, settings};
use crate::control::client::Client;
use crate::control::types::{CreateRequest, TableStatus};
use crate::daemon::writing::create_table;
use crate::error::{Error, Result};
use crate::record::TableSchema;
use crate::record::decode::{BodyFormat, Rows};
use std::io::Write;
use std::path::Path;

/// Largest file with an Avro schema, bytes.
const SCHEMA_MAX: u64 = 16 << 20;

/// Creates a table: in the warehouse whose mount the path lies in, or at a URI.
pub fn run(args: &CreateArgs) -> Result<(), Stop> {
    let name = args.uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let mut request = request(args, &name)?;
    let status: TableStatus = match mount_of(Path::new(&args.uri)).filter(|m| !m.below.as_os_str().is_empty()) {
        Some(mount) => {
            let below = mount.below.to_str().ok_or_else(|| Error::invalid("the path is not UTF-8"))?;
            below.clone_into(&mut request.name);
            Client::new(&mount.socket).post("/v1/tables", &request)?
        }
        None => {
            let options = settings::storage_options(&args.store)?;
            create_table(&request, || crate::storage::open_new(&args.uri, &options))?;
            let target = Target::find(&args.uri, &args.store)?;
            target.tables()?.tables.into_iter().next().ok_or_else(|| Error::internal("the new table is not there"))?
        }
    };
    if args.json {
        return output::json(&status);
    }
    let mut out = output::stdout();
    let (kind, version) = (status.table_type.unwrap_or_default(), status.table_version.unwrap_or_default());
    writeln!(out, "created {} ({kind}, version {version})", output::printable(&status.uri))?;
    out.flush()?;
    Ok(())
}

fn request(args: &CreateArgs, name: &str) -> Result<CreateRequest> {
    let metadata = if args.no_metadata { Some(Vec::new()) } else { args.metadata.clone() };
    Ok(CreateRequest {
        name: name.to_owned(),
        hudi_name: args.name.clone(),
        table_type: Some(args.table_type.name().to_owned()),
        table_version: Some(args.table_version),
        record_key: args.record_key.clone(),
        partition_by: args.partition_by.clone(),
        ordering: args.ordering.clone(),
        key_generator: args.key_generator.clone(),
        hive_style: args.hive_style,
        url_encode: args.url_encode,
        schema: args.schema.as_deref().map(|path| schema(path, args.name.as_deref().unwrap_or(name))).transpose()?,
        index: args.index.map(|index| index.name().to_owned()),
        metadata,
        properties: args.set.iter().cloned().collect(),
    })
}

/// The Avro schema in a file, or that of the records in it.
fn schema(path: &Path, table_name: &str) -> Result<serde_json::Value> {
    let name = path.display().to_string();
    let format =
        path.extension().filter(|e| *e != "json" && *e != "avsc").and_then(|_| BodyFormat::of_file_name(&name));
    let text = match format {
        Some(format) => {
            let file = std::fs::File::open(path).map_err(|e| Error::io(&name, e))?;
            let rows = Rows::read(format, Box::new(file), None)?;
            TableSchema::from_arrow(rows.schema(), table_name)?.avro().to_owned()
        }
        None => {
            use std::io::Read;
            let file = std::fs::File::open(path).map_err(|e| Error::io(&name, e))?;
            let mut text = String::new();
            file.take(SCHEMA_MAX).read_to_string(&mut text).map_err(|e| Error::io(&name, e))?;
            text
        }
    };
    serde_json::from_str(&text).map_err(|e| {
        Error::invalid(format!("{name} holds no Avro schema: {e}"))
            .with_hint("give an .avsc file, or a file of records in a known format")
    })
}
