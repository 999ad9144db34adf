//! The timeline and the view, on tables that real writers made and on tables made by hand.

mod built;
mod damage;
mod golden;
mod lister;
mod merged;
mod refresh;
mod rules;
mod timeline;
