//! The areas in numbers.

use crate::output;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use vmalloc_inspect::program::picture::{Strip, Total, printable};
use vmalloc_inspect::program::units::{counted, human_bytes};
use vmalloc_inspect::program::vmallocinfo::{Addresses, Entry, Remark, Vmallocinfo};

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
    damaged: &'a [Remark],
    doubtful: &'a [Remark],
}

/// Sums of areas with one name.
#[derive(Serialize)]
pub(crate) struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    total: Total,
}

/// A window of addresses.
#[derive(Serialize)]
pub(crate) struct Window {
    name: String,
    start: String,
    end: String,
    areas: usize,
    bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) largest_hole: Option<Hole>,
}

/// Free addresses between two areas.
#[derive(Serialize)]
pub(crate) struct Hole {
    start: String,
    pub(crate) bytes: u64,
}

impl<'a> Summary<'a> {
    /// The numbers of `info`.
    pub(super) fn new(info: &'a Vmallocinfo) -> Self {
        let entries = &info.entries;
        let kinds = totals(entries.iter().map(|entry| (entry.kind.as_str(), entry.bytes)));
        Self {
            addresses: info.addresses,
            hidden: hidden(info.addresses),
            lines: info.lines,
            areas: entries.len() as u64,
            bytes: entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.bytes)),
            page_bytes: info.page_bytes(),
            kinds,
            callers: top_callers(entries),
            windows: info.strips().iter().map(Window::new).collect(),
            damaged: &info.damaged,
            doubtful: &info.doubtful,
        }
    }

    /// Why there is no map.
    pub(super) fn hidden(&self) -> Option<&'static str> {
        self.hidden
    }
}

/// Says on stderr which lines of a file are not as they should be; returns true if there are any.
pub(crate) fn remarked(info: &Vmallocinfo) -> bool {
    let mut any = false;
    for (remarks, what) in [(&info.damaged, "skipped"), (&info.doubtful, "in doubt")] {
        let Some(Remark { line, reason }) = remarks.first() else { continue };
        let (count, lines) = (remarks.len(), if remarks.len() == 1 { "line" } else { "lines" });
        output::note(&format!("{count} {lines} {what}; first line {line}: {reason}"));
        any = true;
    }
    any
}

/// Says on stderr, and returns true, if areas of a file could not be read.
pub(crate) fn is_partial(info: &Vmallocinfo) -> bool {
    let lost = info.lost();
    if lost > 0 {
        let lines = counted(lost as u64, "line");
        output::note(&format!("this is a part of the file: {lines} with an area could not be read"));
    }
    lost > 0
}

/// Returns why there is no map.
pub(crate) fn hidden(addresses: Addresses) -> Option<&'static str> {
    match addresses {
        Addresses::Real => None,
        Addresses::Hashed => Some(HASHED),
        Addresses::Zero => Some(ZERO),
    }
}

/// Returns the callers of most bytes.
pub(crate) fn top_callers<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Named<'a>> {
    let named = |entry: &'a Entry| Some((entry.caller.as_deref()?, entry.bytes));
    let mut callers = totals(entries.into_iter().filter_map(named));
    callers.truncate(TOP_CALLERS);
    callers
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
    pub(crate) fn new(strip: &Strip) -> Self {
        let parts = strip.parts();
        let gaps = || parts.iter().filter(|part| part.area.is_none());
        let largest = gaps().max_by_key(|gap| gap.end - gap.start);
        Self {
            name: strip.name.clone(),
            start: format!("{:#x}", strip.start),
            end: format!("{:#x}", strip.end),
            areas: strip.areas.len(),
            bytes: strip.areas.iter().map(vmalloc_inspect::program::picture::Area::bytes).sum(),
            free_bytes: gaps().map(|gap| gap.end - gap.start).sum(),
            largest_hole: largest
                .map(|gap| Hole { start: format!("{:#x}", gap.start), bytes: gap.end - gap.start }),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}-{}: ", self.name, self.start, self.end)?;
        write!(f, "{}, {}", counted(self.areas as u64, "area"), human_bytes(self.bytes))?;
        match &self.largest_hole {
            Some(hole) => write!(f, "; largest hole {} at {}", human_bytes(hole.bytes), hole.start),
            None => write!(f, "; no hole"),
        }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}", counted(self.areas, "area"), human_bytes(self.bytes))?;
        for window in &self.windows {
            writeln!(f, "  {window}")?;
        }
        table(f, "By kind", &self.kinds)?;
        table(f, "Top callers", &self.callers)
    }
}

/// Writes sums of areas under a title.
pub(crate) fn table(f: &mut fmt::Formatter<'_>, title: &str, rows: &[Named<'_>]) -> fmt::Result {
    let row = |Named { name, total }: &Named<'_>| {
        [human_bytes(total.bytes), counted(total.count, "area"), printable(name)]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let [bytes, count] = [0, 1].map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    writeln!(f, "\n{title}:")?;
    rows.iter().try_for_each(|[size, areas, name]| writeln!(f, "  {size:>bytes$}  {areas:>count$}  {name}"))
}
