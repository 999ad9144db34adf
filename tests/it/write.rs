//! Writing: histories against a model, each operation, and what must not be lost.

mod model;
mod operations;
mod rows;
mod tables;
