//! Which slices of one file group go. Pure.
//!
//! Hudi's rules, and three of our own: what a view that is in use shows stays; the newest base file stays even where a pending
//! compaction has begun a slice above it; and a slice goes only when the grace period is over since something took its place.

use super::settings::CleanPolicy;
use crate::format::instant::InstantTime;
use crate::view::{GroupHistory, PastSlice};
use std::collections::{BTreeSet, HashSet};

/// What the choice goes by.
#[derive(Debug)]
pub struct Rules<'r> {
    /// Which slices stay.
    pub policy: CleanPolicy,
    /// The oldest commit whose files stay; `None` where the policy counts versions.
    pub earliest: Option<InstantTime>,
    /// Names in savepoints.
    pub savepointed: &'r HashSet<String>,
    /// What took a slice's place must be older than this.
    pub grace: InstantTime,
    /// Instants whose views are in use.
    pub held: &'r BTreeSet<InstantTime>,
}

/// The slices of `group` that go, as places in its list. `needed_from` is the oldest slice that a pending compaction or
/// log compaction reads.
pub fn doomed(rules: &Rules<'_>, group: &GroupHistory<'_>, needed_from: Option<InstantTime>) -> Vec<usize> {
    let candidates = match (group.replaced_at, rules.earliest) {
        (Some(at), Some(earliest)) if at >= earliest => return Vec::new(),
        (Some(at), _) if at >= rules.grace => return Vec::new(),
        (Some(_), _) => (0..group.slices.len()).collect(),
        (None, Some(earliest)) => by_commits(group, earliest, needed_from),
        (None, None) => by_versions(rules, group, needed_from),
    };
    let kept = kept(rules, group);
    let stays = |slice: &PastSlice<'_>| slice.files.iter().any(|name| rules.savepointed.contains(*name));
    candidates
        .into_iter()
        .filter(|place| !kept.contains(place) && group.slices.get(*place).is_some_and(|slice| !stays(slice)))
        .collect()
}

/// Never the newest slice, nor the newest before the earliest commit that is kept: a query that began then may read it.
fn by_commits(group: &GroupHistory<'_>, earliest: InstantTime, needed_from: Option<InstantTime>) -> Vec<usize> {
    let before = group.slices.iter().position(|s| s.base_instant < earliest);
    let old = |(place, slice): (usize, &PastSlice<'_>)| {
        let stays = place == 0 || Some(place) == before || is_needed(slice, needed_from);
        (!stays && slice.base_instant < earliest).then_some(place)
    };
    group.slices.iter().enumerate().filter_map(old).collect()
}

fn by_versions(rules: &Rules<'_>, group: &GroupHistory<'_>, needed_from: Option<InstantTime>) -> Vec<usize> {
    let CleanPolicy::Versions(keep) = rules.policy else { return Vec::new() };
    // The slice that a compaction reads counts as one of those that are kept.
    let keep = keep.saturating_sub(usize::from(needed_from.is_some()));
    let free = group.slices.iter().enumerate().filter(|(_, slice)| !is_needed(slice, needed_from));
    let old = free.skip(keep).filter(|(place, _)| {
        let newer = place.checked_sub(1).and_then(|p| group.slices.get(p));
        newer.is_some_and(|n| n.base_instant < rules.grace)
    });
    old.map(|(place, _)| place).collect()
}

fn is_needed(slice: &PastSlice<'_>, needed_from: Option<InstantTime>) -> bool {
    needed_from.is_some_and(|from| slice.base_instant >= from)
}

