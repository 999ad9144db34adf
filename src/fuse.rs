//! The adapter to the FUSE library, and a mounted session. The only module that names the library.
//!
//! [`Session::mount`] mounts a [`crate::fs::TableFs`] and serves it from threads of its own until it is unmounted.
//! `adapter` turns each request into one call and each result into one reply; `backing` keeps the kernel's passthrough files;
//! `notify` is the one thread that tells the kernel what to forget; `mount` speaks to mount(2) and to fusermount3.

mod session;

pub use session::{MountOptions, Serving, Session, Told};
