//! Making blocks: the frame, and the contents of Avro and delete blocks.
//!
//! Headers are written in the order of their keys' numbers; Java's order is that of a hash map, and readers take any.

use super::{BlockKind, HeaderKey, MAGIC};
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use std::io::Write;

/// Version of the frame.
const FRAME_VERSION: i32 = 1;
/// Version of the contents of Avro and delete blocks.
const CONTENT_VERSION: i32 = 3;
/// Readers in Java hold a block's length in 31 bits.
const BLOCK_LEN_MAX: usize = i32::MAX as usize - (1 << 16);

/// Writes a block; answers its bytes.
///
/// `Unsupported` for a block that no reader could take, of almost 2 GiB; else what `out` says.
pub fn write_block(
    out: &mut (impl Write + ?Sized),
    kind: BlockKind,
    header: &[(HeaderKey, &str)],
    content: &[u8],
) -> Result<u64> {
    let mut keys: Vec<&(HeaderKey, &str)> = header.iter().collect();
    keys.sort_by_key(|(key, _)| *key as u8);
    let mut map = Vec::new();
    map.extend((keys.len() as i32).to_be_bytes());
    for (key, value) in keys {
        map.extend(i32::from(*key as u8).to_be_bytes());
        map.extend((value.len() as i32).to_be_bytes());
        map.extend(value.as_bytes());
    }
    if content.len() + map.len() > BLOCK_LEN_MAX {
        return Err(Error::unsupported(format!("a log block of {} bytes", content.len())));
    }
    // Version, kind, header map, content and its length, footer map without entries, trailing length.
    let len = (4 + 4 + map.len() + 8 + content.len() + 4 + 8) as i64;
    let mut head = Vec::with_capacity(map.len() + 64);
    head.extend(MAGIC);
    head.extend(len.to_be_bytes());
    head.extend(FRAME_VERSION.to_be_bytes());
    head.extend(kind.ordinal().to_be_bytes());
    head.extend(map);
    head.extend((content.len() as i64).to_be_bytes());
    let tail = [0i32.to_be_bytes().as_slice(), &(len + MAGIC.len() as i64).to_be_bytes()].concat();
    for piece in [&head, content, &tail] {
        out.write_all(piece).map_err(|e| Error::io("a log block", e))?;
    }
    Ok((head.len() + content.len() + tail.len()) as u64)
}

/// The block by which the rollback `instant` takes back what `target` wrote before it: tables of version 6.
pub fn rollback_block(instant: InstantTime, target: InstantTime) -> Result<Vec<u8>> {
    let header = [
        (HeaderKey::InstantTime, instant.as_str()),
        (HeaderKey::TargetInstantTime, target.as_str()),
        // The number of the command that rolls back.
        (HeaderKey::CommandBlockType, "0"),
    ];
    let mut out = Vec::new();
    write_block(&mut out, BlockKind::Command, &header, &[])?;
    Ok(out)
}

/// The content of an Avro block, record by record.
#[derive(Debug)]
pub struct AvroContent {
    bytes: Vec<u8>,
    records: i32,
}

impl Default for AvroContent {
    fn default() -> Self {
        AvroContent { bytes: [CONTENT_VERSION.to_be_bytes(), 0i32.to_be_bytes()].concat(), records: 0 }
    }
}

impl AvroContent {
    /// Adds a record, which `encode` appends.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let at = self.bytes.len();
        self.bytes.extend([0; 4]);
        let encoded = encode(&mut self.bytes);
        let len = i32::try_from(self.bytes.len() - at - 4).map_err(|_| Error::unsupported("a record of over 2 GiB"));
        let len = match encoded.and(len) {
            Ok(len) => len,
            Err(e) => {
                self.bytes.truncate(at);
                return Err(e);
            }
        };
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&len.to_be_bytes());
        }
        self.records += 1;
        Ok(())
    }

    /// Records so far.
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True without records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The content.
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(count) = self.bytes.get_mut(4..8) {
            count.copy_from_slice(&self.records.to_be_bytes());
        }
        self.bytes
    }
}

