//! Tables that are damaged, or made to do harm: no bytes hurt us.
//!
//! Each case damages one thing of a table that was whole, looks at all of it, and judges what was shown. A look must end in
//! time and without a panic. A file that the whole table shows may be missing only if its partition gives an error, or if a
//! warning says that something is wrong: silent loss is the worst failure. Nothing from outside the table is ever read.
//!
//! The choice of damages is random. `HUDIFS_HOSTILE_SEED` (default 1) makes another, `HUDIFS_HOSTILE_ROUNDS` (default 4) sets
//! how many damages each table gets.

mod damage;
mod judge;
mod links;
mod mounts;
mod sizes;
mod words;
