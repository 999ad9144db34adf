//! Storage: one conformance suite for every store, and what each must withstand.

mod conformance;
mod local;
mod mutations;
mod object;
mod proxy;
