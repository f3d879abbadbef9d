//! One picture of a process: its counts, its spaces, and how fast both changed.

use serde::Serialize;
use std::fmt::Write;
use std::time::Instant;
use vmalloc_inspect::program::units::{counted, human_bytes};
use vmalloc_inspect::{Counters, Sum, Tagged, Tally};

/// A process at one moment.
#[derive(Serialize)]
pub(super) struct Picture {
    pub(super) pid: i32,
    pub(super) process: Counters,
    /// Frees recorded so far; `None` if the process records none.
    #[serde(rename = "recorded_frees")]
    pub(super) frees: Option<u64>,
    pub(super) rates: Option<Rates>,
    pub(super) spaces: Vec<Tally>,
    #[serde(skip)]
    pub(super) taken: Instant,
}

/// Changes a second.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Rates {
    /// Areas in use, allocated and not freed any more: known without any record.
    growth: f64,
    /// Frees; `None` where none are recorded.
    frees: Option<f64>,
    /// Allocations, which are the frees and the growth.
    allocations: Option<f64>,
    minor_faults: f64,
    major_faults: f64,
    /// Allocations, frees and looks that reached the maps: no node could serve them.
    map_changes: f64,
    purges: f64,
    purged_areas: f64,
}

impl Picture {
    /// Returns how fast things changed from an earlier picture to this one.
    pub(super) fn since(&self, before: &Self) -> Rates {
        let seconds = (self.taken - before.taken).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let sum = |spaces: &[Tally], count: fn(&Tally) -> u64| spaces.iter().map(count).sum::<u64>();
        let of = |count| rate(sum(&self.spaces, count), sum(&before.spaces, count));
        let growth = self.in_use() - before.in_use();
        // None before is none until then.
        let frees = self.frees.map(|now| now.saturating_sub(before.frees.unwrap_or(0)));
        let allocations = frees.map(|frees| (frees as i64 + growth).max(0));
        Rates {
            growth: growth as f64 / seconds,
            frees: frees.map(|frees| frees as f64 / seconds),
            allocations: allocations.map(|allocations| allocations as f64 / seconds),
            minor_faults: rate(self.process.minor_faults, before.process.minor_faults),
            major_faults: rate(self.process.major_faults, before.process.major_faults),
            map_changes: of(|space| space.map_changes),
            purges: of(|space| space.purges),
            purged_areas: of(|space| space.purged_areas),
        }
    }

    /// Returns how many areas are in use.
    fn in_use(&self) -> i64 {
        self.spaces.iter().map(|space| space.busy.areas as i64).sum()
    }

    /// Returns the picture for people, with up to `lines` tags for each space.
    pub(super) fn text(&self, lines: usize) -> String {
        let Counters { program, minor_faults, major_faults, .. } = &self.process;
        let mut text =
            format!("{program} ({}): page faults {minor_faults} minor, {major_faults} major\n", self.pid);
        if let Some(rates) = &self.rates {
            write_rates(&mut text, rates);
        }
        self.spaces.iter().for_each(|space| write_space(&mut text, space, lines));
        text
    }
}

fn write_rates(text: &mut String, rates: &Rates) {
    let Rates { growth, minor_faults, major_faults, map_changes, purges, purged_areas, .. } = rates;
    let calls = match (rates.allocations, rates.frees) {
        (Some(allocations), Some(frees)) => format!("{allocations:.0} allocations, {frees:.0} frees, "),
        _ => String::new(),
    };
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "a second: {calls}{growth:+.0} areas in use; {minor_faults:.0} minor \
         and {major_faults:.0} major faults; {map_changes:.0} changes of the map, {purges:.1} purges of \
         {purged_areas:.0} areas"
    );
    if rates.frees.is_none() {
        let _ = writeln!(
            text,
            "  allocations and frees are not counted: the process records no frees (trap_report::install and \
             SpaceOptions::trap_on_free do, and VMALLOC_DEBUG=1 under LD_PRELOAD)"
        );
    }
}

