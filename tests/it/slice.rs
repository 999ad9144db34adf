//! File slices: merged reads against what other readers found, and logs written and read again.

pub mod canonical;
mod damage;
pub mod golden;
mod logs;
mod merged;
