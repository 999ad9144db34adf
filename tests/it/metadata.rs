//! The metadata table as a source of listings.

mod damage;
mod golden;
mod rules;
mod scale;
