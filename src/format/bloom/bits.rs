//! One row of a filter: its shape, and the bits that keys set.

use crate::error::{Error, Result};
use crate::format::hash::murmur2;
use crate::format::input::Input;

/// The version that every form begins with.
const VERSION: i32 = -1;
/// The hash that Hudi uses; Hadoop's other one, 0, was never written.
const MURMUR: u8 = 1;
/// Most bits that a filter may have: 128 MiB.
const BITS_MAX: u32 = 1 << 30;
/// Most bits that a key may set.
const HASHES_MAX: u32 = 1000;

/// Number of bits, and how many of them a key sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    bits: u32,
    hashes: u32,
}

impl Shape {
    /// The least shape that answers wrongly for a share of `fpp` once `entries` keys are in.
    pub fn for_entries(entries: u32, fpp: f64) -> Result<Shape> {
        let ln2 = std::f64::consts::LN_2;
        let bits = (f64::from(entries) * (-fpp.ln() / (ln2 * ln2))).ceil();
        let hashes = (ln2 * bits / f64::from(entries)).ceil();
        // Not a number fails these too.
        if !(bits >= 1.0 && bits <= f64::from(BITS_MAX) && hashes >= 1.0 && hashes <= f64::from(HASHES_MAX)) {
            return Err(Error::invalid(format!("no bloom filter for {entries} entries and {fpp} wrong positives")));
        }
        Ok(Shape { bits: bits as u32, hashes: hashes as u32 })
    }

    pub fn read(input: &mut Input<'_>) -> Result<Shape> {
        let (version, hashes, kind, bits) = (input.i32()?, input.i32()?, input.u8()?, input.i32()?);
        if version != VERSION || kind != MURMUR {
            return Err(Error::unsupported(format!("version {version} with hash {kind}")));
        }
        let (bits, hashes) = (u32::try_from(bits).unwrap_or(0), u32::try_from(hashes).unwrap_or(0));
        if !(1..=BITS_MAX).contains(&bits) || !(1..=HASHES_MAX).contains(&hashes) {
            return Err(Error::corrupt(format!("{bits} bits, {hashes} of them for a key")));
        }
        Ok(Shape { bits, hashes })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.hashes.to_be_bytes());
        out.push(MURMUR);
        out.extend_from_slice(&self.bits.to_be_bytes());
    }

    /// The bits of a key: each hash is the seed of the next.
    pub fn places(self, key: &[u8]) -> impl Iterator<Item = u32> {
        let mut seed = 0;
        (0..self.hashes).map(move |_| {
            seed = murmur2(key, seed);
            (i64::from(seed) % i64::from(self.bits)).unsigned_abs() as u32
        })
    }
}

/// A row of bits, low bits of a byte first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    shape: Shape,
    bytes: Vec<u8>,
}

impl Bits {
    pub fn new(shape: Shape) -> Bits {
        Bits { shape, bytes: vec![0; shape.bits.div_ceil(8) as usize] }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn add(&mut self, key: &[u8]) {
        for place in self.shape.places(key) {
            if let Some(byte) = self.bytes.get_mut(place as usize / 8) {
                *byte |= 1 << (place % 8);
            }
        }
    }

    /// Sets every bit; those behind the last stay zero.
    pub fn fill(&mut self) {
        self.bytes.fill(0xff);
        let rest = self.shape.bits % 8;
        if let Some(last) = self.bytes.last_mut().filter(|_| rest != 0) {
            *last = (1 << rest) - 1;
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        let is_set = |place: u32| self.bytes.get(place as usize / 8).is_some_and(|byte| byte & 1 << (place % 8) != 0);
        self.shape.places(key).all(is_set)
    }

    pub fn read(input: &mut Input<'_>) -> Result<Bits> {
        let shape = Shape::read(input)?;
        let bytes = input.take(shape.bits.div_ceil(8) as usize)?.to_vec();
        Ok(Bits { shape, bytes })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        self.shape.write(out);
        out.extend_from_slice(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_keys_in_a_filter_that_java_wrote() {
        let shape = Shape::for_entries(60_000, 1e-9).unwrap();
        assert_eq!(shape, Shape { bits: 2_587_966, hashes: 30 });
        let first = |key: &str| shape.places(key.as_bytes()).take(3).collect::<Vec<_>>();
        assert_eq!(first("1dced545-862b-4ceb-8b43-d2a568f6616b"), [2_131_456, 2_149_763, 2_258_964]);
        assert_eq!(first("e96c4396-3fad-413a-a942-4cb36106d721"), [84_657, 1_406_779, 1_982_313]);
    }
}