/// The ordering value of a delete, in the wrapper that Java gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum DeleteOrder {
    /// Null.
    Null,
    /// A boolean.
    Boolean(bool),
    /// 32 bits; 0 is Java's word for "none given".
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Text.
    String(String),
    /// An unscaled decimal of 15 digits behind the point.
    Decimal(i128),
    /// Several fields.
    List(Vec<DeleteOrder>),
}

impl DeleteOrder {
    /// No ordering value: the delete takes effect by the time of its commit.
    pub const NONE: DeleteOrder = DeleteOrder::Int(0);

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            DeleteOrder::Null => long(0, out),
            DeleteOrder::Boolean(value) => {
                long(1, out);
                out.push(u8::from(*value));
            }
            DeleteOrder::Int(value) => {
                long(2, out);
                long(i64::from(*value), out);
            }
            DeleteOrder::Long(value) => {
                long(3, out);
                long(*value, out);
            }
            DeleteOrder::Float(value) => {
                long(4, out);
                out.extend(value.to_le_bytes());
            }
            DeleteOrder::Double(value) => {
                long(5, out);
                out.extend(value.to_le_bytes());
            }
            DeleteOrder::Bytes(value) => {
                long(6, out);
                bytes(value, out);
            }
            DeleteOrder::String(value) => {
                long(7, out);
                bytes(value.as_bytes(), out);
            }
            DeleteOrder::Decimal(value) => {
                long(9, out);
                bytes(&minimal(*value), out);
            }
            DeleteOrder::List(values) => {
                long(12, out);
                // The array is an optional one.
                long(1, out);
                if !values.is_empty() {
                    long(values.len() as i64, out);
                }
                values.iter().for_each(|value| value.write(out));
                long(0, out);
            }
        }
    }
}

/// The content of a delete block, key by key.
#[derive(Debug, Default)]
pub struct DeleteContent {
    items: Vec<u8>,
    records: usize,
}

impl DeleteContent {
    /// Adds a delete.
    pub fn push(&mut self, key: &str, partition: &str, order: &DeleteOrder) {
        for text in [key, partition] {
            long(1, &mut self.items);
            bytes(text.as_bytes(), &mut self.items);
        }
        order.write(&mut self.items);
        self.records += 1;
    }

    /// Deletes so far.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True without deletes.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The content.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut list = Vec::with_capacity(self.items.len() + 16);
        if self.records > 0 {
            long(self.records as i64, &mut list);
            list.extend(&self.items);
        }
        list.push(0);
        let len = i32::try_from(list.len()).map_err(|_| Error::unsupported("a delete block of over 2 GiB"))?;
        Ok([CONTENT_VERSION.to_be_bytes().as_slice(), &len.to_be_bytes(), &list].concat())
    }
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

