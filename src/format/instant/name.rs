//! Actions, states and the file names of instants, for timeline layouts 0, 1 and 2.
//!
//! A file of the timeline folder is an instant's only if the part after its times is one of a closed set of extensions;
//! everything else there (`hoodie.properties`, half-written `.tmp` files, check sums, folders) is not the timeline's and is
//! passed over, as Hudi does. Layouts 0 and 1 share their names; layout 0 renames one file where layout 1 keeps all states.
//! Format: docs/format.md, "Instants".

use super::InstantTime;
use std::fmt;

/// How instants are named and encoded: `hoodie.timeline.layout.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// States are renames of one file.
    V0,
    /// Flat in `.hoodie`, one time in a name, commit metadata in JSON.
    V1,
    /// In `.hoodie/timeline`, requested and completion time in a completed name, commit metadata in Avro.
    V2,
}

/// What an instant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Base files written: a copy-on-write write, or a completed compaction.
    Commit,
    /// A merge-on-read write.
    DeltaCommit,
    /// File groups replaced: overwrite, delete partition, completed clustering.
    ReplaceCommit,
    /// A pending compaction; completes as a commit.
    Compaction,
    /// A pending log compaction; completes as a delta commit.
    LogCompaction,
    /// A pending clustering of layout 2; completes as a replace commit.
    Clustering,
    /// Old files removed.
    Clean,
    /// A failed write undone.
    Rollback,
    /// The table set back to a savepoint.
    Restore,
    /// A commit kept from cleaning; its time is the commit's own.
    Savepoint,
    /// A metadata-table index being built.
    Indexing,
    /// Schema history.
    SchemaCommit,
}

/// How far an instant has come. Ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Planned.
    Requested,
    /// Running, or left behind by a crash.
    Inflight,
    /// Done and visible.
    Completed,
}

/// One instant, or one file of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// The time that names it.
    pub requested: InstantTime,
    /// The action as its file spells it: a pending compaction is a `Compaction`, a completed one a `Commit`.
    pub action: Action,
    /// The highest state found.
    pub state: State,
    /// When it completed, where its name tells: completed instants of layout 2. A one-timestamp name tells none.
    pub completion: Option<InstantTime>,
}

impl State {
    /// Its name in plans and archives.
    pub fn name(self) -> &'static str {
        match self {
            State::Requested => "REQUESTED",
            State::Inflight => "INFLIGHT",
            State::Completed => "COMPLETED",
        }
    }
}

const REQUESTED: &str = ".requested";
const INFLIGHT: &str = ".inflight";

impl Action {
    /// Every action.
    pub const ALL: [Action; 12] = [
        Action::Commit,
        Action::DeltaCommit,
        Action::ReplaceCommit,
        Action::Compaction,
        Action::LogCompaction,
        Action::Clustering,
        Action::Clean,
        Action::Rollback,
        Action::Restore,
        Action::Savepoint,
        Action::Indexing,
        Action::SchemaCommit,
    ];

    /// Hudi's name, as in file names.
    pub fn name(self) -> &'static str {
        match self {
            Action::Commit => "commit",
            Action::DeltaCommit => "deltacommit",
            Action::ReplaceCommit => "replacecommit",
            Action::Compaction => "compaction",
            Action::LogCompaction => "logcompaction",
            Action::Clustering => "clustering",
            Action::Clean => "clean",
            Action::Rollback => "rollback",
            Action::Restore => "restore",
            Action::Savepoint => "savepoint",
            Action::Indexing => "indexing",
            Action::SchemaCommit => "schemacommit",
        }
    }

    /// The action with that name.
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|a| a.name() == name)
    }

    /// The action under which the instant completes. Files of one time are one instant if this agrees.
    pub fn completes_as(self) -> Action {
        match self {
            Action::Compaction => Action::Commit,
            Action::LogCompaction => Action::DeltaCommit,
            Action::Clustering => Action::ReplaceCommit,
            other => other,
        }
    }

    /// True for the actions that add or replace data files.
    pub fn is_write(self) -> bool {
        matches!(self.completes_as(), Action::Commit | Action::DeltaCommit | Action::ReplaceCommit)
    }

    fn has_completed_name(self) -> bool {
        self.completes_as() == self
    }
}

impl Instant {
    /// The instant that a file of the timeline folder belongs to, with the state that this file stands for; `None` for a file
    /// that is not the timeline's.
    pub fn parse_file_name(layout: Layout, name: &str) -> Option<Instant> {
        let (requested, rest) = split_digits(name)?;
        let (completion, rest) = match (layout, rest.strip_prefix('_')) {
            (Layout::V2, Some(tail)) => split_digits(tail).map(|(c, r)| (Some(c), r))?,
            (_, Some(_)) => return None,
            (_, None) => (None, rest),
        };
        let extension = rest.strip_prefix('.')?;
        let (action, state) = parse_extension(layout, extension)?;
        // Two times in the name of a pending file: the first counts, as in Hudi.
        let completion = completion.filter(|_| state == State::Completed);
        Some(Instant { requested, action, state, completion })
    }

    /// The name of the file that holds this instant in its state.
    pub fn file_name(&self) -> String {
        match (self.state, self.completion) {
            (State::Completed, Some(at)) => format!("{}_{at}.{}", self.requested, self.action.completes_as().name()),
            (State::Completed, None) => format!("{}.{}", self.requested, self.action.completes_as().name()),
            (state, _) => pending_file_name(self.requested, self.action, state),
        }
    }

