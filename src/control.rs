//! The control socket: HTTP/1.1 over a Unix socket, JSON in and out.
//!
//! This module knows the wire: [`types`] are the documents, [`server`] the routes and their limits, [`client`] what the
//! command line uses, [`handler`] the questions and [`writes`] the orders that somebody above must answer, [`body`] records on
//! their way in, [`job`] work on its way. It knows neither FUSE nor how tables are mounted. `openapi.json` describes the wire; a test holds it against the running server.

pub mod body;
pub mod client;
pub mod handler;
pub mod job;
pub mod peer;
pub mod problem;
pub mod server;
pub mod sink;
pub mod types;
pub mod writes;

pub use handler::Handler;
pub use problem::{Failure, Problem};
pub use writes::Writes;

/// The OpenAPI 3.1 document, as served under `/openapi.json`.
pub const OPENAPI: &str = include_str!("control/openapi.json");
