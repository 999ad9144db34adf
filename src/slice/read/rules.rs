//! Which of two changes of one key stands.
//!
//! A delete without an ordering value ("by commit time") beats whatever came before it and yields to whatever comes after it.
//! Format: docs/format.md, "Merging".

use crate::record::{MergeMode, OrderingValue};

/// A change of a key, as far as merging goes by it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub ordering: OrderingValue,
    pub delete: bool,
}

impl Change {
    fn deletes_by_commit_time(&self) -> bool {
        self.delete && self.ordering == OrderingValue::Default
    }
}

/// True if the later of two changes stands. `later_in_block` tells that the later one comes from a delete block.
pub(super) fn later_stands(mode: MergeMode, earlier: &Change, later: &Change, later_in_block: bool) -> bool {
    if mode == MergeMode::CommitTime || later.deletes_by_commit_time() {
        return true;
    }
    if earlier.deletes_by_commit_time() {
        // Both delete: the one without an ordering value blocks nothing that comes after it.
        return !later_in_block;
    }
    later.ordering.compare(&earlier.ordering).is_ge()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ordering: i64) -> Change {
        Change { ordering: OrderingValue::Long(ordering), delete: false }
    }

    fn delete(ordering: Option<i64>) -> Change {
        Change { ordering: ordering.map_or(OrderingValue::Default, OrderingValue::Long), delete: true }
    }

    #[test]
    fn by_commit_time_the_later_stands() {
        for (a, b) in [(row(2), row(1)), (delete(None), row(1)), (row(2), delete(Some(1)))] {
            assert!(later_stands(MergeMode::CommitTime, &a, &b, b.delete));
        }
    }

    #[test]
    fn by_event_time_the_greater_stands_and_of_equals_the_later() {
        let stands = |a: &Change, b: &Change| later_stands(MergeMode::EventTime, a, b, b.delete);
        assert!(stands(&row(1), &row(2)) && stands(&row(1), &row(1)) && !stands(&row(2), &row(1)));
        assert!(stands(&row(1), &delete(Some(1))) && !stands(&row(2), &delete(Some(1))));
        assert!(!stands(&delete(Some(2)), &row(1)) && stands(&delete(Some(2)), &row(2)));
        // Without an ordering value: over all before, under all after.
        assert!(
            stands(&row(5), &delete(None)) && stands(&delete(None), &row(1)) && stands(&delete(Some(5)), &delete(None))
        );
        assert!(!stands(&delete(None), &delete(Some(9))));
        assert!(later_stands(MergeMode::EventTime, &delete(None), &delete(Some(9)), false));
    }
}