    /// True when done and visible.
    pub fn is_completed(&self) -> bool {
        self.state == State::Completed
    }
}

/// The name of an instant's file in a pending state.
pub fn pending_file_name(requested: InstantTime, action: Action, state: State) -> String {
    match (action, state) {
        // The one irregular name: an inflight commit does not say that it is a commit.
        (Action::Commit, State::Inflight) => format!("{requested}{INFLIGHT}"),
        (_, State::Inflight) => format!("{requested}.{}{INFLIGHT}", action.name()),
        (_, _) => format!("{requested}.{}{REQUESTED}", action.name()),
    }
}

fn split_digits(text: &str) -> Option<(InstantTime, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((InstantTime::parse(digits)?, rest))
}

fn parse_extension(layout: Layout, extension: &str) -> Option<(Action, State)> {
    if extension == "inflight" {
        return Some((Action::Commit, State::Inflight));
    }
    let (name, state) = if let Some(name) = extension.strip_suffix(REQUESTED) {
        (name, State::Requested)
    } else if let Some(name) = extension.strip_suffix(INFLIGHT) {
        (name, State::Inflight)
    } else {
        (extension, State::Completed)
    };
    let action = Action::from_name(name)?;
    let exists = match (action, state) {
        (Action::Clustering, _) if layout != Layout::V2 => false,
        (Action::Commit, State::Inflight) | (Action::Savepoint, State::Requested) => false,
        (_, State::Completed) => action.has_completed_name(),
        _ => true,
    };
    exists.then_some((action, state))
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Requested => "requested",
            State::Inflight => "inflight",
            State::Completed => "completed",
        })
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.state, self.action, self.requested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(layout: Layout, name: &str) -> Option<(String, Action, State, Option<String>)> {
        Instant::parse_file_name(layout, name)
            .map(|i| (i.requested.to_string(), i.action, i.state, i.completion.map(|c| c.to_string())))
    }

    #[test]
    fn names_of_both_layouts() {
        use Action::*;
        use State::*;
        let both = [
            ("20250126040823628.inflight", Commit, Inflight),
            ("20250126040823628.commit.requested", Commit, Requested),
            ("001.deltacommit.inflight", DeltaCommit, Inflight),
            ("001.compaction.requested", Compaction, Requested),
            ("001.logcompaction.inflight", LogCompaction, Inflight),
            ("001.savepoint.inflight", Savepoint, Inflight),
            ("20201015074529.rollback", Rollback, Completed),
            ("1.restore.requested", Restore, Requested),
            ("1.indexing", Indexing, Completed),
            ("1.schemacommit", SchemaCommit, Completed),
        ];
        for (name, action, state) in both {
            for layout in [Layout::V0, Layout::V1, Layout::V2] {
                let time = name.split('.').next().unwrap().to_owned();
                assert_eq!(parse(layout, name), Some((time, action, state, None)), "{name}");
            }
        }
        let completed = "20230104152218702_20230104152630238.commit";
        assert_eq!(parse(Layout::V1, completed), None);
        assert_eq!(
            parse(Layout::V2, completed),
            Some(("20230104152218702".into(), Commit, Completed, Some("20230104152630238".into())))
        );
        assert_eq!(parse(Layout::V1, "1.clustering.requested"), None);
        assert_eq!(parse(Layout::V2, "1.clustering.requested"), Some(("1".into(), Clustering, Requested, None)));
    }

    #[test]
    fn other_files_are_not_instants() {
        for name in [
            "",
            "hoodie.properties",
            ".20250126040823628.commit.crc",
            "20250126040823628",
            "20250126040823628.",
            "20250126040823628.commit.tmp",
            "20250126040823628.commit.inflight",
            "20250126040823628.compaction",
            "20250126040823628.logcompaction",
            "20250126040823628.clustering",
            "20250126040823628.savepoint.requested",
            "20250126040823628.COMMIT",
            "20250126040823628.commit.REQUESTED",
            "20250126040823628_.commit",
            "_20250126040823628.commit",
            "20250126040823628_1_2.commit",
            "1234567890123456789012345.commit",
        ] {
            for layout in [Layout::V0, Layout::V1, Layout::V2] {
                assert_eq!(parse(layout, name), None, "{name}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_name_is_parsed_without_panic(name in "\\PC{0,60}") {
            for layout in [Layout::V0, Layout::V1, Layout::V2] {
                let _ = Instant::parse_file_name(layout, &name);
            }
        }

        #[test]
        fn names_round_trip(time in "[0-9]{1,17}", at in "[0-9]{17}", action in 0usize..12, state in 0u8..3) {
            let action = Action::ALL[action];
            let state = [State::Requested, State::Inflight, State::Completed][state as usize];
            let completion = (state == State::Completed).then(|| InstantTime::parse(&at).unwrap());
            let action = if state == State::Completed { action.completes_as() } else { action };
            let instant = Instant { requested: InstantTime::parse(&time).unwrap(), action, state, completion };
            let expected = (!(action == Action::Savepoint && state == State::Requested)).then_some(instant);
            prop_assert_eq!(Instant::parse_file_name(Layout::V2, &instant.file_name()), expected);
        }
    }
}