/// Big-endian two's complement in as few bytes as hold it.
fn minimal(value: i128) -> Vec<u8> {
    let all = value.to_be_bytes();
    let fill = if value < 0 { 0xff } else { 0 };
    let redundant =
        all.windows(2).take_while(|pair| matches!(pair, [a, b] if *a == fill && (*b ^ fill) < 0x80)).count();
    all.get(redundant..).unwrap_or(&all).to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::{LogReader, avro_records, deletes};
    use super::*;
    use crate::format::avro::Value;
    use ::bytes::Bytes;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn the_bytes_are_those_of_java() {
        // A rollback, as a table of version 6 has it, but for the order of the header's entries.
        let at = |time| InstantTime::parse(time).unwrap();
        let out = rollback_block(at("20250126040936578"), at("20250126040826878")).unwrap();
        assert_eq!(out.len(), 105);
        let mut reader = LogReader::new(Bytes::from(out.clone()));
        let head = reader.next_block().unwrap().unwrap().head().unwrap();
        assert_eq!((head.instant, head.target), (at("20250126040936578"), Some(at("20250126040826878"))));
        assert_eq!(out[..26], hex("23 48 55 44 49 23 00 00 00 00 00 00 00 5b 00 00 00 01 00 00 00 00 00 00 00 03"));
        assert_eq!(out[85..], hex("00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 61")[..]);
        // An empty delete block, as the metadata table's file groups begin with.
        let mut out = Vec::new();
        let content = DeleteContent::default().finish().unwrap();
        let header = [(HeaderKey::InstantTime, "00000000000000000")];
        assert_eq!(write_block(&mut out, BlockKind::Delete, &header, &content).unwrap(), 80);
        let expected =
            "23 48 55 44 49 23 00 00 00 00 00 00 00 42 00 00 00 01 00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 11
            3030303030303030303030303030303030 00 00 00 00 00 00 00 09 00 00 00 03 00 00 00 01 00 00 00 00 00
            00 00 00 00 00 00 00 48";
        assert_eq!(out, hex(expected));
    }

    #[test]
    fn a_delete_without_an_order_is_as_java_writes_it() {
        let mut content = DeleteContent::default();
        let key = "0123456789abcdef0123456789abcdef0123";
        content.push(key, "city=sao_paulo", &DeleteOrder::NONE);
        let expected =
            [hex("00000003 0000003a 02 02 48"), key.into(), hex("02 1c"), b"city=sao_paulo".to_vec(), hex("04 00 00")];
        assert_eq!(content.finish().unwrap(), expected.concat());
    }

    #[test]
    fn blocks_come_back() {
        let mut avro = AvroContent::default();
        for row in [&b"one"[..], b"", b"three"] {
            avro.push(|out| {
                out.extend(row);
                Ok(())
            })
            .unwrap();
        }
        avro.push(|out| {
            out.extend(b"half");
            Err(Error::invalid("no"))
        })
        .unwrap_err();
        let orders = [
            (DeleteOrder::Null, Value::Null),
            (DeleteOrder::Boolean(true), wrapped("boolean", Value::Boolean(true))),
            (DeleteOrder::Int(-7), wrapped("int", Value::Long(-7))),
            (DeleteOrder::Long(1 << 40), wrapped("long", Value::Long(1 << 40))),
            (DeleteOrder::Float(1.5), wrapped("float", Value::Double(1.5))),
            (DeleteOrder::Double(-0.25), wrapped("double", Value::Double(-0.25))),
            (DeleteOrder::Bytes(vec![1, 2]), wrapped("bytes", Value::Bytes(vec![1, 2]))),
            (DeleteOrder::String("z".into()), wrapped("string", Value::String("z".into()))),
            (DeleteOrder::Decimal(-150), wrapped("decimal", Value::Bytes(vec![0xff, 0x6a]))),
            (
                DeleteOrder::List(vec![DeleteOrder::Long(1), DeleteOrder::Null]),
                wrapped("list", Value::Array(vec![wrapped("long", Value::Long(1)), Value::Null])),
            ),
        ];
        let mut gone = DeleteContent::default();
        for (i, (order, _)) in orders.iter().enumerate() {
            gone.push(&format!("k{i}"), "p", order);
        }
        let mut file = Vec::new();
        let header = [(HeaderKey::InstantTime, "001"), (HeaderKey::Schema, "{}")];
        write_block(&mut file, BlockKind::Avro, &header, &avro.finish()).unwrap();
        write_block(&mut file, BlockKind::Delete, &header, &gone.finish().unwrap()).unwrap();
        let mut reader = LogReader::new(Bytes::from(file));
        let blocks = reader.blocks().unwrap();
        assert_eq!(blocks.iter().map(|b| b.kind).collect::<Vec<_>>(), [BlockKind::Avro, BlockKind::Delete]);
        assert_eq!(blocks[0].header(HeaderKey::Schema), Some("{}"));
        let content = reader.content(&blocks[0]).unwrap();
        let rows: Vec<&[u8]> = avro_records(&content).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(rows, [&b"one"[..], b"", b"three"]);
        let mut found = Vec::new();
        let content = reader.content(&blocks[1]).unwrap();
        deletes(&content, |key, partition, order| {
            found.push((key.to_owned(), partition.map(str::to_owned), order));
            Ok(())
        })
        .unwrap();
        assert_eq!(found.len(), orders.len());
        for (i, ((key, partition, order), (_, expected))) in found.into_iter().zip(orders).enumerate() {
            assert_eq!((key, partition.as_deref(), order), (format!("k{i}"), Some("p"), expected));
        }
    }

    fn wrapped(name: &str, value: Value) -> Value {
        Value::Record(vec![(name.into(), value)])
    }
}
