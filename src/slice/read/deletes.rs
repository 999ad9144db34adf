//! The ordering values of delete blocks as values of rows.

use crate::format::avro::Value;
use crate::record::OrderingValue;

/// Digits behind the point of every decimal in a delete block.
const DECIMAL_SCALE: i8 = 15;

/// What a delete block says of the order of a delete. Java's default is the integer 0, of 32 bits.
pub(super) fn ordering(value: &Value) -> OrderingValue {
    match value {
        Value::Record(fields) => match fields.first() {
            Some((name, Value::Long(0))) if &**name == "int" => OrderingValue::Default,
            Some((name, Value::Bytes(bytes))) if &**name == "decimal" => {
                OrderingValue::Decimal(unscaled(bytes), DECIMAL_SCALE)
            }
            Some((_, value)) => ordering(value),
            None => OrderingValue::Default,
        },
        Value::Null => OrderingValue::Default,
        Value::Boolean(value) => OrderingValue::Boolean(*value),
        Value::Long(value) => OrderingValue::Long(*value),
        Value::Double(value) => OrderingValue::Double(*value),
        Value::Bytes(bytes) => OrderingValue::Bytes(bytes.clone()),
        Value::String(text) => OrderingValue::String(text.clone()),
        Value::Array(items) => OrderingValue::List(items.iter().map(ordering).collect()),
        Value::Map(_) => OrderingValue::Default,
    }
}

/// The low 128 bits of a big-endian number: all that a decimal of 30 digits has.
fn unscaled(bytes: &[u8]) -> i128 {
    let sign = if bytes.first().is_some_and(|b| *b >= 0x80) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| (number << 8) | i128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(name: &str, value: Value) -> Value {
        Value::Record(vec![(name.into(), value)])
    }

    #[test]
    fn values_are_those_of_their_wrappers() {
        assert_eq!(ordering(&Value::Null), OrderingValue::Default);
        assert_eq!(ordering(&wrapped("int", Value::Long(0))), OrderingValue::Default);
        assert_eq!(ordering(&wrapped("long", Value::Long(0))), OrderingValue::Long(0));
        assert_eq!(ordering(&wrapped("int", Value::Long(7))), OrderingValue::Long(7));
        let bytes = vec![0xff, 0x6a];
        assert_eq!(ordering(&wrapped("decimal", Value::Bytes(bytes.clone()))), OrderingValue::Decimal(-150, 15));
        assert_eq!(ordering(&wrapped("bytes", Value::Bytes(bytes.clone()))), OrderingValue::Bytes(bytes));
        let list = Value::Array(vec![wrapped("long", Value::Long(1)), wrapped("string", Value::String("a".into()))]);
        let expected = vec![OrderingValue::Long(1), OrderingValue::String("a".into())];
        assert_eq!(ordering(&wrapped("list", list)), OrderingValue::List(expected));
    }
}
