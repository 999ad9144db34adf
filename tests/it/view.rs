//! The timeline and the view, on tables that real writers made and on tables made by hand.

mod built;
mod damage;
mod golden;
mod lister;
mod merged;
mod rules;
mod timeline;
