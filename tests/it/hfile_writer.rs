//! Writes HFiles for tests, as the generations of Hudi's writers do: the tables at hand have only small ones, with an index of
//! one level.

use std::io::Write;

/// Which writer to imitate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Generation {
    /// HBase's: CRC32C, whole cell keys in the index.
    HBase,
    /// Hudi's own since 1.1: no checksums, rows in the index.
    Native,
    /// The first builds of Hudi's own: rows in the cells too, and no word of the versions that follow them.
    FirstNative,
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct HFileWriter {
    pub generation: Generation,
    pub gzip: bool,
    /// Bytes of cells after which a block is closed.
    pub block_size: usize,
    /// Entries of an index node below the root; 0 writes all into the root.
    pub fanout: usize,
}

type IndexEntry = (Vec<u8>, u64, u32);

impl HFileWriter {
    /// The whole file; `cells` must be in order.
    pub fn write(&self, cells: &[(Vec<u8>, Vec<u8>)], schema: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut open, mut leaf, mut upper): (Vec<u8>, Vec<IndexEntry>, Vec<IndexEntry>) = Default::default();
        let mut first: Option<Vec<u8>> = None;
        for (row, value) in cells {
            first.get_or_insert_with(|| row.clone());
            open.extend(self.cell(row, value));
            if open.len() >= self.block_size {
                let entry = self.block(&mut out, b"DATABLK*", &std::mem::take(&mut open));
                leaf.push((first.take().unwrap(), entry.0, entry.1));
                if self.fanout > 0 && leaf.len() == self.fanout {
                    upper.push(self.node(&mut out, b"IDXLEAF2", &std::mem::take(&mut leaf)));
                }
            }
        }
        if let Some(first) = first {
            let entry = self.block(&mut out, b"DATABLK*", &open);
            leaf.push((first, entry.0, entry.1));
        }
        let mut levels = 1;
        let mut root = leaf;
        if self.fanout > 0 {
            if !root.is_empty() {
                upper.push(self.node(&mut out, b"IDXLEAF2", &root));
            }
            levels = 2;
            root = upper;
            while root.len() > self.fanout {
                root = root.chunks(self.fanout).map(|c| self.node(&mut out, b"IDXINTE2", c)).collect();
                levels += 1;
            }
        }
        self.finish(out, cells, &root, levels, schema)
    }

    fn finish(
        &self,
        mut out: Vec<u8>,
        cells: &[(Vec<u8>, Vec<u8>)],
        root: &[IndexEntry],
        levels: u64,
        schema: &str,
    ) -> Vec<u8> {
        let load_on_open = out.len() as u64;
        let mut payload = Vec::new();
        for (row, offset, len) in root {
            let key = self.index_key(row);
            payload.extend([&offset.to_be_bytes()[..], &len.to_be_bytes()].concat());
            payload.extend(hadoop_vint(key.len() as i64));
            payload.extend(key);
        }
        if self.fanout > 0 {
            payload.extend([0; 16]); // HBase's middle key.
        }
        self.block(&mut out, b"IDXROOT2", &payload);
        self.block(&mut out, b"IDXROOT2", &[]);
        let info_at = out.len() as u64;
        let last = cells.last().map(|(row, _)| self.index_key(row)).unwrap_or_default();
        let mut info = vec![pair(b"hfile.LASTKEY", &last), pair(b"schema", schema.as_bytes())];
        if self.generation != Generation::FirstNative {
            info.push(pair(b"KEY_VALUE_VERSION", &[0, 0, 0, 1]));
        }
        self.block(&mut out, b"FILEINF2", &[b"PBUF".to_vec(), delimited(&info.concat())].concat());
        let fields = [
            (1, info_at),
            (2, load_on_open),
            (5, root.len() as u64),
            (7, cells.len() as u64),
            (8, levels),
            (12, if self.gzip { 1 } else { 2 }),
        ];
        let proto: Vec<u8> = fields.iter().flat_map(|(n, v)| [varint(n << 3), varint(*v)].concat()).collect();
        let mut trailer = [b"TRABLK\"$".to_vec(), delimited(&proto)].concat();
        trailer.resize(4092, 0);
        trailer.extend([if self.generation == Generation::HBase { 3 } else { 0 }, 0, 0, 3]);
        out.extend(trailer);
        out
    }

    fn cell(&self, row: &[u8], value: &[u8]) -> Vec<u8> {
        let key = match self.generation {
            Generation::FirstNative => self.index_key(row),
            _ => cell_key(row),
        };
        [&(key.len() as i32).to_be_bytes(), &(value.len() as i32).to_be_bytes()[..], &key, value, &[0]].concat()
    }

    fn index_key(&self, row: &[u8]) -> Vec<u8> {
        match self.generation {
            Generation::HBase => cell_key(row),
            Generation::Native | Generation::FirstNative => [&(row.len() as i16).to_be_bytes(), row].concat(),
        }
    }

    fn node(&self, out: &mut Vec<u8>, magic: &[u8; 8], entries: &[IndexEntry]) -> IndexEntry {
        let mut body = Vec::new();
        let mut positions = vec![0u32];
        for (row, offset, len) in entries {
            body.extend([&offset.to_be_bytes()[..], &len.to_be_bytes(), &self.index_key(row)].concat());
            positions.push(body.len() as u32);
        }
        let mut payload = (entries.len() as u32).to_be_bytes().to_vec();
        payload.extend(positions.iter().flat_map(|p| p.to_be_bytes()));
        payload.extend(body);
        let (offset, len) = self.block(out, magic, &payload);
        (entries[0].0.clone(), offset, len)
    }

    fn block(&self, out: &mut Vec<u8>, magic: &[u8; 8], payload: &[u8]) -> (u64, u32) {
        let stored = if self.gzip {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(payload).unwrap();
            gzip.finish().unwrap()
        } else {
            payload.to_vec()
        };
        let with_header = 33 + stored.len();
        let sums = with_header.div_ceil(16384) * 4;
        let mut block = magic.to_vec();
        block.extend(((stored.len() + sums) as i32).to_be_bytes());
        block.extend((payload.len() as i32).to_be_bytes());
        block.extend((-1i64).to_be_bytes());
        block.push(if self.generation == Generation::HBase { 2 } else { 0 });
        block.extend(16384i32.to_be_bytes());
        block.extend((with_header as i32).to_be_bytes());
        block.extend(stored);
        let checksums: Vec<u8> = match self.generation {
            Generation::HBase => block.chunks(16384).flat_map(|c| crc32c(c).to_be_bytes()).collect(),
            Generation::Native | Generation::FirstNative => vec![0; sums],
        };
        block.extend(checksums);
        let at = (out.len() as u64, block.len() as u32);
        out.extend(block);
        at
    }
}

fn cell_key(row: &[u8]) -> Vec<u8> {
    [&(row.len() as i16).to_be_bytes(), row, &[0], &i64::MAX.to_be_bytes(), &[4]].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn delimited(bytes: &[u8]) -> Vec<u8> {
    [varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn pair(first: &[u8], second: &[u8]) -> Vec<u8> {
    let pair = [vec![0x0a], delimited(first), vec![0x12], delimited(second)].concat();
    [vec![0x0a], delimited(&pair)].concat()
}

fn hadoop_vint(value: i64) -> Vec<u8> {
    assert!(value >= 0);
    if value <= 127 {
        return vec![value as u8];
    }
    let bytes: Vec<u8> = value.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
    [vec![(-112 - bytes.len() as i8) as u8], bytes].concat()
}

/// By the definition, so as not to trust the tables under test.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
