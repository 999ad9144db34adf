//! [`Placement`]: the record of a key in the record index: partition, file group, and when the key came there.
//!
//! A file id of the usual form, a UUID and a number, is kept as two halves of 64 bits and the number; any other as text. What
//! the numbers cannot give back digit for digit is kept as text too.

use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Schema};
use uuid::Uuid;

/// Characters of a UUID with hyphens.
const UUID_LEN: usize = 36;
/// The number of a file id that has none.
const NO_INDEX: i32 = -1;

/// Where a key lives, as its record says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Placement<'a> {
    pub partition: &'a str,
    pub high: i64,
    pub low: i64,
    pub index: i32,
    /// The file id as text, where it is not a UUID and a number.
    pub raw: &'a str,
    /// Milliseconds since the epoch.
    pub instant_ms: i64,
    /// 0: numbers; 1: text.
    pub encoding: i32,
}

impl<'a> Placement<'a> {
    /// The record of a file group.
    pub fn new(partition: &'a str, file_id: &'a str, instant_ms: i64) -> Placement<'a> {
        match numbers(file_id) {
            Some((uuid, index)) => {
                let (high, low) = uuid.as_u64_pair();
                let (high, low) = (high as i64, low as i64);
                Placement { partition, high, low, index, raw: "", instant_ms, encoding: 0 }
            }
            None => {
                let (high, low, index) = (-1, -1, NO_INDEX);
                Placement { partition, high, low, index, raw: file_id, instant_ms, encoding: 1 }
            }
        }
    }

    /// Reads the record that a value holds; `Corrupt` if it holds none.
    pub fn decode(schema: &Schema, value: &'a [u8]) -> Result<Placement<'a>> {
        let mut found = None;
        Cursor::new(schema, value).record(|field, cursor| {
            if field == "recordIndexMetadata" {
                let mut read =
                    Placement { partition: "", high: 0, low: 0, index: 0, raw: "", instant_ms: 0, encoding: 0 };
                if cursor.record(|field, cursor| read.read_field(field, cursor))? {
                    found = Some(read);
                }
            }
            Ok(())
        })?;
        found.ok_or_else(|| Error::corrupt("record without a place of a key"))
    }

    fn read_field(&mut self, field: &str, cursor: &mut Cursor<'_, 'a>) -> Result<()> {
        match field {
            "partitionName" => self.partition = cursor.str()?.unwrap_or_default(),
            "fileIdHighBits" => self.high = cursor.long()?.unwrap_or(0),
            "fileIdLowBits" => self.low = cursor.long()?.unwrap_or(0),
            "fileIndex" => self.index = cursor.long()?.unwrap_or(0) as i32,
            "fileId" => self.raw = cursor.str()?.unwrap_or_default(),
            "instantTime" => self.instant_ms = cursor.long()?.unwrap_or(0),
            "fileIdEncoding" => self.encoding = cursor.long()?.unwrap_or(0) as i32,
            _ => {}
        }
        Ok(())
    }

    /// The file group's id; `Corrupt` for an encoding that nobody has given out.
    pub fn file_id(&self) -> Result<String> {
        match self.encoding {
            0 => {
                let uuid = Uuid::from_u64_pair(self.high as u64, self.low as u64);
                Ok(if self.index == NO_INDEX { uuid.to_string() } else { format!("{uuid}-{}", self.index) })
            }
            1 => Ok(self.raw.to_owned()),
            other => Err(Error::corrupt(format!("file id of encoding {other}"))),
        }
    }
}

/// A file id as a UUID and a number, if they give it back.
fn numbers(file_id: &str) -> Option<(Uuid, i32)> {
    let (text, index) = match file_id.len() {
        UUID_LEN => (file_id, NO_INDEX),
        _ => {
            let (text, index) = file_id.rsplit_once('-')?;
            let number: u32 = index.parse().ok()?;
            (number.to_string() == index).then_some((text, i32::try_from(number).ok()?))?
        }
    };
    let uuid = Uuid::try_parse(text).ok()?;
    (uuid.hyphenated().encode_lower(&mut [0; UUID_LEN]) == text).then_some((uuid, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::write::record::Encoder;
    use crate::metadata::write::schema::RecordFormat;

    #[test]
    fn file_ids_of_every_form_come_back() {
        let id = "5dc94328-3d16-4d4f-bdf7-977f328da8fb";
        let placed = |file_id: &str| Placement::new("region=eu", file_id, 7).encoding;
        assert_eq!(Placement::new("", &format!("{id}-0"), 7).high, 6758006555948764495);
        assert_eq!(Placement::new("", &format!("{id}-0"), 7).low, -4758167908728854277);
        for (file_id, encoding) in [
            (id.to_owned(), 0),
            (format!("{id}-0"), 0),
            (format!("{id}-12"), 0),
            (format!("{id}-01"), 1),
            (format!("{id}--1"), 1),
            (id.to_uppercase(), 1),
            ("00000003-0000-0000-0000-000000000000-0".to_owned(), 0),
            ("f1".to_owned(), 1),
            ("part-0".to_owned(), 1),
            (String::new(), 1),
        ] {
            assert_eq!(placed(&file_id), encoding, "{file_id}");
            for format in [RecordFormat::V6, RecordFormat::V8, RecordFormat::V9] {
                let value = Encoder::new(format).placement(&Placement::new("region=eu", &file_id, 1772922388304));
                let schema = format.schema().unwrap();
                let back = Placement::decode(&schema, &value).unwrap();
                assert_eq!(back.file_id().unwrap(), file_id);
                assert_eq!((back.partition, back.instant_ms), ("region=eu", 1772922388304));
                crate::format::avro::Cursor::new(&schema, &value).finish().unwrap();
            }
        }
    }
}
