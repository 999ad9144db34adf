//! Verifying and rebuilding the metadata table by command.

use super::create::kinds_of;
use crate::error::{Error, Result};
use crate::metadata::write::Finding;
use crate::record::schema::of_snapshot;
use crate::write::{ServiceReport, Writer, verify_metadata};

const VERIFY: &str = "metadata_verify";

/// Compares the metadata table with the storage and the data files: a report for each thing that differs, none where all agrees.
pub fn verify(writer: &Writer) -> Result<Vec<ServiceReport>> {
    writer.table().refresh()?;
    if writer.table().snapshot().config().metadata_partitions().is_empty() {
        return Err(
            Error::not_found("the table has no metadata table").with_hint("`hudifs metadata rebuild` makes one")
        );
    }
    Ok(verify_metadata(writer.table(), true)?.iter().map(report).collect())
}

fn report(finding: &Finding) -> ServiceReport {
    let place = [finding.partition.as_str(), finding.name.as_str()];
    let place = place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let detail = format!("{}, {place}: {}", finding.index, finding.what);
    ServiceReport { service: VERIFY.to_owned(), instant: None, items: 1, detail }
}

/// Makes the metadata table anew, with the partitions named or with those that it has.
pub fn rebuild(writer: &Writer, partitions: &[String]) -> Result<ServiceReport> {
    writer.table().refresh()?;
    let snapshot = writer.table().snapshot();
    let config = snapshot.config();
    let maintained = |name: &&str| matches!(*name, "files" | "column_stats" | "record_index");
    let had: Vec<String> = config.metadata_partitions().into_iter().filter(maintained).map(str::to_owned).collect();
    let wanted = if partitions.is_empty() { had } else { partitions.to_vec() };
    let columns = || {
        let schema = of_snapshot(&snapshot)?.ok_or_else(|| {
            Error::invalid("column_stats of a table whose columns are not known").with_hint("write to the table first")
        })?;
        Ok(schema.arrow().fields().iter().map(|field| field.name().clone()).collect())
    };
    let kinds = kinds_of(&wanted, columns).map_err(|e| e.in_column("partition"))?;
    let anew = !config.metadata_partitions().is_empty();
    writer.build_metadata(&kinds, anew)?;
    let built = writer.table().snapshot();
    let built = built.config().metadata_partitions();
    Ok(ServiceReport {
        service: "metadata_rebuild".to_owned(),
        instant: None,
        items: built.len() as u64,
        detail: built.join(", "),
    })
}
