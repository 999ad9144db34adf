//! Writing: one request is one commit.
//!
//! A commit's steps are those of docs/format.md, "Writing": requested, inflight, a marker before each file, data files, and
//! under the table's lock the check for conflicts, the metadata table, and the completed instant, which makes all of it visible
//! at once. Nothing that a crash leaves behind before that last step is ever visible.