fn write_space(text: &mut String, space: &Tally, lines: usize) {
    let [start, end] = space.span;
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "\nspace {start:#x}-{end:#x}: {} of {}",
        human_bytes(space.reached),
        human_bytes(end - start)
    ));
    let sum = |name: &str, Sum { areas, bytes, .. }: Sum| {
        format!(
            "  {name:<10} {:>10} in {}",
            human_bytes(bytes),
            counted(areas, if name == "free" { "range" } else { "area" })
        )
    };
    let states = [
        ("in use", space.busy),
        ("cached", space.cached),
        ("pooled", space.pooled),
        ("lazy", space.lazy),
        ("free", space.free),
    ];
    states.into_iter().for_each(|(name, state)| line(sum(name, state)));
    let rare = [("refused", space.refused), ("on the way", space.between)];
    rare.into_iter().filter(|(_, state)| state.areas != 0).for_each(|(name, state)| line(sum(name, state)));
    line(format!("  {:>10} {:>8}  tag", "bytes", "areas"));
    for Tagged { tag, kind, areas, bytes, .. } in space.tags.iter().take(lines) {
        let kind = kind
            .as_deref()
            .filter(|kind| *kind != "vmalloc")
            .map_or(String::new(), |kind| format!(" ({kind})"));
        line(format!("  {:>10} {areas:>8}  {}{kind}", human_bytes(*bytes), tag.as_deref().unwrap_or("-")));
    }
    if space.tags.len() > lines {
        line(format!("  and {}", counted((space.tags.len() - lines) as u64, "more tag")));
    }
    if !space.is_settled || !space.is_whole {
        line("  the space was changing while it was read: numbers may not add up".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns a picture of a process with as many areas in use, `milliseconds` after `start`.
    fn picture(start: Instant, milliseconds: u64, areas: u64, frees: Option<u64>) -> Picture {
        let mut space = Tally::default();
        space.busy.areas = areas;
        space.purges = milliseconds;
        let taken = start + Duration::from_millis(milliseconds);
        Picture { pid: 1, process: Counters::default(), frees, rates: None, spaces: vec![space], taken }
    }

    #[test]
    fn allocations_are_the_frees_and_the_growth() {
        let start = Instant::now();
        let rates = picture(start, 500, 30, Some(2100)).since(&picture(start, 0, 20, Some(100)));
        assert_eq!((rates.frees, rates.growth, rates.allocations), (Some(4000.0), 20.0, Some(4020.0)));
        assert_eq!(rates.purges, 1000.0);
        let shrunk = picture(start, 500, 10, Some(2100)).since(&picture(start, 0, 20, None));
        assert_eq!((shrunk.frees, shrunk.growth, shrunk.allocations), (Some(4200.0), -20.0, Some(4180.0)));
    }

    #[test]
    fn counts_that_a_process_does_not_record_are_told_with_the_reason() {
        let start = Instant::now();
        let mut now = picture(start, 1000, 30, None);
        let rates = now.since(&picture(start, 0, 20, None));
        now.rates = Some(rates);
        assert_eq!((rates.frees, rates.allocations), (None, None));
        let text = now.text(5);
        assert!(text.contains("a second: +10 areas in use;"), "{text}");
        assert!(
            text.contains("allocations and frees are not counted: the process records no frees"),
            "{text}"
        );
        now.rates = Some(Rates { frees: Some(7.0), allocations: Some(17.0), ..rates });
        let recorded = now.text(5);
        assert!(recorded.contains("a second: 17 allocations, 7 frees, +10 areas in use;"), "{recorded}");
        assert!(!recorded.contains("not counted"), "{recorded}");
    }

    #[test]
    fn one_area_is_told_in_the_singular() {
        let text = picture(Instant::now(), 0, 1, None).text(5);
        assert!(text.contains(" in 1 area\n") && text.contains(" in 0 ranges\n"), "{text}");
    }
}