/// What views show that are in use, that of the newest commit among them: of each the slice, and the base file.
fn kept(rules: &Rules<'_>, group: &GroupHistory<'_>) -> HashSet<usize> {
    let mut kept = HashSet::new();
    let mut keep = |at: Option<InstantTime>| {
        let shown = |s: &&PastSlice<'_>| at.is_none_or(|at| s.base_instant <= at);
        let places = || group.slices.iter().enumerate().filter(|(_, s)| shown(s));
        kept.extend(places().map(|(place, _)| place).next());
        kept.extend(places().find(|(_, s)| s.has_base).map(|(place, _)| place));
    };
    for held in rules.held.iter().filter(|held| group.replaced_at.is_none_or(|at| **held < at)) {
        keep(Some(*held));
    }
    if group.replaced_at.is_none() {
        keep(None);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> InstantTime {
        InstantTime::parse(text).unwrap()
    }

    /// Slices newest first; a star marks one without a base file.
    fn group(slices: &[&'static str], replaced_at: Option<&str>) -> GroupHistory<'static> {
        let slice = |text: &&'static str| PastSlice {
            base_instant: time(text.trim_end_matches('*')),
            has_base: !text.ends_with('*'),
            files: vec![text],
        };
        GroupHistory { file_id: "f", replaced_at: replaced_at.map(time), slices: slices.iter().map(slice).collect() }
    }

    struct Case {
        policy: CleanPolicy,
        earliest: Option<&'static str>,
        needed_from: Option<&'static str>,
        grace: &'static str,
        held: &'static [&'static str],
        savepointed: &'static [&'static str],
    }

    const COMMITS: Case = Case {
        policy: CleanPolicy::Commits(10),
        earliest: Some("5"),
        needed_from: None,
        grace: "9",
        held: &[],
        savepointed: &[],
    };
    const VERSIONS: Case = Case { policy: CleanPolicy::Versions(2), earliest: None, ..COMMITS };

    impl Case {
        fn doomed(&self, group: &GroupHistory<'_>) -> Vec<String> {
            let savepointed = self.savepointed.iter().map(|s| (*s).to_owned()).collect();
            let held = self.held.iter().map(|h| time(h)).collect();
            let rules = Rules {
                policy: self.policy,
                earliest: self.earliest.map(time),
                savepointed: &savepointed,
                grace: time(self.grace),
                held: &held,
            };
            let places = super::doomed(&rules, group, self.needed_from.map(time));
            places.iter().map(|p| group.slices[*p].base_instant.to_string()).collect()
        }
    }

    #[test]
    fn by_commits() {
        let slices = group(&["7", "6", "4", "3", "1"], None);
        assert_eq!(COMMITS.doomed(&slices), ["3", "1"]);
        // The newest stays however old it is, and so does the one before the edge.
        assert_eq!(COMMITS.doomed(&group(&["3", "2", "1"], None)), ["2", "1"]);
        assert!(COMMITS.doomed(&group(&["1"], None)).is_empty());
        assert_eq!(Case { savepointed: &["3"], ..COMMITS }.doomed(&slices), ["1"]);
        assert_eq!(Case { needed_from: Some("3"), ..COMMITS }.doomed(&slices), ["1"]);
        // A view as of 3 shows 3; one as of 2 shows 1.
        assert_eq!(Case { held: &["3"], ..COMMITS }.doomed(&slices), ["1"]);
        assert_eq!(Case { held: &["2"], ..COMMITS }.doomed(&slices), ["3"]);
        assert!(Case { held: &["2", "3"], ..COMMITS }.doomed(&slices).is_empty());
    }

    #[test]
    fn replaced_groups_go_once_the_replacement_is_before_the_edge() {
        let slices = ["4", "1"];
        assert_eq!(COMMITS.doomed(&group(&slices, Some("4"))), ["4", "1"]);
        assert!(COMMITS.doomed(&group(&slices, Some("5"))).is_empty());
        assert_eq!(VERSIONS.doomed(&group(&slices, Some("7"))), ["4", "1"]);
        assert!(Case { grace: "7", ..VERSIONS }.doomed(&group(&slices, Some("7"))).is_empty());
        // A view from before the replacement shows the group, one from after it does not.
        assert_eq!(Case { held: &["3"], ..COMMITS }.doomed(&group(&slices, Some("4"))), ["4"]);
        assert_eq!(Case { held: &["4"], ..COMMITS }.doomed(&group(&slices, Some("4"))), ["4", "1"]);
        assert_eq!(Case { savepointed: &["1"], ..COMMITS }.doomed(&group(&slices, Some("4"))), ["4"]);
    }

    #[test]
    fn by_versions() {
        let slices = group(&["7", "6", "4", "3"], None);
        assert_eq!(VERSIONS.doomed(&slices), ["4", "3"]);
        // Of 4 and 3, the younger of what took their places is 6.
        assert_eq!(Case { grace: "6", ..VERSIONS }.doomed(&slices), ["3"]);
        assert_eq!(Case { grace: "4", ..VERSIONS }.doomed(&slices), Vec::<String>::new());
        assert_eq!(Case { needed_from: Some("6"), ..VERSIONS }.doomed(&slices), ["3"]);
        assert_eq!(Case { policy: CleanPolicy::Versions(1), ..VERSIONS }.doomed(&slices), ["6", "4", "3"]);
    }

    /// A pending compaction at 8 has begun a slice of logs; what is read without logs is the base file of 4.
    #[test]
    fn the_base_file_that_is_read_without_logs_stays() {
        let slices = group(&["8*", "4", "3"], None);
        assert_eq!(Case { policy: CleanPolicy::Versions(1), ..VERSIONS }.doomed(&slices), ["3"]);
        let old = group(&["4*", "3*", "2", "1"], None);
        assert_eq!(COMMITS.doomed(&old), ["3", "1"]);
        assert_eq!(Case { held: &["3"], ..COMMITS }.doomed(&old), ["1"]);
    }
}
