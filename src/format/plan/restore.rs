//! Going back to a savepoint: the instants that are taken away, and what that did.

use super::model::{Ready, prepare, ready};
use super::rollback::{RollbackMetadata, instant_info, put_instant};
use super::visit_record;
use crate::error::Result;
use crate::format::instant::{Action, InstantTime};
use std::collections::BTreeMap;

static PLAN: Ready = Ready::new(|| prepare("HoodieRestorePlan"));
static METADATA: Ready = Ready::new(|| prepare("HoodieRestoreMetadata"));

/// `<instant>.restore.requested`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestorePlan {
    /// The instants to roll back, in that order.
    pub targets: Vec<(InstantTime, Action)>,
    /// The savepoint to go back to, where it is stated.
    pub savepoint: Option<InstantTime>,
}

/// `<instant>.restore`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreMetadata {
    /// The restore's own time.
    pub started: String,
    /// Milliseconds that it took.
    pub millis: u64,
    /// The instants that were rolled back, in that order.
    pub targets: Vec<(InstantTime, Action)>,
    /// What each rollback did.
    pub rollbacks: BTreeMap<String, Vec<RollbackMetadata>>,
}

impl RestorePlan {
    /// Reads a plan.
    pub fn parse(bytes: &[u8]) -> Result<RestorePlan> {
        let mut plan = RestorePlan::default();
        visit_record(bytes, |field, cursor| {
            match field {
                "instantsToRollback" => {
                    cursor.array(|cursor| {
                        plan.targets.extend(instant_info(cursor)?);
                        Ok(())
                    })?;
                }
                "savepointToRestoreTimestamp" => plan.savepoint = cursor.str()?.and_then(InstantTime::parse),
                _ => {}
            }
            Ok(())
        })?;
        Ok(plan)
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&PLAN)?.container(|field, writer| match field {
            "instantsToRollback" => writer.array(&self.targets, put_instant),
            "version" => writer.long(2),
            "savepointToRestoreTimestamp" => writer.opt_str(self.savepoint.as_ref().map(InstantTime::as_str)),
            _ => Ok(()),
        })
    }
}

impl RestoreMetadata {
    /// The bytes of the file.
    pub fn encode(&self) -> Result<Vec<u8>> {
        ready(&METADATA)?.container(|field, writer| match field {
            "startRestoreTime" => writer.str(&self.started),
            "timeTakenInMillis" => writer.count(self.millis),
            "instantsToRollback" => {
                let times: Vec<&str> = self.targets.iter().map(|(time, _)| time.as_str()).collect();
                writer.strs(&times)
            }
            "hoodieRestoreMetadata" => writer.map(&self.rollbacks, |rollbacks, writer| {
                writer.array(rollbacks, |rollback, writer| writer.record(|field, writer| rollback.put(field, writer)))
            }),
            "version" => writer.long(1),
            "restoreInstantInfo" => writer.array(&self.targets, put_instant),
            _ => Ok(()),
        })
    }
}
