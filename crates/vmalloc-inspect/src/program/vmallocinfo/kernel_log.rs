//! A kernel's log: allocations that found no room, and windows.
//!
//! ```text
//!     vmalloc : 0xf0800000 - 0xff800000   ( 240 MB)                             at boot
//!   * 0xf1000000..0xf5110000  : vmalloc & ioremap                               32-bit PowerPC
//! vmap allocation for size 430080 failed: use vmalloc=<size> to increase size
//! … for size 8192 failed: Address range restricted to 0xbf000000 - 0xbfe00000   newer kernels
//! … vmalloc: allocation failure: 425984 bytes, mode:…                           a second line
//! … vmalloc error: size 4096, vm_struct allocation failed, mode:…              that of newer kernels
//! ```
//!
//! The size of a first line includes the guard page, that of a second does not. The kernel limits
//! how often it writes first lines: a second one alone is a refusal as well. Only newer kernels
//! name the window with the refusal; 32-bit ones print their windows at boot.

use super::{PAGES, Vmallocinfo, read_lines};
use regex::{Captures, Regex};
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::ops::Range;
use std::sync::LazyLock;

/// An allocation that found no room: its first line, and its second.
static REFUSED: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [
        r"vm(?:ap|alloc).* for size (?<bytes>\d+) failed",
        r"vmalloc(?:: allocation failure: (?<bytes>\d+) bytes| error: size (?<size>\d+), vm_struct allocation failed)",
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern"))
});
/// A window that the line of a refusal names, and those whose layout is told at boot.
static WINDOWS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [
        r"(?:(?<name>vmalloc|modules)\s*:|restricted to) 0x(?<start>[[:xdigit:]]+) +- +0x(?<end>[[:xdigit:]]+)",
        r"0x(?<start>[[:xdigit:]]+)\.\.0x(?<end>[[:xdigit:]]+)\s*: (?<name>vmalloc|modules)\b",
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern"))
});

/// A size that was refused, guard page included, and the window of that, if its line names one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Refusal {
    /// Bytes.
    pub bytes: u64,
    /// The first address of the window, and the one behind its last.
    pub window: Option<[u64; 2]>,
}

/// The refusals and the windows of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLog {
    /// How often each was refused.
    pub refused: BTreeMap<Refusal, u64>,
    /// The windows that are named at boot, by name.
    pub windows: BTreeMap<String, Range<u64>>,
    /// The size of a first line whose second one has not come yet.
    first: Option<u64>,
}

impl KernelLog {
    /// Reads a log to its end.
    ///
    /// # Errors
    /// When reading fails. No text is an error.
    pub fn read(&mut self, text: impl BufRead) -> io::Result<()> {
        read_lines(text, |line, _| self.line(line))
    }

    fn line(&mut self, line: &str) {
        let [first, second] = &*REFUSED;
        let bytes = |found: &Captures<'_>| {
            found.name("bytes").or(found.name("size")).and_then(|bytes| bytes.as_str().parse::<u64>().ok())
        };
        let windows = WINDOWS.iter().flat_map(|pattern| pattern.captures_iter(line));
        let (named, restricted): (Vec<_>, Vec<_>) =
            windows.filter_map(|window| range(&window)).partition(|(name, _)| name.is_some());
        self.windows.extend(named.into_iter().filter_map(|(name, window)| Some((name?, window))));
        if let Some(bytes) = first.captures(line).as_ref().and_then(bytes) {
            let window = restricted.first().map(|(_, window)| [window.start, window.end]);
            *self.refused.entry(Refusal { bytes, window }).or_default() += 1;
            self.first = Some(bytes);
        } else if let Some(bytes) = second.captures(line).as_ref().and_then(bytes) {
            let [least, .., most] = PAGES.map(|page| bytes.saturating_add(page));
            // With the first line it is one refusal. Alone it leaves out the guard page.
            if self.first.take().is_none_or(|first| !(bytes..=most).contains(&first)) {
                *self.refused.entry(Refusal { bytes: least, window: None }).or_default() += 1;
            }
        }
    }
}

/// Returns a window and its name, if it has one.
fn range(window: &Captures<'_>) -> Option<(Option<String>, Range<u64>)> {
    let [start, end] = ["start", "end"].map(|end| u64::from_str_radix(&window[end], 16));
    let (start, end) = (start.ok()?, end.ok()?);
    (start < end).then(|| (window.name("name").map(|name| name.as_str().to_owned()), start..end))
}

impl Vmallocinfo {
    /// Reads a file in which a log may be as well.
    ///
    /// # Errors
    /// When reading fails. No text is an error.
    pub fn read_beside(text: impl BufRead, log: &mut KernelLog) -> io::Result<Self> {
        let mut info = Self::default();
        read_lines(text, |line, is_cut| {
            if line.trim_start().starts_with("0x") && !line.contains("..0x") {
                info.take(line, is_cut);
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
[   16.000001] insmod: vmalloc error: size 4096, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL)
[   16.500000] modload: vmalloc error: size 16384, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL)
[   16.600000] modload: vmalloc error: size 16384, page order 0, failed to allocate pages, mode:0xcc0
[   17.000000] vmap allocation for size many failed
0xf0800000-0xf0802000 8192 f+0x1/0x2 pages=1 vmalloc
";
        let mut log = KernelLog::default();
        let info = Vmallocinfo::read_beside(text.as_bytes(), &mut log).expect("memory");
        assert_eq!((info.lines, info.entries.len(), info.damaged.len()), (12, 1, 0));
        let restricted = Some([0xf000_0000, 0xf010_0000]);
        let refused = [
            (Refusal { bytes: 8192, window: restricted }, 1),
            (Refusal { bytes: 430_080, window: None }, 2),
            (Refusal { bytes: 20_480, window: None }, 1),
        ];
        assert_eq!(log.refused, refused.into());
        let windows = [("modules", 0xbf00_0000..0xbfe0_0000), ("vmalloc", 0xf080_0000..0xff80_0000)];
        assert_eq!(log.windows, windows.map(|(name, window)| (name.to_owned(), window)).into());
        let mut alone = KernelLog::default();
        alone.read(text.as_bytes()).expect("memory");
        assert_eq!(alone, log);
    }

    #[test]
    fn the_layout_of_32_bit_powerpc_names_its_windows() {
        let text = "Kernel virtual memory layout:
  * 0xffbbf000..0xfffff000  : fixmap
  * 0xf1000000..0xf5110000  : vmalloc & ioremap
  * 0xb0000000..0xc0000000  : modules
";
        let mut log = KernelLog::default();
        log.read(text.as_bytes()).expect("memory");
        let windows = [("modules", 0xb000_0000..0xc000_0000), ("vmalloc", 0xf100_0000..0xf511_0000)];
        assert_eq!(log.windows, windows.map(|(name, window)| (name.to_owned(), window)).into());
    }
}
