//! Every kind of metadata file of every table, damaged in every way that a disk, a crash or a person knows.

use super::judge::{Allow, Look, Random, judge, look};
use crate::common::{Unpacked, golden, golden_names, repo, unpack};
use hudifs::table::Listing;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Empty,
    Half,
    ByteLess,
    Flip,
    Noise,
    Longer,
    Swapped,
    Folder,
    Pipe,
    Gone,
}

const ALL: [Damage; 10] = [
    Damage::Empty,
    Damage::Half,
    Damage::ByteLess,
    Damage::Flip,
    Damage::Noise,
    Damage::Longer,
    Damage::Swapped,
    Damage::Folder,
    Damage::Pipe,
    Damage::Gone,
];

fn rounds() -> usize {
    std::env::var("HUDIFS_HOSTILE_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(4)
}

#[test]
fn damaged_golden_tables_never_lose_files_without_a_word() {
    let mut random = Random::seeded();
    let wrong: Vec<String> = golden_names().iter().flat_map(|name| damaged(name, &golden(name), &mut random)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn damaged_fixture_tables_never_lose_files_without_a_word() {
    let mut random = Random::seeded();
    let folder = repo().join("tests/fixtures");
    let mut zips: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    zips.retain(|p| p.extension().is_some_and(|e| e == "zip"));
    zips.sort();
    let wrong: Vec<String> = zips
        .iter()
        .flat_map(|zip| {
            let name = zip.file_stem().unwrap().to_str().unwrap();
            damaged(name, &unpack(zip, name), &mut random)
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Damages some files of a table, one after the other, and tells what went wrong.
fn damaged(name: &str, table: &Unpacked, random: &mut Random) -> Vec<String> {
    let base = table.base();
    let mut files = Vec::new();
    metadata_files(&base, &base, &mut files);
    files.sort();
    let whole = look(&base, Listing::Auto, false).unwrap();
    if let Look::Refused(why) = &whole {
        panic!("{name}: the whole table is refused: {why}");
    }
    let mut wrong = Vec::new();
    for _ in 0..rounds() {
        let damage = ALL[random.below(ALL.len())];
        let file = &files[random.below(files.len())];
        let Some(allow) = allowed(file, damage) else { continue };
        let other = files[random.below(files.len())].clone();
        let seed = random.0;
        let path = base.join(file);
        let bytes = std::fs::read(&path).unwrap();
        let swapped = std::fs::read(base.join(&other)).unwrap();
        apply(&path, &bytes, &swapped, damage, random);
        let shown = look(&base, Listing::Auto, false);
        restore(&path, &bytes);
        let problem = match shown {
            Ok(shown) => judge(&whole, &shown, allow),
            Err(problem) => Some(problem),
        };
        wrong.extend(problem.map(|p| format!("{name}: {file} {damage:?} ({other}, at {seed}): {p}")));
    }
    wrong
}

fn apply(path: &Path, bytes: &[u8], other: &[u8], damage: Damage, random: &mut Random) {
    let mut new = bytes.to_vec();
    match damage {
        Damage::Empty => new.clear(),
        Damage::Half => new.truncate(bytes.len() / 2),
        Damage::ByteLess => new.truncate(bytes.len().saturating_sub(1)),
        Damage::Flip => {
            let at = random.below(new.len());
            new.get_mut(at).into_iter().for_each(|b| *b ^= 1 << random.below(8));
        }
        Damage::Noise => new.iter_mut().for_each(|b| *b = random.next() as u8),
        Damage::Longer => new.extend(bytes.iter().take(100).map(|_| random.next() as u8)),
        Damage::Swapped => new = other.to_vec(),
        Damage::Folder | Damage::Pipe | Damage::Gone => {
            std::fs::remove_file(path).unwrap();
            match damage {
                Damage::Folder => std::fs::create_dir(path).unwrap(),
                Damage::Pipe => assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
                _ => {}
            }
            return;
        }
    }
    std::fs::write(path, new).unwrap();
}

fn restore(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_dir(path);
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
}

/// What a damage may do to what is shown; `None` where it is no damage, but says something else.
fn allowed(file: &str, damage: Damage) -> Option<Allow> {
    let of_timeline = file.starts_with(".hoodie/") && !file.starts_with(".hoodie/metadata/");
    match damage {
        // Without its file an instant has never been, and a folder without the mark is no partition.
        Damage::Gone if !file.starts_with(".hoodie/metadata/files/") => None,
        // Plain numbers and names: nobody can tell that they were others. The metadata table's blocks have checksums.
        Damage::Flip | Damage::Swapped if of_timeline => Some(Allow::Other),
        _ => Some(Allow::Less),
    }
}

/// Everything that is read to find the files, as paths in the table.
fn metadata_files(base: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            metadata_files(base, &path, found);
        } else if (relative.starts_with(".hoodie/") || relative.contains(".hoodie_partition_metadata"))
            && !relative.ends_with(".crc")
            && !relative.contains("/.temp/")
        {
            found.push(relative);
        }
    }
}
