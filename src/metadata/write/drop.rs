//! Dropping partitions of the metadata table: first by name, so that no reader uses what then goes away.

use super::setup::{Setup, definitions_path};
use super::target::root;
use crate::error::{ErrorKind, Result};
use crate::format::avro::Container;
use crate::format::instant::{Action, Instant, State};
use crate::format::properties::Properties;
use crate::metadata::{COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX};
use crate::storage::{Removal, Storage};
use crate::timeline::{InstantWriter, Timeline, update_config};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The table's lists of partitions of its metadata table: ready, and being built.
pub(super) const READY: &str = "hoodie.table.metadata.partitions";
pub(super) const INFLIGHT: &str = "hoodie.table.metadata.partitions.inflight";

/// Drops partitions of the metadata table and what depends on them; answers all that were dropped. Dropping `files` drops the
/// metadata table. No other writer may be active; whoever holds the properties must load them again.
pub fn drop_partitions(storage: &Arc<dyn Storage>, data: &Timeline, partitions: &[&str]) -> Result<Vec<String>> {
    let mut setup = Setup::load(&**storage, data.config())?;
    let dropped = with_dependents(&setup.partitions, partitions);
    let keeps = |name: &str| !dropped.contains(name);
    let take_out = |properties: &mut Properties, key: &str| {
        if let Some(list) = properties.get(key) {
            let left: Vec<&str> = list.split(',').map(str::trim).filter(|p| !p.is_empty() && keeps(p)).collect();
            properties.set(key, left.join(","));
        }
    };
    update_config(&**storage, |properties| {
        take_out(properties, READY);
        take_out(properties, INFLIGHT);
    })?;
    let before = setup.definitions.index_definitions.len();
    setup.definitions.index_definitions.retain(|name, _| keeps(name));
    if setup.definitions.index_definitions.len() < before {
        storage.put(&definitions_path(data.config())?, setup.definitions.encode()?.into())?;
    }
    delete_indexing(storage, data, &dropped)?;
    if dropped.contains(FILES) {
        storage.delete(&Removal::metadata_table())?;
    } else {
        for partition in &dropped {
            storage.delete(&Removal::metadata_partition(partition)?)?;
        }
    }
    Ok(dropped.into_iter().collect())
}

/// Deletes what is left of a metadata table that the table's properties do not name.
pub(super) fn delete_leftover(storage: &dyn Storage) -> Result<()> {
    match storage.list(&root()?) {
        Ok(entries) if entries.is_empty() => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => storage.delete(&Removal::metadata_table()),
        Err(e) => Err(e),
    }
}

fn with_dependents(all: &BTreeSet<String>, partitions: &[&str]) -> BTreeSet<String> {
    let named = |name: &str| partitions.contains(&name);
    let goes = |name: &&String| {
        named(name)
            || named(FILES)
            || (*name == PARTITION_STATS && named(COLUMN_STATS))
            || (name.starts_with("secondary_index_") && named(RECORD_INDEX))
    };
    let known = all.iter().filter(goes).cloned();
    known.chain(partitions.iter().map(|p| (*p).to_owned())).collect()
}

/// Deletes pending builds of dropped partitions.
fn delete_indexing(storage: &Arc<dyn Storage>, data: &Timeline, dropped: &BTreeSet<String>) -> Result<()> {
    for instant in data.pending().filter(|i| i.action == Action::Indexing) {
        let requested = Instant { state: State::Requested, completion: None, ..*instant };
        let plan = data.read(&**storage, &requested)?;
        let plan = if plan.is_empty() { None } else { Container::open(&plan)?.first_value()? };
        let built = plan.as_ref().and_then(|p| p.get("indexPartitionInfos")).map(|p| p.items()).unwrap_or_default();
        let mut names = built.iter().filter_map(|info| info.get("metadataPartitionPath")?.as_str());
        if names.any(|name| dropped.contains(name)) {
            InstantWriter::new(storage.clone(), data)?.delete_pending(instant)?;
        }
    }
    Ok(())
}
