//! CRC-32C (Castagnoli), eight bytes a step. The crates at hand compute the other polynomial or need `unsafe`.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLES: [[u32; 256]; 8] = tables();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which rejects an index out of bounds")]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let last = tables[table - 1][byte];
            tables[table][byte] = (last >> 8) ^ tables[0][(last & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
        crc = at(t7, a) ^ at(t6, b) ^ at(t5, c) ^ at(t4, d) ^ at(t3, e) ^ at(t2, f) ^ at(t1, g) ^ at(t0, h);
    }
    for byte in tail {
        crc = (crc >> 8) ^ at(&TABLES[0], crc as u8 ^ byte);
    }
    !crc
}

#[expect(clippy::indexing_slicing, reason = "a byte cannot lie outside of 256 entries")]
fn at(table: &[u32; 256], byte: u8) -> u32 {
    table[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit_by_bit(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
            }
        }
        !crc
    }

    #[test]
    fn known_values() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&[]), 0);
    }

    proptest! {
        #[test]
        fn tables_agree_with_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(crc32c(&bytes), bit_by_bit(&bytes));
        }
    }
}
