//! Writing: histories against a model, each operation, what must not be lost, what a write leaves behind wherever it dies, and
//! how writers exclude each other.

mod bench;
mod concurrent;
mod conflict;
mod crash;
mod lock;
mod model;
mod operations;
pub mod rows;
mod services;
pub mod tables;
