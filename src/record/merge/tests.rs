use super::*;
use crate::ErrorKind;
use arrow::array::{ArrayRef, Int32Array, Int64Array};
use proptest::prelude::*;
use std::sync::Arc;

fn config(version: u8, more: &str) -> TableConfig {
    let layout = if version >= 8 { 2 } else { 1 };
    let text =
        format!("hoodie.table.name=t\nhoodie.table.version={version}\nhoodie.timeline.layout.version={layout}\n{more}");
    TableConfig::parse(text.as_bytes()).unwrap()
}

const PAYLOAD: &str = "hoodie.compaction.payload.class=org.apache.hudi.common.model.";

#[test]
fn modes_by_version() {
    let event = "hoodie.compaction.record.merger.strategy=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5";
    for (version, more, wanted) in [
        (6, String::new(), MergeMode::CommitTime),
        (6, "hoodie.table.precombine.field=ts".into(), MergeMode::EventTime),
        (
            6,
            format!("{PAYLOAD}OverwriteWithLatestAvroPayload\nhoodie.table.precombine.field=ts\n{event}"),
            MergeMode::CommitTime,
        ),
        (6, format!("{PAYLOAD}DefaultHoodieRecordPayload"), MergeMode::EventTime),
        (6, format!("{PAYLOAD}AWSDmsAvroPayload"), MergeMode::CommitTime),
        (
            8,
            format!("hoodie.record.merge.mode=EVENT_TIME_ORDERING\n{PAYLOAD}OverwriteWithLatestAvroPayload"),
            MergeMode::EventTime,
        ),
        (
            9,
            "hoodie.record.merge.mode=COMMIT_TIME_ORDERING\nhoodie.table.ordering.fields=a,b".into(),
            MergeMode::CommitTime,
        ),
        (9, "hoodie.table.ordering.fields=a".into(), MergeMode::EventTime),
    ] {
        assert_eq!(MergeRules::new(&config(version, &more)).unwrap().mode(), wanted, "{version} {more}");
    }
}

#[test]
fn what_only_java_decides_is_refused_by_name() {
    for (version, more, named) in [
        (6, format!("{PAYLOAD}PartialUpdateAvroPayload"), "PartialUpdateAvroPayload"),
        (6, "hoodie.compaction.payload.class=com.acme.Mine".into(), "com.acme.Mine"),
        (8, "hoodie.record.merge.mode=CUSTOM\nhoodie.record.merge.strategy.id=1897ef5f".into(), "1897ef5f"),
        (9, "hoodie.table.partial.update.mode=IGNORE_DEFAULTS".into(), "IGNORE_DEFAULTS"),
        (9, "hoodie.table.cdc.enabled=true".into(), "cdc"),
    ] {
        let error = MergeRules::new(&config(version, &more)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(named), "{error}");
    }
}

fn rows(keys: &[&str], ts: &[Option<i64>], deleted: Option<&[Option<bool>]>, rules: &MergeRules) -> Keyed {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..keys.len() as i32));
    let mut columns = vec![("n", ids), ("ts", Arc::new(Int64Array::from(ts.to_vec())) as ArrayRef)];
    if let Some(deleted) = deleted {
        columns.push((DELETED_COLUMN, Arc::new(BooleanArray::from(deleted.to_vec()))));
    }
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    Keyed {
        keys: keys.to_vec().into(),
        partitions: keys.iter().enumerate().map(|(i, _)| if i % 2 == 0 { "a" } else { "b" }).collect::<Vec<_>>().into(),
        deletes: rules.deletes(&rows).unwrap(),
        rows,
    }
}

fn numbers(keyed: &Keyed) -> Vec<i32> {
    keyed.rows.column(0).as_primitive::<arrow::datatypes::Int32Type>().values().to_vec()
}

#[test]
fn one_row_a_key_stands() {
    let commit = MergeRules::new(&config(6, "")).unwrap();
    let event = MergeRules::new(&config(9, "hoodie.table.ordering.fields=ts")).unwrap();
    let keys = ["x", "y", "x", "z", "x"];
    let ts = [Some(5), None, Some(9), None, Some(1)];
    assert_eq!(numbers(&commit.dedupe(rows(&keys, &ts, None, &commit), true).unwrap()), [1, 3, 4]);
    assert_eq!(numbers(&event.dedupe(rows(&keys, &ts, None, &event), true).unwrap()), [1, 2, 3]);
    // Ties go to the later row; partitions tell keys apart unless keys are unique in the table.
    let same = [Some(1); 4];
    let keys = ["x", "x", "x", "y"];
    assert_eq!(numbers(&event.dedupe(rows(&keys, &same, None, &event), true).unwrap()), [2, 3]);
    assert_eq!(numbers(&event.dedupe(rows(&keys, &same, None, &event), false).unwrap()), [1, 2, 3]);
}

#[test]
fn deletes_win_by_the_same_rule() {
    let event = MergeRules::new(&config(9, "hoodie.table.ordering.fields=ts")).unwrap();
    let keyed = rows(&["x", "x"], &[Some(5), Some(4)], Some(&[None, Some(true)]), &event);
    let kept = event.dedupe(keyed, true).unwrap();
    assert_eq!((numbers(&kept), kept.deletes), (vec![0], None));
    // One without an ordering value always wins.
    let keyed = rows(&["x", "x"], &[Some(5), None], Some(&[Some(false), Some(true)]), &event);
    let kept = event.dedupe(keyed, true).unwrap();
    assert_eq!(kept.deletes.unwrap().true_count(), 1);
    let (held, none) = (OrderingValue::Long(5), OrderingValue::Default);
    assert!(event.incoming_wins(&held, &none, true) && !event.incoming_wins(&held, &none, false));
    assert!(event.incoming_wins(&held, &OrderingValue::Double(5.0), false));
}

#[test]
fn delete_markers() {
    let dms = MergeRules::new(&config(6, &format!("{PAYLOAD}AWSDmsAvroPayload"))).unwrap();
    let ops: ArrayRef = Arc::new(StringArray::from(vec![Some("I"), Some("D"), None]));
    let batch = RecordBatch::try_from_iter([("Op", ops.clone())]).unwrap();
    assert_eq!(dms.deletes(&batch).unwrap().unwrap(), BooleanArray::from(vec![false, true, false]));
    let rules = MergeRules::new(&config(
        9,
        "hoodie.record.merge.property.hoodie.payload.delete.field=Op\nhoodie.record.merge.property.hoodie.payload.delete.marker=I",
    ));
    assert!(rules.unwrap().deletes(&batch).unwrap().unwrap().value(0));
    let odd = RecordBatch::try_from_iter([(DELETED_COLUMN, ops)]).unwrap();
    assert_eq!(dms.deletes(&odd).unwrap_err().kind(), ErrorKind::Invalid);
}

fn any_value() -> impl Strategy<Value = OrderingValue> {
    prop_oneof![
        Just(OrderingValue::Default),
        (-3_i64..4).prop_map(OrderingValue::Long),
        (-3_i64..4).prop_map(|n| OrderingValue::Double(n as f64 / 2.0)),
        (any::<i64>(), 0_i8..4).prop_map(|(n, s)| OrderingValue::Decimal(i128::from(n), s)),
        Just(OrderingValue::Decimal(i128::MAX, 0)),
        Just(OrderingValue::Decimal(i128::MIN + 1, 0)),
    ]
}

proptest! {
    #[test]
    fn comparing_is_antisymmetric(a in any_value(), b in any_value()) {
        prop_assert_eq!(a.compare(&b), b.compare(&a).reverse());
    }
}
