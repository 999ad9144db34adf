//! The timeline and the view, on tables that real writers made.

mod golden;
