use hudifs::table::*;
fn main() {
    let t = std::time::Instant::now();
    let a: Vec<String> = std::env::args().collect();
    let storage = hudifs::storage::open(&a[1], &Default::default()).unwrap();
    let table = Table::open(
        storage,
        TableOptions {
            listing: if a.get(2).is_some_and(|s| s == "s") { Listing::Storage } else { Listing::Auto },
            as_of: None,
        },
    )
    .unwrap();
    let s = table.snapshot();
    eprintln!("open {:?} {}", t.elapsed(), s.lister_name());
    let p = s.partitions().unwrap();
    eprintln!("partitions {} {:?}", p.len(), t.elapsed());
    let v = s.partition(&p[p.len() / 2]).unwrap();
    eprintln!("one {} {:?}", v.listed_len(), t.elapsed());
    let (mut n, mut b, mut m) = (0, 0, 0);
    let mut keep = vec![];
    for p in p.iter() {
        let v = s.partition(p).unwrap();
        n += v.listed_len();
        b += v.listed_bytes();
        m += v.memory_bytes();
        keep.push(v)
    }
    eprintln!("all {n} files {b} bytes {m} memory {:?}", t.elapsed());
    let st = std::fs::read_to_string("/proc/self/status").unwrap();
    eprintln!(
        "{}",
        st.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS")).collect::<Vec<_>>().join(" ")
    );
}
