//! The metadata table as a source of listings.

mod damage;
mod golden;
mod record_index;
mod rules;
mod scale;
mod write;
