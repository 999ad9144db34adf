use super::*;
use proptest::prelude::*;

fn time(text: &str) -> InstantTime {
    InstantTime::parse(text).unwrap()
}

fn external(name: &str, instant: &str, prefix: Option<&str>) -> FileName<'static> {
    FileName::External(ExternalName {
        name: Box::leak(name.to_owned().into_boxed_str()),
        prefix: prefix.map(|p| Cow::Owned(p.to_owned())),
        instant: time(instant),
    })
}

#[test]
fn base_files() {
    let name = "036ded81-9ed4-479f-bcea-7145dfa0079b-0_1-1112-3191_20251220210129235.parquet";
    let FileName::Base(base) = FileName::parse(name) else { panic!() };
    assert_eq!(base.file_id, "036ded81-9ed4-479f-bcea-7145dfa0079b-0");
    assert_eq!(base.write_token, "1-1112-3191");
    assert_eq!(base.instant, time("20251220210129235"));
    assert_eq!(base.extension, ".parquet");
    let old = FileName::parse("f_17_20161010.parquet");
    assert!(matches!(old, FileName::Base(BaseName { write_token: "17", .. })), "{old:?}");
    let copied = FileName::parse("f_1-0-1_001.parquet.tmp");
    assert!(matches!(copied, FileName::Base(BaseName { extension: ".parquet.tmp", .. })), "{copied:?}");
    let bare = FileName::parse("f_1-0-1_001");
    assert!(matches!(bare, FileName::Base(BaseName { extension: "", .. })), "{bare:?}");
}

#[test]
fn names_that_are_not_hudis() {
    for name in [
        "",
        "part-0.parquet",
        "file_1.parquet",
        "000000_0",
        "000000_0.parquet",
        "part-00000-596d8885-4c76-4436-89ff-6a60cbf497fb-c000.snappy.parquet",
        "_f_1.parquet",
        "__1.parquet",
        "a_b_c.parquet",
        "a_b_.parquet",
        "a_b_12345678901234567890123456.parquet",
        "_SUCCESS",
        "_temporary_0_1x",
    ] {
        assert_eq!(FileName::parse(name), FileName::Foreign, "{name}");
    }
    for name in
        [".f_1-0-1_001.parquet", ".f_1-0-1_001.parquet.crc", ".f_001.log.1_1-0-1.crc", ".x", "._f_1_001.parquet"]
    {
        assert_eq!(FileName::parse(name), FileName::Hidden, "{name}");
    }
    for name in [".hoodie_partition_metadata", ".hoodie_partition_metadata.parquet", ".hoodie_partition_metadata_3"] {
        assert_eq!(FileName::parse(name), FileName::PartitionMetadata, "{name}");
    }
}

#[test]
fn marked_names() {
    let cases = [
        ("data.parquet_20240101000000_hudiext", external("data.parquet", "20240101000000", None)),
        (
            "data.parquet_20240101000000_fg%3Dbucket-0_hudiext",
            external("data.parquet", "20240101000000", Some("bucket-0")),
        ),
        ("data.parquet_1_fg%3Da%2Fb%3D1_hudiext", external("data.parquet", "1", Some("a/b=1"))),
        ("file_1.parquet_20240101000000_hudiext", external("file_1.parquet", "20240101000000", None)),
        ("000000_0_20240101000000_hudiext", external("000000_0", "20240101000000", None)),
        ("a_b_c_7_hudiext", external("a_b_c", "7", None)),
        ("sp ace%=#.parquet_7_hudiext", external("sp ace%=#.parquet", "7", None)),
        // Looks native before the mark.
        ("f_1-0-1_001.parquet_002_hudiext", external("f_1-0-1_001.parquet", "002", None)),
        (".hidden_7_hudiext", external(".hidden", "7", None)),
        // The second mark belongs to the prefix.
        ("d_7_fg%3Dx_fg%3Dy_hudiext", external("d", "7", Some("x_fg=y"))),
        ("d_7_hudiext_8_hudiext", external("d_7_hudiext", "8", None)),
    ];
    for (name, expected) in cases {
        assert_eq!(FileName::parse(name), expected, "{name}");
    }
    for name in [
        "_hudiext",
        "data.parquet_hudiext",
        "_7_hudiext",
        "data.parquet_7_uv_hudiext",
        "data.parquet_20240101000000_2_uv_hudiext",
        "data.parquet__hudiext",
        "._7_hudiext",
        ".._7_hudiext",
        "d_7_fg%3D_hudiext",
        "d_7_fg%3D..%2Fx_hudiext",
        "d_7_fg%3D%2Fetc_hudiext",
        "d_7_fg%3Da%2F_hudiext",
        "d_7_fg%3Da%00b_hudiext",
    ] {
        assert!(matches!(FileName::parse(name), FileName::BadMark(_)), "{name}");
    }
}

