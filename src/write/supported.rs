//! What a table must be for this writer to keep it right; anything else is refused by name before anything is touched.

use crate::error::{Error, Result};
use crate::format::properties::{BaseFormat, TableConfig};

/// Table versions that are written.
const VERSIONS: [u8; 3] = [6, 8, 9];

/// `Unsupported` with the setting and the remedy, for a table that cannot be maintained here.
pub(super) fn check(config: &TableConfig) -> Result<()> {
    let version = config.version().code();
    if !VERSIONS.contains(&version) {
        let error = Error::unsupported(format!("writing to a table of version {version}"));
        return Err(error.with_hint(
            "tables of version 6, 8 and 9 are written; upgrade it with Hudi (one write by release 0.15 or later, or the hudi-cli)",
        ));
    }
    if config.base_format() != BaseFormat::Parquet || config.multiple_base_formats() {
        return Err(refused("hoodie.table.base.file.format", "base files other than Parquet"));
    }
    if !config.populate_meta_fields() {
        return Err(refused("hoodie.populate.meta.fields=false", "a table without meta columns"));
    }
    if config.bootstrap_base_path().is_some() {
        return Err(refused("hoodie.bootstrap.base.path", "a bootstrapped table"));
    }
    if is_true(config, "hoodie.table.cdc.enabled") {
        return Err(refused("hoodie.table.cdc.enabled", "a table with change data capture"));
    }
    if is_true(config, "hoodie.datasource.write.drop.partition.columns") {
        return Err(refused(
            "hoodie.datasource.write.drop.partition.columns",
            "a table whose files lack their partition columns",
        ));
    }
    for (key, usual) in [("hoodie.table.partial.update.mode", "NONE"), ("hoodie.table.format", "native")] {
        if let Some(value) = config.get(key).filter(|v| !v.is_empty() && !v.eq_ignore_ascii_case(usual)) {
            return Err(refused(&format!("{key}={value}"), "that way of merging or keeping records"));
        }
    }
    Ok(())
}

fn is_true(config: &TableConfig, key: &str) -> bool {
    config.get(key).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"))
}

fn refused(setting: &str, what: &str) -> Error {
    Error::unsupported(format!("writing to {what} ({setting} in hoodie.properties)"))
        .with_hint("write to it with the engine that made it; reading and mounting it works")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> TableConfig {
        let text = format!("hoodie.table.name=t\nhoodie.timeline.layout.version=1\n{more}");
        TableConfig::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn refusals_name_the_setting() {
        check(&config("hoodie.table.version=6\nhoodie.table.partial.update.mode=NONE\nhoodie.table.cdc.enabled=false"))
            .unwrap();
        for (more, named) in [
            ("hoodie.table.version=5", "version 5"),
            ("hoodie.table.version=6\nhoodie.table.base.file.format=ORC", "base.file.format"),
            ("hoodie.table.version=6\nhoodie.populate.meta.fields=false", "populate.meta.fields"),
            ("hoodie.table.version=6\nhoodie.table.cdc.enabled=true", "cdc.enabled"),
            ("hoodie.table.version=6\nhoodie.bootstrap.base.path=/b", "bootstrap.base.path"),
            ("hoodie.table.version=6\nhoodie.datasource.write.drop.partition.columns=true", "drop.partition.columns"),
            ("hoodie.table.version=6\nhoodie.table.partial.update.mode=IGNORE_DEFAULTS", "IGNORE_DEFAULTS"),
        ] {
            let error = check(&config(more)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Unsupported, "{more}");
            assert!(error.message().contains(named) && error.hint().is_some(), "{error}");
        }
    }
}
