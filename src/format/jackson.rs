//! JSON laid out as Jackson's default pretty printer does, which is how Hudi writes what it wants people to read.
//!
//! Objects are indented by two spaces a level; arrays stay on the line: `[ {`, `}, {`, `[ "a", "b" ]`, `{ }`.

use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io;

/// `value` as pretty JSON.
pub fn to_vec(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Jackson::default());
    value.serialize(&mut serializer).map_err(|e| Error::internal(format!("to JSON: {e}")).with_source(e))?;
    Ok(out)
}

/// Jackson's default layout of pretty JSON.
#[derive(Default)]
struct Jackson {
    level: usize,
    has_entries: bool,
}

impl Jackson {
    fn line<W: ?Sized + io::Write>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.level).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Formatter for Jackson {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        to.write_all(if first { b" " } else { b", " })
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b" ]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.level += 1;
        self.has_entries = false;
        to.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        self.line(to)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _to: &mut W) -> io::Result<()> {
        self.has_entries = true;
        Ok(())
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.level = self.level.saturating_sub(1);
        match self.has_entries {
            true => self.line(to)?,
            false => to.write_all(b" ")?,
        }
        to.write_all(b"}")
    }
}
