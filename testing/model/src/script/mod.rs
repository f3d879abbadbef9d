//! Byte strings as programs: what a fuzzer drives, and what tests replay.
//!
//! A script plays any bytes to the end and panics when an answer is wrong. The fuzz targets do
//! nothing but call one; the inputs that are worth keeping lie in `testing/fuzz/seeds`, and
//! [`replay`] plays them in an ordinary test. Nothing is random but the bytes: an input that failed
//! once fails again.

mod area_map;

pub use area_map::area_map;

use crate::source::Seeded;
use std::fmt::Write;
use std::path::Path;

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
        let told = Told { input: &input, nth, seed };
        script(&input);
        drop(told);
    }
}

/// Prints an input when it fails.
struct Told<'a> {
    input: &'a [u8],
    nth: usize,
    seed: u64,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex = self.input.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            eprintln!("input {} of seed {}: {hex}", self.nth, self.seed);
        }
    }
}
