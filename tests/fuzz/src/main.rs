//! One fuzzer for everything that reads Hudi's bytes; `HUDIFS_FUZZ_TARGET` says what of it.
//!
//! One binary and not one a target, since linking is what takes time. `scripts/fuzz` makes the seeds and runs every target.
//! A target must end, without a panic, for any input; the fuzzer's own limits catch what hangs or takes memory.

#![no_main]

mod decoders;
mod files;
mod memory;

use std::sync::LazyLock;

type Target = fn(&[u8]);

/// Every target, by name, one a line: `scripts/fuzz` reads the names here.
const TARGETS: &[(&str, Target)] = &[
    ("properties", decoders::properties),
    ("instant", decoders::instant),
    ("file_name", decoders::file_name),
    ("partition", decoders::partition),
    ("commit", decoders::commit),
    ("plan", decoders::plan),
    ("avro", decoders::avro),
    ("hfile", files::hfile),
    ("log", files::log),
    ("history", memory::history),
    ("table", memory::table),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("HUDIFS_FUZZ_TARGET").unwrap_or_default();
    match TARGETS.iter().find(|(name, _)| *name == wanted) {
        Some((_, target)) => *target,
        None => panic!("HUDIFS_FUZZ_TARGET is {wanted:?}, which is no target"),
    }
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET(bytes));
