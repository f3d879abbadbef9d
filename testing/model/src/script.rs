//! Byte strings as programs: what a fuzzer drives, and what tests replay.
//!
//! A script plays any bytes to the end and panics when an answer is wrong. The fuzz targets do
//! nothing but call one; the inputs that are worth keeping lie in `testing/fuzz/seeds`, and
//! [`replay`] plays them in an ordinary test. Nothing is random but the bytes: an input that failed
//! once fails again.

use crate::{Bytes, MetadataLimit, Profile, Seeded, Session};
use std::fmt::Write;
use std::path::Path;
use vmalloc_harness::Told;
use vmalloc_map::AreaMap;

/// Plays bytes. Panics when something is wrong.
pub type Script = fn(&[u8]);

/// Plays all seeds in `directory`, which has some; the name of a file is in the output before it is
/// played.
///
/// # Panics
/// When one fails, or can't be read.
pub fn replay(directory: &Path, script: Script) {
    let entries = std::fs::read_dir(directory).expect("the seeds are there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a directory").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds in {}", directory.display());
    for path in paths {
        eprintln!("{}", path.display());
        script(&std::fs::read(&path).expect("a file"));
    }
}

/// Plays `count` random inputs that follow from `seed`, half of them short.
///
/// # Panics
/// When one fails: it is printed, in hexadecimal digits.
pub fn play_random(script: Script, count: usize, seed: u64) {
    let mut source = Seeded::new(seed);
    for nth in 0..count {
        let most = if nth % 2 == 0 { 100 } else { 1500 };
        let len = source.next_u64() % most;
        let input: Vec<u8> = (0..len).map(|_| (source.next_u64() >> 56) as u8).collect();
        let _told = Told(|| format!("input {nth} of seed {seed}: {}", hex(&input)));
        script(&input);
    }
}

fn hex(input: &[u8]) -> String {
    input.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Plays the area map against the reference. The first byte picks the load, the second where the
/// records live, the rest is the program: requests of every policy.
pub fn area_map(input: &[u8]) {
    let [load, storage, program @ ..] = input else { return };
    let profile = Profile::ALL[usize::from(*load) % Profile::ALL.len()];
    if *storage < 128 {
        let map = AreaMap::new(profile.span()).expect("the heap has room");
        return play(Session::new(map, MetadataLimit::None), profile, program);
    }
    let mut buffer = vec![0; (usize::from(*storage) - 127) << 10];
    if let Ok(map) = AreaMap::in_buffer(profile.span(), &mut buffer) {
        play(Session::new(map, MetadataLimit::MayRunOut), profile, program);
    }
}

fn play(mut session: Session<'_>, profile: Profile, program: &[u8]) {
    let _told = Told(|| profile.name.to_owned());
    session.play(&profile, &mut Bytes::new(program), usize::MAX);
    session.finish();
}
