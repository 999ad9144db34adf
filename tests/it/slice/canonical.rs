//! Rows as text and as one hash, in the form of the golden tables' answers (`sha256` there).
//!
//! Each row is a JSON object with sorted keys and no blanks; floats as their bits, decimals with their scale, times as numbers
//! with a mark, maps as sorted pairs. The rows' texts are sorted, joined and ended by a newline each.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::*;
use base64::Engine;

/// The rows of a batch as texts, of these columns; a column that is not there is null.
pub fn rows(batch: &RecordBatch, columns: &[String]) -> Vec<String> {
    let mut columns: Vec<&String> = columns.iter().collect();
    columns.sort();
    let found: Vec<(String, Option<&ArrayRef>)> =
        columns.iter().map(|c| (serde_json::to_string(c).unwrap(), batch.column_by_name(c))).collect();
    let value = |column: &Option<&ArrayRef>, row| column.map_or("null".to_owned(), |c| value(c, row));
    (0..batch.num_rows())
        .map(|row| {
            let fields: Vec<String> =
                found.iter().map(|(name, column)| format!("{name}:{}", value(column, row))).collect();
            format!("{{{}}}", fields.join(","))
        })
        .collect()
}

/// The hash of all rows.
pub fn hash(mut rows: Vec<String>) -> String {
    rows.sort();
    let mut all = String::new();
    for row in rows {
        all.push_str(&row);
        all.push('\n');
    }
    sha256(all.as_bytes())
}

fn value(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    let text = |t: &str| serde_json::to_string(t).unwrap();
    let bytes = |b: &[u8]| text(&format!("b64:{}", base64::engine::general_purpose::STANDARD.encode(b)));
    let micros = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1,
        TimeUnit::Nanosecond => panic!("nanoseconds"),
    };
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => text(&format!("f32:{:08x}", array.as_primitive::<Float32Type>().value(row).to_bits())),
        DataType::Float64 => text(&format!("f64:{:016x}", array.as_primitive::<Float64Type>().value(row).to_bits())),
        DataType::Utf8 => text(array.as_string::<i32>().value(row)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row)),
        DataType::Decimal128(..) => {
            text(&format!("dec:{}", array.as_primitive::<Decimal128Type>().value_as_string(row)))
        }
        DataType::Date32 => text(&format!("date:{}", array.as_primitive::<Date32Type>().value(row))),
        DataType::Time32(_) => {
            text(&format!("time:{}", i64::from(array.as_primitive::<Time32MillisecondType>().value(row)) * 1000))
        }
        DataType::Time64(_) => text(&format!("time:{}", array.as_primitive::<Time64MicrosecondType>().value(row))),
        DataType::Timestamp(unit, _) => {
            let plain = arrow::compute::cast(array, &DataType::Int64).unwrap();
            text(&format!("ts:{}", plain.as_primitive::<Int64Type>().value(row) * micros(unit)))
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            let items: Vec<String> = (0..items.len()).map(|i| value(&items, i)).collect();
            format!("[{}]", items.join(","))
        }
        DataType::Struct(fields) => {
            let group = array.as_struct();
            let mut pairs: Vec<(String, String)> = fields
                .iter()
                .enumerate()
                .map(|(i, f)| (serde_json::to_string(f.name()).unwrap(), value(group.column(i), row)))
                .collect();
            pairs.sort();
            let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
            format!("{{{}}}", pairs.join(","))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let mut pairs: Vec<String> = (0..entries.len())
                .map(|i| format!("[{},{}]", value(entries.column(0), i), value(entries.column(1), i)))
                .collect();
            pairs.sort();
            format!("{{\"map\":[{}]}}", pairs.join(","))
        }
        other => panic!("no text for {other}"),
    }
}

/// FIPS 180-4.
pub fn sha256(message: &[u8]) -> String {
    let primes: Vec<u64> = (2..312u64).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0)).collect();
    // The first 32 bits behind the point of the roots of the first primes, exactly by whole numbers.
    let root = |n: u64, cube: bool| -> u32 {
        let (mut low, mut high) = (0u128, 1u128 << 40);
        while low + 1 < high {
            let middle = (low + high) / 2;
            let fits = match cube {
                true => middle.pow(3) <= u128::from(n) << 96,
                false => middle.pow(2) <= u128::from(n) << 64,
            };
            if fits { low = middle } else { high = middle }
        }
        low as u32
    };
    let k: Vec<u32> = primes.iter().take(64).map(|p| root(*p, true)).collect();
    let mut h: Vec<u32> = primes.iter().take(8).map(|p| root(*p, false)).collect();
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64) + if padded.len() % 64 > 56 { 64 } else { 0 } - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut w: Vec<u32> = block.chunks(4).map(|b| u32::from_be_bytes(b.try_into().unwrap())).collect();
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut v = h.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let t2 = s0.wrapping_add((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(t1);
            v[0] = t1.wrapping_add(t2);
        }
        for (h, v) in h.iter_mut().zip(v) {
            *h = h.wrapping_add(v);
        }
    }
    h.iter().map(|word| format!("{word:08x}")).collect()
}

#[test]
fn the_hash_is_sha256() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let million = vec![b'a'; 1_000_000];
    assert_eq!(sha256(&million), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for len in 50..70 {
        assert_eq!(sha256(&vec![7; len]).len(), 64);
    }
}
