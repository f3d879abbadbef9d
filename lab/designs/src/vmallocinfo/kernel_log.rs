//! A kernel's log: allocations that found no room, and windows.
//!
//! ```text
//!     vmalloc : 0xf0800000 - 0xff800000   ( 240 MB)                             at boot
//! vmap allocation for size 430080 failed: use vmalloc=<size> to increase size
//! … for size 8192 failed: Address range restricted to 0xbf000000 - 0xbfe00000   newer kernels
//! ```
//!
//! The size includes the guard page. Only newer kernels name the window with the refusal; 32-bit
//! ones print their windows at boot.

use super::{Vmallocinfo, read_lines};
use regex::{Captures, Regex};
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::ops::Range;
use std::sync::LazyLock;

/// An allocation that found no room.
static REFUSED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"vm(?:ap|alloc).* for size (?<bytes>\d+) failed").expect("a pattern"));
/// A window that the line of a refusal names, and those whose layout is told at boot.
static WINDOW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:(?<name>vmalloc|modules)\s*:|restricted to) 0x(?<start>[[:xdigit:]]+) +- +0x(?<end>[[:xdigit:]]+)",
    )
    .expect("a pattern")
});

/// The refusals and the windows of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLog {
    /// How often each size was refused, in bytes.
    pub refused: BTreeMap<u64, u64>,
    /// The windows, by name.
    pub windows: BTreeMap<String, Range<u64>>,
}

impl KernelLog {
    /// Reads a log to its end.
    ///
    /// # Errors
    /// When reading fails. No text is an error.
    pub fn read(&mut self, text: impl BufRead) -> io::Result<()> {
        read_lines(text, |line| self.line(line))
    }

    fn line(&mut self, line: &str) {
        let bytes = REFUSED.captures(line).and_then(|refused| refused["bytes"].parse().ok());
        if let Some(bytes) = bytes {
            *self.refused.entry(bytes).or_default() += 1;
        }
        self.windows.extend(WINDOW.captures_iter(line).filter_map(|window| named(&window)));
    }
}

fn named(window: &Captures<'_>) -> Option<(String, Range<u64>)> {
    let [start, end] = ["start", "end"].map(|end| u64::from_str_radix(&window[end], 16));
    let (start, end) = (start.ok()?, end.ok()?);
    let name = window.name("name").map_or("restricted", |name| name.as_str());
    (start < end).then(|| (name.to_owned(), start..end))
}

impl Vmallocinfo {
    /// Reads a file in which a log may be as well.
    ///
    /// # Errors
    /// When reading fails. No text is an error.
    pub fn read_beside(text: impl BufRead, log: &mut KernelLog) -> io::Result<Self> {
        let mut info = Self::default();
        read_lines(text, |line| {
            if line.trim_start().starts_with("0x") {
                info.take(line);
            } else {
                info.lines += 1;
                log.line(line);
            }
        })?;
        info.judge();
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_and_windows_are_found_among_other_lines() {
        let text = "\
[    0.000000]     fixmap  : 0xffc00000 - 0xfff00000   (3072 kB)
[    0.000000]     vmalloc : 0xf0800000 - 0xff800000   ( 240 MB)
[    0.000000]     modules : 0xbf000000 - 0xbfe00000   (  14 MB)
[   13.998495] vmap allocation for size 430080 failed: use vmalloc=<size> to increase size
[   14.006613] kmodloader: vmalloc: allocation failure: 425984 bytes, mode:0x14000c0(GFP_KERNEL)
[   15.000000] vmap allocation for size 430080 failed: use vmalloc=<size> to increase size.
[   16.000000] vmalloc_node_range for size 8192 failed: Address range restricted to 0xf0000000 - 0xf0100000
[   17.000000] vmap allocation for size many failed
0xf0800000-0xf0802000 8192 f+0x1/0x2 pages=1 vmalloc
";
        let mut log = KernelLog::default();
        let info = Vmallocinfo::read_beside(text.as_bytes(), &mut log).expect("memory");
        assert_eq!((info.lines, info.entries.len(), info.damaged.len()), (9, 1, 0));
        assert_eq!(log.refused, [(8192, 1), (430_080, 2)].into());
        let windows = [
            ("modules", 0xbf00_0000..0xbfe0_0000),
            ("restricted", 0xf000_0000..0xf010_0000),
            ("vmalloc", 0xf080_0000..0xff80_0000),
        ];
        assert_eq!(log.windows, windows.map(|(name, window)| (name.to_owned(), window)).into());
        let mut alone = KernelLog::default();
        alone.read(text.as_bytes()).expect("memory");
        assert_eq!(alone, log);
    }
}