#[test]
fn log_files() {
    let log = |file_id, instant, version, write_token, cdc| {
        FileName::Log(LogName { file_id, instant: time(instant), version, write_token, cdc })
    };
    let cases = [
        (".54e9-0_20250109233025121.log.1_0-51-115", log("54e9-0", "20250109233025121", 1, "0-51-115", false)),
        (".54e9-0_20250109233025121.log.1_0-51-115.cdc", log("54e9-0", "20250109233025121", 1, "0-51-115", true)),
        (".f_001.log.12", log("f", "001", 12, "", false)),
        (".a.b_c_001.log.2_1-0-1", log("a.b_c", "001", 2, "1-0-1", false)),
        (
            ".files-0000-0_00000000000000010.log.2_0-87-178",
            log("files-0000-0", "00000000000000010", 2, "0-87-178", false),
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(FileName::parse(name), expected, "{name}");
    }
    for name in [
        ".commits_.archive.1_1-0-1",
        ".f_001.log.",
        ".f_001.log.1_1-0",
        ".f_001.log.1_1-0-1-2",
        ".f_001.log.x_1-0-1",
        ".f_001.log.+1_1-0-1",
        ".f_x.log.1_1-0-1",
        "._001.log.1_1-0-1",
        "..f_001.log.1_1-0-1",
        ".f_001.log.99999999999_1-0-1",
        ".f_001.log.1.cdc",
    ] {
        assert_eq!(FileName::parse(name), FileName::Hidden, "{name}");
    }
}

#[test]
fn logs_of_version_10_are_not_base_files() {
    for name in [
        "b506-0_1-0-1_20260101000000000_1.log.parquet",
        "b506-0_1-0-1_20260101000000000_1.deletes.parquet",
        "b506-0_1-0-1_20260101000000000_12.cdc.lance",
    ] {
        assert_eq!(FileName::parse(name), FileName::NativeLog, "{name}");
    }
    for name in ["b506-0_1-0-1_2026_1.data.parquet", "b506-0_1-0_2026_1.log.parquet", "b_1-0-1_2026_1_2.log.parquet"] {
        assert_eq!(FileName::parse(name), FileName::Foreign, "{name}");
    }
}

#[test]
fn logs_are_read_by_instant_then_version_then_token() {
    let names =
        [".f_001.log.2_1-0-1", ".f_001.log.10", ".f_001.log.10_1-0-1", ".f_001.log.10_1-0-1.cdc", ".f_002.log.1_1-0-1"];
    let mut logs: Vec<LogName<'_>> = names.iter().rev().map(|n| LogName::parse(n).unwrap()).collect();
    logs.sort_by(LogName::order);
    let expected: Vec<LogName<'_>> = names.iter().map(|n| LogName::parse(n).unwrap()).collect();
    assert_eq!(logs, expected);
}

proptest! {
    #[test]
    fn any_name_is_parsed_without_panic(name in "\\PC{0,80}") {
        FileName::parse(&name);
    }

    #[test]
    fn near_names_are_parsed_without_panic(name in "[._]?[a-f0-9-]{0,6}[_.]?[0-9-]{0,5}[_.]?[0-9]{0,5}(\\.log\\.|_fg%3D|_hudiext|\\.parquet|_){0,3}[0-9_-]{0,4}(_hudiext)?") {
        FileName::parse(&name);
    }

    #[test]
    fn original_names_round_trip(name in "[^/\\x00]{1,30}", instant in "[0-9]{1,17}", prefix in proptest::option::of("[a-z=%]{1,5}(/[a-z0-9]{1,5})?")) {
        prop_assume!(name != "." && name != ".." && !name.contains(PREFIX_MARK));
        let stored = match &prefix {
            None => format!("{name}_{instant}_hudiext"),
            Some(prefix) => format!("{name}_{instant}_fg%3D{}_hudiext", crate::format::partition_path::escape(prefix)),
        };
        let FileName::External(parsed) = FileName::parse(&stored) else { panic!("{stored}") };
        prop_assert_eq!(parsed.name, &name);
        prop_assert_eq!(parsed.prefix.as_deref(), prefix.as_deref());
        prop_assert_eq!(parsed.instant.as_str(), &instant);
    }

    #[test]
    fn native_names_round_trip(id in "[a-z0-9-]{1,40}", token in "[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,3}", instant in "[0-9]{1,17}") {
        let name = format!("{id}_{token}_{instant}.parquet");
        let FileName::Base(base) = FileName::parse(&name) else { panic!("{name}") };
        prop_assert_eq!((base.file_id, base.write_token, base.instant.as_str()), (id.as_str(), token.as_str(), instant.as_str()));
    }
}

#[test]
fn names_are_made_as_they_are_read() {
    let instant = InstantTime::parse("20251220210129235").unwrap();
    let token = WriteToken { partition: 1, stage: 1112, attempt: 3191 };
    let base = base_file_name("036ded81-9ed4-479f-bcea-7145dfa0079b-0", token, instant, ".parquet");
    assert_eq!(base, "036ded81-9ed4-479f-bcea-7145dfa0079b-0_1-1112-3191_20251220210129235.parquet");
    let log = log_file_name("files-0000-0", instant, 2, WriteToken::UNKNOWN);
    assert_eq!(log, ".files-0000-0_20251220210129235.log.2_1-0-1");
    for name in [log.as_str(), ".f_20250109233025121.log.1_0-51-115.cdc", ".f_001.log.3"] {
        let FileName::Log(parsed) = FileName::parse(name) else { panic!("{name}") };
        assert_eq!(parsed.to_string(), name);
    }
    let FileName::Base(parsed) = FileName::parse(&base) else { panic!("{base}") };
    assert_eq!(parsed.to_string(), base);
}
