//! What a table's schema becomes when rows of other columns are written.
//!
//! The rule is that no value is lost, neither one that the table holds nor one that comes: types only widen, columns are only
//! added, and what would not fit is refused with the column named.

use super::arrow::{check_name, field_from_arrow, user_fields};
use super::types::{Field, Record, Slot, Type};
use crate::error::{Error, Result};
use ::arrow::datatypes::{DataType, Field as ArrowField, FieldRef, Schema};

pub(super) fn evolve(table: &Record, incoming: &Schema) -> Result<Record> {
    let fields: Vec<&FieldRef> = user_fields(incoming).collect();
    evolve_record(table, &fields, "", 0)
}

fn evolve_record(table: &Record, incoming: &[&FieldRef], path: &str, depth: usize) -> Result<Record> {
    let mut record = table.clone();
    let mut given = vec![false; record.fields.len()];
    for field in incoming {
        let column = dotted(path, field.name());
        match find(&table.fields, field.name()) {
            Some(index) => {
                if std::mem::replace(given.get_mut(index).ok_or_else(out_of_range)?, true) {
                    return Err(Error::invalid(format!("column {column:?} is given twice, but for case")));
                }
                let known = record.fields.get_mut(index).ok_or_else(out_of_range)?;
                known.slot = evolve_slot(&known.slot, field, &column, &table.name, depth)?;
                // As with Hudi: a column that may be null where it comes from may be null from now on.
                if path.is_empty() && field.is_nullable() && !known.slot.nullable {
                    *known = Field { doc: known.doc.take(), ..Field::nullable(&known.name, known.slot.ty.clone()) };
                }
            }
            // A new column without a value in any row has nothing to keep.
            None if *field.data_type() == DataType::Null => {}
            None => {
                let added =
                    new_field(field, &table.name, depth).map_err(|e| e.context(format!("new column {column:?}")))?;
                if find(record.fields.get(table.fields.len()..).unwrap_or_default(), field.name()).is_some() {
                    return Err(Error::invalid(format!("column {column:?} is given twice, but for case")));
                }
                record.fields.push(added);
            }
        }
    }
    let missing = table.fields.iter().zip(&given).find(|(field, given)| !**given && !field.slot.nullable);
    match missing {
        None => Ok(record),
        Some((field, _)) => Err(Error::invalid(format!(
            "column {:?} is missing, and the table does not let it be null",
            dotted(path, &field.name)
        ))),
    }
}

fn evolve_slot(table: &Slot, incoming: &ArrowField, path: &str, namespace: &str, depth: usize) -> Result<Slot> {
    Ok(Slot { ty: evolve_type(&table.ty, incoming.data_type(), path, namespace, depth)?, ..table.clone() })
}

fn evolve_type(table: &Type, incoming: &DataType, path: &str, namespace: &str, depth: usize) -> Result<Type> {
    match (table, incoming) {
        // A column in which no row has a value.
        (_, DataType::Null) => Ok(table.clone()),
        (_, DataType::Dictionary(_, values)) => evolve_type(table, values, path, namespace, depth),
        (Type::Record(record), DataType::Struct(fields)) => {
            Ok(Type::Record(evolve_record(record, &fields.iter().collect::<Vec<_>>(), path, depth + 1)?))
        }
        (
            Type::Array(items),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item),
        ) => Ok(Type::Array(Box::new(evolve_slot(items, item, path, namespace, depth + 1)?))),
        (Type::Map(values), DataType::Map(entry, _)) => match entry.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let value = fields.get(1).ok_or_else(out_of_range)?;
                Ok(Type::Map(Box::new(evolve_slot(values, value, path, namespace, depth + 1)?)))
            }
            _ => Err(lossy(table, incoming, path)),
        },
        _ => {
            let name = path.rsplit('.').next().unwrap_or(path);
            let field = ArrowField::new(name, incoming.clone(), true);
            let slot =
                field_from_arrow(&field, name, namespace, depth).map_err(|e| e.context(format!("column {path:?}")))?;
            widen(table, &slot.ty).ok_or_else(|| lossy(table, incoming, path))
        }
    }
}

/// The type that holds values of both, if no value is lost by it. Some pairs hang on the values; those are checked row by
/// row when rows are brought into the table's types.
fn widen(table: &Type, incoming: &Type) -> Option<Type> {
    use Type::*;
    Some(match (table, incoming) {
        (Int, Int) | (Long, Int | Long) | (Float, Float) => table.clone(),
        (Double, Int | Long | Float | Double) => Double,
        (Int, Long) => Long,
        // Not float: it does not hold every int.
        (Int | Long | Float, Float | Double) | (Float, Int | Long) => Double,
        (Boolean, Boolean) | (Date, Date) | (TimeMillis, TimeMillis) => table.clone(),
        (TimeMicros, TimeMicros | TimeMillis) | (TimeMillis, TimeMicros) => table.clone(),
        (TimestampMillis | TimestampMicros, TimestampMillis | TimestampMicros) => table.clone(),
        (LocalTimestampMillis | LocalTimestampMicros, LocalTimestampMillis | LocalTimestampMicros) => table.clone(),
        (String | Uuid | Enum(..), String | Uuid | Enum(..)) | (Bytes, Bytes | Fixed(..)) => table.clone(),
        (Fixed(_, size), Fixed(_, other)) if size == other => table.clone(),
        (Decimal { precision, scale, .. }, Decimal { precision: p, scale: s, .. })
            if s <= scale && p - s <= precision - scale =>
        {
            table.clone()
        }
        (Decimal { .. }, Int | Long) => table.clone(),
        _ => return None,
    })
}

fn new_field(field: &FieldRef, namespace: &str, depth: usize) -> Result<Field> {
    check_name(field.name())?;
    let slot = field_from_arrow(field, field.name(), namespace, depth)?;
    Ok(Field::nullable(field.name(), slot.ty))
}

/// By exact name, else by the only name that differs in case.
pub(super) fn find(fields: &[Field], name: &str) -> Option<usize> {
    if let Some(exact) = fields.iter().position(|f| f.name == name) {
        return Some(exact);
    }
    let mut alike = fields.iter().enumerate().filter(|(_, f)| f.name.eq_ignore_ascii_case(name));
    match (alike.next(), alike.next()) {
        (Some((index, _)), None) => Some(index),
        _ => None,
    }
}

fn dotted(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn lossy(table: &Type, incoming: &DataType, path: &str) -> Error {
    let error = Error::invalid(format!("column {path:?}: the table has {table}, the rows have {incoming}"));
    error.with_hint(match (table, incoming) {
        (
            Type::TimestampMillis | Type::TimestampMicros | Type::LocalTimestampMillis | Type::LocalTimestampMicros,
            DataType::Timestamp(..),
        ) => "one of them has a time zone; say which by converting the rows",
        _ => "values could be lost; convert the column to the table's type, or write it under another name",
    })
}

fn out_of_range() -> Error {
    Error::internal("a column out of range")
}
