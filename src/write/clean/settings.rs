//! How a table is cleaned: Hudi's settings by their names, and ours for the grace period.

use super::super::options::WriterOptions;
use crate::error::{Error, Result};
use std::time::Duration;

/// Seconds for which a file stays after something took its place, whatever the policy says.
const GRACE: &str = "hudifs.clean.grace.period.seconds";
const GRACE_DEFAULT: u64 = 600;
const POLICY: [&str; 2] = ["hoodie.clean.policy", "hoodie.cleaner.policy"];
const COMMITS: [&str; 2] = ["hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained"];
const VERSIONS: [&str; 2] = ["hoodie.clean.fileversions.retained", "hoodie.cleaner.fileversions.retained"];
const HOURS: [&str; 2] = ["hoodie.clean.hours.retained", "hoodie.cleaner.hours.retained"];
const AFTER: [&str; 2] = ["hoodie.clean.trigger.max.commits", "hoodie.clean.max.commits"];
const AUTOMATIC: &str = "hoodie.clean.automatic";
/// Slices of a metadata table's file groups that stay.
const METADATA_VERSIONS: usize = 2;

/// Which slices stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanPolicy {
    /// All that readers of the newest commits may use, so many of them.
    Commits(usize),
    /// So many slices of each file group.
    Versions(usize),
    /// All that readers of the last hours may use.
    Hours(u64),
}

/// How a table is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanSettings {
    /// Which slices stay.
    pub policy: CleanPolicy,
    /// For how long a file stays after something took its place.
    pub grace: Duration,
    /// After how many commits it is time to clean.
    pub after_commits: usize,
    /// Clean after commits, not only when asked to.
    pub automatic: bool,
}

impl CleanPolicy {
    /// Hudi's name of it.
    pub fn name(self) -> &'static str {
        match self {
            CleanPolicy::Commits(_) => "KEEP_LATEST_COMMITS",
            CleanPolicy::Versions(_) => "KEEP_LATEST_FILE_VERSIONS",
            CleanPolicy::Hours(_) => "KEEP_LATEST_BY_HOURS",
        }
    }
}

impl CleanSettings {
    /// From a writer's settings.
    pub fn new(options: &WriterOptions) -> Result<CleanSettings> {
        let policy = POLICY.iter().find_map(|key| options.setting(key)).unwrap_or("KEEP_LATEST_COMMITS");
        let policy = match policy.trim().to_ascii_uppercase().as_str() {
            "KEEP_LATEST_COMMITS" => CleanPolicy::Commits(number(options, COMMITS, 10)?),
            "KEEP_LATEST_FILE_VERSIONS" => CleanPolicy::Versions(number(options, VERSIONS, 3)?.max(1)),
            "KEEP_LATEST_BY_HOURS" => CleanPolicy::Hours(number(options, HOURS, 24)?),
            _ => {
                return Err(Error::invalid(format!("{}={policy:?}", POLICY[0])).with_hint(
                    "the policies are KEEP_LATEST_COMMITS, KEEP_LATEST_FILE_VERSIONS, KEEP_LATEST_BY_HOURS",
                ));
            }
        };
        Ok(CleanSettings {
            policy,
            grace: Duration::from_secs(options.parsed(GRACE, GRACE_DEFAULT)?),
            after_commits: number(options, AFTER, 1)?.max(1),
            automatic: options.parsed(AUTOMATIC, true)?,
        })
    }

    /// For the metadata table of the same table, as Hudi has it.
    pub fn of_metadata(self) -> CleanSettings {
        CleanSettings { policy: CleanPolicy::Versions(METADATA_VERSIONS), ..self }
    }

    /// Commits that the policy keeps: archival must keep more.
    pub fn commits_retained(&self) -> usize {
        match self.policy {
            CleanPolicy::Commits(commits) => commits,
            CleanPolicy::Versions(_) | CleanPolicy::Hours(_) => 0,
        }
    }
}

fn number<T: std::str::FromStr>(options: &WriterOptions, keys: [&str; 2], default: T) -> Result<T> {
    let key = keys.into_iter().find(|key| options.setting(key).is_some()).unwrap_or(keys[0]);
    options.parsed(key, default)
}
