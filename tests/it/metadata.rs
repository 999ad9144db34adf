//! The metadata table as a source of listings.

mod build;
mod damage;
mod golden;
mod record_index;
mod rules;
mod scale;
mod verify;
mod write;
