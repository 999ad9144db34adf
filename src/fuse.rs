//! The adapter to the FUSE library, and a mounted session. The only module that names the library.
//!
//! [`Session::mount`] mounts a [`crate::fs::TableFs`] and serves it from threads of its own until it is unmounted.
//! `adapter` turns each request into one call and each result into one reply, `reply` has those that take more than a line; `shared`
//! holds what all requests need, the choice between passthrough and serving included; `notify` holds the threads that tell the kernel what to forget; `mount` looks at the
//! mount point and speaks to mount(2), `helper` to fusermount3.

mod adapter;
mod helper;
mod mount;
mod notify;
mod reply;
mod session;
mod shared;
mod walkers;

pub use notify::Told;
pub use session::{MountOptions, Session};
pub use shared::Serving;
