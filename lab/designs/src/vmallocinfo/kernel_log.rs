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
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::ops::Range;

/// Windows whose layout is told at boot.
const WINDOWS: [&str; 2] = ["vmalloc", "modules"];

/// The refusals and the windows of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLog {
    /// How often each size was refused, in bytes.
    pub refused: BTreeMap<u64, u64>,
    /// The windows, by name.
    pub windows: BTreeMap<&'static str, Range<u64>>,
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
        if let Some(bytes) = refused(line) {
            *self.refused.entry(bytes).or_default() += 1;
            let restricted = line.split_once("restricted to ").and_then(|(_, text)| range(text));
            self.windows.extend(restricted.map(|range| ("restricted", range)));
        }
        for name in WINDOWS {
            let behind = line.split_once(name).and_then(|(_, text)| text.trim_start().strip_prefix(": "));
            self.windows.extend(behind.and_then(range).map(|range| (name, range)));
        }
    }
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

/// The size of an allocation that found no room.
fn refused(line: &str) -> Option<u64> {
    let (before, rest) = line.split_once(" for size ")?;
    let (bytes, _) = rest.split_once(" failed")?;
    (before.contains("vmap") || before.contains("vmalloc")).then(|| bytes.parse().ok())?
}

/// `0xf0800000 - 0xff800000`, and anything behind it.
fn range(text: &str) -> Option<Range<u64>> {
    let mut words = text.split_whitespace();
    let mut address = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let start = address()?;
    (words.next() == Some("-")).then_some(())?;
    let end = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    (start < end).then_some(start..end)
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
        assert_eq!(log.windows, windows.into());
        let mut alone = KernelLog::default();
        alone.read(text.as_bytes()).expect("memory");
        assert_eq!(alone, log);
    }
}
