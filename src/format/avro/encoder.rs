//! [`Encoder`]: Avro's primitives onto a buffer, for whoever knows the schema by heart.
//!
//! Nothing is checked against a schema: a fast path for rows, of which there are many. Metadata goes through
//! [`super::Writer`], which is led by the schema.

/// A buffer and Avro's binary encodings onto it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    /// An empty buffer.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// A long, or an int, which is encoded alike.
    pub fn long(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest > 0x7f {
            self.out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// A float.
    pub fn float(&mut self, value: f32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// A double.
    pub fn double(&mut self, value: f64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes of written length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.long(value.len() as i64);
        self.out.extend_from_slice(value);
    }

    /// A string; also the key of a map's entry.
    pub fn str(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Bytes without a length: a fixed value, or what is encoded already.
    pub fn raw(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
    }

    /// The index of a union's branch, or of an enum's symbol.
    pub fn branch(&mut self, index: usize) {
        self.long(index as i64);
    }

    /// Begins a block of an array or map. A block of none would end it, so nothing is written for none.
    pub fn block(&mut self, items: usize) {
        if items > 0 {
            self.long(items as i64);
        }
    }

    /// Ends an array or map.
    pub fn end_blocks(&mut self) {
        self.out.push(0);
    }

    /// The bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// True before the first byte.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Forgets the bytes and keeps the buffer.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}
