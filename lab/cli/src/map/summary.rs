//! The areas in numbers.

use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use vmalloc_lab::picture::{Strip, Total, printable};
use vmalloc_lab::table::aligned;
use vmalloc_lab::units::{counted, human_bytes};
use vmalloc_lab::vmallocinfo::{Addresses, Damaged, Vmallocinfo};

/// Callers that are told.
const TOP_CALLERS: usize = 10;
/// Why addresses are not real, and how to get them. `%pK` in lib/vsprintf.c: 0 hashes for
/// everybody, 1 shows them with CAP_SYSLOG, 2 never.
const HASHED: &str = "the addresses are hashed (kernel.kptr_restrict is 0), so there is no map, only sizes by kind \
                      and caller; for real ones set 'sysctl kernel.kptr_restrict=1' and read /proc/vmallocinfo as root";
const ZERO: &str = "the addresses are all zero (read without root, or kernel.kptr_restrict is 2), so there is no map, \
                    only sizes by kind and caller; for real ones set 'sysctl kernel.kptr_restrict=1' and read \
                    /proc/vmallocinfo as root";

/// A file in numbers.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    addresses: Addresses,
    /// Why there is no map, if there is none.
    hidden: Option<&'static str>,
    lines: u64,
    areas: u64,
    bytes: u64,
    page_bytes: u64,
    /// By bytes, most first.
    kinds: Vec<Named<'a>>,
    /// By bytes, most first: the first few.
    callers: Vec<Named<'a>>,
    windows: Vec<Window>,
    damaged: &'a [Damaged],
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    total: Total,
}

/// A window of addresses.
#[derive(Serialize)]
struct Window {
    name: String,
    start: String,
    end: String,
    areas: usize,
    bytes: u64,
    largest_hole: Option<Hole>,
}

/// Free addresses between two areas.
#[derive(Serialize)]
struct Hole {
    start: String,
    bytes: u64,
}

impl<'a> Summary<'a> {
    /// The numbers of `info`.
    pub(super) fn new(info: &'a Vmallocinfo) -> Self {
        let entries = &info.entries;
        let kinds = totals(entries.iter().map(|entry| (entry.kind.as_str(), entry.bytes)));
        let mut callers =
            totals(entries.iter().filter_map(|entry| Some((entry.caller.as_deref()?, entry.bytes))));
        callers.truncate(TOP_CALLERS);
        Self {
            addresses: info.addresses,
            hidden: hidden(info.addresses),
            lines: info.lines,
            areas: entries.len() as u64,
            bytes: entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.bytes)),
            page_bytes: info.page_bytes(),
            kinds,
            callers,
            windows: info.strips().iter().map(Window::new).collect(),
            damaged: &info.damaged,
        }
    }

    /// Why there is no map.
    pub(super) fn hidden(&self) -> Option<&'static str> {
        self.hidden
    }
}

fn hidden(addresses: Addresses) -> Option<&'static str> {
    match addresses {
        Addresses::Real => None,
        Addresses::Hashed => Some(HASHED),
        Addresses::Zero => Some(ZERO),
    }
}

/// Sums by name, most bytes first.
fn totals<'a>(items: impl Iterator<Item = (&'a str, u64)>) -> Vec<Named<'a>> {
    let mut sums: HashMap<&str, Total> = HashMap::new();
    for (name, bytes) in items {
        let total = sums.entry(name).or_default();
        // Sizes of a file whose addresses are hidden can't be checked.
        *total = Total { count: total.count + 1, bytes: total.bytes.saturating_add(bytes) };
    }
    let mut sums: Vec<_> = sums.into_iter().map(|(name, total)| Named { name, total }).collect();
    sums.sort_by_key(|named| (Reverse(named.total.bytes), named.name));
    sums
}

impl Window {
    fn new(strip: &Strip) -> Self {
        let gaps = strip.parts().into_iter().filter(|part| part.area.is_none());
        let largest = gaps.max_by_key(|gap| gap.end - gap.start);
        Self {
            name: strip.name.clone(),
            start: format!("{:#x}", strip.start),
            end: format!("{:#x}", strip.end),
            areas: strip.areas.len(),
            bytes: strip.areas.iter().map(vmalloc_lab::picture::Area::bytes).sum(),
            largest_hole: largest
                .map(|gap| Hole { start: format!("{:#x}", gap.start), bytes: gap.end - gap.start }),
        }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}", counted(self.areas, "area"), human_bytes(self.bytes))?;
        for window in &self.windows {
            write!(f, "  {} {}-{}: ", window.name, window.start, window.end)?;
            write!(f, "{}, {}", counted(window.areas as u64, "area"), human_bytes(window.bytes))?;
            match &window.largest_hole {
                Some(hole) => writeln!(f, "; largest hole {} at {}", human_bytes(hole.bytes), hole.start)?,
                None => writeln!(f, "; no hole")?,
            }
        }
        table(f, "By kind", &self.kinds)?;
        table(f, "Top callers", &self.callers)
    }
}

fn table(f: &mut fmt::Formatter<'_>, title: &str, rows: &[Named<'_>]) -> fmt::Result {
    let row = |Named { name, total }: &Named<'_>| {
        vec![human_bytes(total.bytes), counted(total.count, "area"), printable(name)]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    writeln!(f, "\n{title}:")?;
    let lines = aligned("rrl", &rows);
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}
