//! The refused sizes beside the holes of each window.

use crate::map::summary::{Named, Window, hidden, table, top_callers};
use serde::Serialize;
use std::fmt;
use vmalloc_inspect::program::picture::Strip;
use vmalloc_inspect::program::units::human_bytes;
use vmalloc_inspect::program::vmallocinfo::{Addresses, Entry, KernelLog, Vmallocinfo};

/// Sizes that are told, the largest first.
const TOLD: usize = 10;

/// The refused sizes, and the windows of a listing.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    addresses: Addresses,
    /// Why nothing is known of the windows, if that is so.
    hidden: Option<&'static str>,
    refused: Vec<Refused>,
    windows: Vec<Place<'a>>,
    /// The callers of most bytes, where no window is known.
    callers: Vec<Named<'a>>,
}

#[derive(Clone, Copy, Serialize)]
struct Refused {
    bytes: u64,
    times: u64,
    /// The window that its line names.
    window: Option<[u64; 2]>,
}

/// A window that the log names.
struct Known {
    name: String,
    range: [u64; 2],
}

/// A window.
#[derive(Serialize)]
struct Place<'a> {
    #[serde(flatten)]
    window: Window,
    #[serde(skip)]
    range: [u64; 2],
    /// The log tells where it begins and ends; else the first area and the last one do.
    from_log: bool,
    callers: Vec<Named<'a>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(info: &'a Vmallocinfo, log: &KernelLog) -> Self {
        let refused = log.refused.iter().rev();
        let refused =
            refused.map(|(refusal, &times)| Refused { bytes: refusal.bytes, times, window: refusal.window });
        let known = known(log);
        let from_log = !known.is_empty();
        let strips = if from_log { strips(info, &known) } else { info.strips() };
        let place = |strip: &Strip| Place {
            window: Window::new(strip),
            range: [strip.start, strip.end],
            from_log,
            callers: top_callers(info.entries.iter().filter(|entry| is_in(entry, strip))),
        };
        let windows: Vec<_> = strips.iter().map(place).collect();
        Self {
            addresses: info.addresses,
            hidden: hidden(info.addresses),
            refused: refused.collect(),
            callers: if windows.is_empty() { top_callers(&info.entries) } else { Vec::new() },
            windows,
        }
    }

    /// Returns why nothing is known of the windows.
    pub(super) fn hidden(&self) -> Option<&'static str> {
        self.hidden
    }
}

/// Returns the windows that the log names: at boot, and in the lines of refusals.
fn known(log: &KernelLog) -> Vec<Known> {
    let at_boot = log.windows.iter().map(|(name, window)| (name.as_str(), [window.start, window.end]));
    let restricted = log.refused.keys().filter_map(|refusal| Some(("restricted", refusal.window?)));
    let mut known: Vec<Known> = Vec::new();
    for (name, range) in at_boot.chain(restricted) {
        if known.iter().all(|known| known.range != range) {
            known.push(Known { name: name.to_owned(), range });
        }
    }
    known
}

/// Returns these windows, with the areas in them.
fn strips(info: &Vmallocinfo, known: &[Known]) -> Vec<Strip> {
    let areas: Vec<_> = info.strips().into_iter().flat_map(|strip| strip.areas).collect();
    let strip = |known: &Known| Strip::new(&known.name, known.range[0], known.range[1], areas.clone());
    if areas.is_empty() { Vec::new() } else { known.iter().map(strip).collect() }
}

fn is_in(entry: &Entry, strip: &Strip) -> bool {
    entry.start < strip.end && entry.end > strip.start
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = &self.refused[..self.refused.len().min(TOLD)];
        writeln!(f, "Refused, guard page included:")?;
        for &Refused { bytes, times, window } in told {
            let within = window.map_or(String::new(), |[start, end]| format!(" in {start:#x}-{end:#x}"));
            writeln!(f, "  {} ({bytes} bytes){within}, {}", human_bytes(bytes), times_told(times))?;
        }
        let untold = self.refused.len() - told.len();
        if untold != 0 {
            writeln!(f, "  and {untold} smaller sizes")?;
        }
        for place in &self.windows {
            place.write(f, told)?;
        }
        if self.windows.is_empty() { table(f, "Top callers", &self.callers) } else { Ok(()) }
    }
}

fn times_told(times: u64) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

impl Place<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>, refused: &[Refused]) -> fmt::Result {
        let window = &self.window;
        writeln!(f, "\n{window}")?;
        if !self.from_log {
            writeln!(f, "  the log names no window: this is from the first area to the last")?;
        }
        let is_here = |refused: &&Refused| refused.window.is_none_or(|window| window == self.range);
        for &Refused { bytes, window, .. } in refused.iter().filter(is_here) {
            writeln!(f, "  {}: {}", human_bytes(bytes), self.verdict(bytes, window.is_some()))?;
        }
        table(f, "Top callers there", &self.callers)
    }

    /// Says why so many bytes were refused here; `is_own` if their own line names this window.
    fn verdict(&self, bytes: u64, is_own: bool) -> String {
        let free = self.window.free_bytes;
        match self.window.largest_hole.as_ref().map_or(0, |hole| hole.bytes) {
            hole if hole >= bytes && !self.from_log => {
                "can't tell: the largest hole has room for it, if it is inside of the window that was asked; \
                 --window A-B, or the log of the boot, names that"
                    .to_owned()
            }
            hole if hole >= bytes && is_own => {
                "the largest hole has room for it: the listing is of another moment".to_owned()
            }
            hole if hole >= bytes => {
                "the largest hole has room for it: another window was asked, or the listing is of another moment"
                    .to_owned()
            }
            _ if free < bytes => format!("all holes together have {}", human_bytes(free)),
            hole => {
                let lacks = human_bytes(bytes - hole);
                format!("the largest hole lacks {lacks}; all holes together have {}", human_bytes(free))
            }
        }
    }
}
