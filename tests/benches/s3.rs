//! A sequential read of one object through the mount against the raw client with as many requests in flight.
//!
//! `cargo bench --bench s3 -- MOUNTED_FILE BUCKET KEY REQUESTS [PART_MIB]`, with the `AWS_*` variables of the store.
//! The mount's kernel cache is dropped before every round (root), and the daemon must run without a block cache that could
//! hold the whole object: give it a small `--memory-target`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark may stop")]

use futures::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::io::Read;
use std::time::Instant;

const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [mounted, bucket, key, requests, rest @ ..] = args.as_slice() else {
        println!("usage: cargo bench --bench s3 -- MOUNTED_FILE BUCKET KEY REQUESTS [PART_MIB]; nothing measured");
        return;
    };
    let requests: usize = requests.parse().expect("a number of requests");
    let part = rest.first().map_or(8, |p| p.parse().expect("MiB")) << 20;
    let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let path = Path::parse(key).unwrap();
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        std::fs::write("/proc/sys/vm/drop_caches", "3").expect("dropping the page cache needs root");
        let start = Instant::now();
        let bytes = read_file(mounted);
        ours.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        assert_eq!(runtime.block_on(read_object(&store, &path, requests, part)), bytes);
        raw.push(start.elapsed().as_secs_f64());
        println!("{} MiB: mount {:.3} s, client {:.3} s", bytes >> 20, ours[ours.len() - 1], raw[raw.len() - 1]);
    }
    ours.sort_by(f64::total_cmp);
    raw.sort_by(f64::total_cmp);
    let (ours, raw) = (ours[ROUNDS / 2], raw[ROUNDS / 2]);
    println!(
        "sequential read from S3, median: mount {ours:.3} s, client with {requests} requests {raw:.3} s, ratio {:.2}",
        ours / raw
    );
}

fn read_file(path: &str) -> u64 {
    let mut file = std::fs::File::open(path).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return total,
            n => total += n as u64,
        }
    }
}

async fn read_object(store: &impl ObjectStore, path: &Path, requests: usize, part: u64) -> u64 {
    let size = store.head(path).await.unwrap().size;
    let parts = (0..size.div_ceil(part)).map(|i| i * part..((i + 1) * part).min(size));
    let reads = parts.map(|range| async { store.get_range(path, range).await.unwrap().len() as u64 });
    futures::stream::iter(reads).buffered(requests).fold(0, |sum, len| async move { sum + len }).await
}
