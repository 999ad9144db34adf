//! [`Tree`]: partition paths as directories.
//!
//! `2018/08/31` makes the directories `2018`, `2018/08` and `2018/08/31`; only the last is a partition. The partitions' sorted
//! order by whole path is not the order of a walk (`a-b` sorts before `a/c`), so children are sorted by component.

use crate::storage::TablePath;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The directories that a list of partitions makes; immutable.
#[derive(Debug)]
pub struct Tree {
    partitions: Arc<[TablePath]>,
    nodes: Vec<TreeNode>,
    by_path: HashMap<TablePath, u32>,
}

#[derive(Debug)]
struct TreeNode {
    path: TablePath,
    children: std::ops::Range<u32>,
    partition: bool,
}

impl Tree {
    /// Builds the tree. The root is always there.
    pub fn build(partitions: Arc<[TablePath]>) -> Tree {
        let mut paths: Vec<(TablePath, bool)> = vec![(TablePath::root(), false)];
        let mut known: HashSet<TablePath> = HashSet::new();
        for partition in partitions.iter() {
            paths.push((partition.clone(), true));
            let mut up = partition.parent();
            while !up.is_root() && known.insert(up.clone()) {
                paths.push((up.clone(), false));
                up = up.parent();
            }
        }
        Self::from_paths(partitions, paths)
    }

    fn from_paths(partitions: Arc<[TablePath]>, mut paths: Vec<(TablePath, bool)>) -> Tree {
        let depth = |p: &TablePath| if p.is_root() { 0 } else { 1 + p.as_str().bytes().filter(|b| *b == b'/').count() };
        // By depth, then component by component: the children of one directory lie side by side, sorted by name.
        paths.sort_by(|(a, pa), (b, pb)| {
            depth(a).cmp(&depth(b)).then_with(|| a.as_str().split('/').cmp(b.as_str().split('/'))).then(pb.cmp(pa))
        });
        paths.dedup_by(|later, first| later.0 == first.0);
        let by_path: HashMap<TablePath, u32> = paths.iter().zip(0..).map(|((p, _), at)| (p.clone(), at)).collect();
        let mut nodes: Vec<TreeNode> =
            paths.into_iter().map(|(path, partition)| TreeNode { path, children: 0..0, partition }).collect();
        for at in 1..nodes.len() as u32 {
            let parent = nodes.get(at as usize).and_then(|n| by_path.get(&n.path.parent())).copied().unwrap_or(0);
            if let Some(parent) = nodes.get_mut(parent as usize) {
                let start = if parent.children.is_empty() { at } else { parent.children.start };
                parent.children = start..at + 1;
            }
        }
        Tree { partitions, nodes, by_path }
    }

    /// The partitions that it was built from.
    pub fn partitions(&self) -> &Arc<[TablePath]> {
        &self.partitions
    }

    /// True if there is a directory at that path.
    pub fn contains(&self, path: &TablePath) -> bool {
        self.by_path.contains_key(path)
    }

    /// True if the directory is a partition itself.
    pub fn is_partition(&self, path: &TablePath) -> bool {
        self.node(path).is_some_and(|n| n.partition)
    }

    /// Number of directories in a directory.
    pub fn children_len(&self, path: &TablePath) -> u32 {
        self.node(path).map_or(0, |n| n.children.end - n.children.start)
    }

    /// The `n`th directory in a directory, by name.
    pub fn child(&self, path: &TablePath, n: u32) -> Option<&TablePath> {
        let children = self.node(path)?.children.clone();
        let at = children.start.checked_add(n).filter(|at| *at < children.end)?;
        self.nodes.get(at as usize).map(|n| &n.path)
    }

    /// Paths of all directories, parents before children.
    pub fn paths(&self) -> impl Iterator<Item = &TablePath> {
        self.nodes.iter().map(|n| &n.path)
    }

    fn node(&self, path: &TablePath) -> Option<&TreeNode> {
        self.nodes.get(*self.by_path.get(path)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn tree(paths: &[&str]) -> Tree {
        Tree::build(paths.iter().map(|p| TablePath::parse(p).unwrap()).collect())
    }

    fn children(tree: &Tree, path: &str) -> Vec<String> {
        let path = TablePath::parse(path).unwrap();
        (0..).map_while(|n| tree.child(&path, n)).map(|p| p.file_name().to_owned()).collect()
    }

    #[test]
    fn a_table_without_partitions_has_its_files_in_the_root() {
        let tree = tree(&[""]);
        assert!(tree.is_partition(&TablePath::root()));
        assert_eq!(tree.children_len(&TablePath::root()), 0);
    }

    #[test]
    fn names_that_sort_around_the_slash_stay_with_their_parents() {
        let tree = tree(&["a", "a-b/x", "a/c", "a/b", "a.d/x", "b/c/d"]);
        assert_eq!(children(&tree, ""), ["a", "a-b", "a.d", "b"]);
        assert_eq!(children(&tree, "a"), ["b", "c"]);
        assert_eq!(children(&tree, "b"), ["c"]);
        assert!(tree.is_partition(&TablePath::parse("a").unwrap()), "a partition with partitions below");
        assert!(!tree.is_partition(&TablePath::parse("b/c").unwrap()));
        assert!(!tree.contains(&TablePath::parse("c").unwrap()));
    }

    proptest! {
        #[test]
        fn it_holds_each_prefix_once_and_nothing_else(
            partitions in proptest::collection::btree_set("[a.-]{1,2}(/[a.-]{1,2}){0,3}", 0..40)
        ) {
            let partitions: BTreeSet<TablePath> = partitions.iter().filter_map(|p| TablePath::parse(p).ok()).collect();
            let tree = Tree::build(partitions.iter().cloned().collect());
            let mut expected: BTreeSet<TablePath> = [TablePath::root()].into();
            for p in &partitions {
                let mut p = p.clone();
                while !p.is_root() {
                    expected.insert(p.clone());
                    p = p.parent();
                }
            }
            prop_assert_eq!(tree.paths().count(), expected.len());
            for dir in &expected {
                prop_assert_eq!(tree.is_partition(dir), partitions.contains(dir));
                let want: Vec<_> = expected.iter().filter(|p| !p.is_root() && p.parent() == *dir).cloned().collect();
                let mut want_sorted = want.clone();
                want_sorted.sort_by(|a, b| a.file_name().cmp(b.file_name()));
                let got: Vec<_> = (0..).map_while(|n| tree.child(dir, n)).cloned().collect();
                prop_assert_eq!(got, want_sorted);
            }
        }
    }
}
