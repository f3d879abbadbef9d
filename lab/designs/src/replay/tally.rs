//! Counts of the events of a trace, by what became of each.

use serde::Serialize;

/// The counts. `events = replayed + unmatched + ignored`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// All.
    pub events: u64,
    /// Those that became calls of a design.
    pub replayed: u64,
    /// Those that nothing is known of that they could be about.
    pub unmatched: Unmatched,
    /// Those that are no calls.
    pub ignored: Ignored,
    /// Areas that were freed because another was allocated over them: their frees are missing.
    pub missed_frees: u64,
    /// Pieces of areas that were allocated again because a part of their area went.
    pub splits: u64,
    /// Areas that the trace does not free: they are freed after the end.
    pub live_at_end: u64,
}

/// Events without a counterpart, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Unmatched {
    /// Frees of areas that were allocated before the trace, or of which the trace says nothing, as
    /// of per-CPU ones.
    pub free_unknown: u64,
    /// Frees of areas in per-CPU chunks that the trace names.
    pub free_percpu: u64,
    /// Unmapped pages of which none was mapped in the trace.
    pub unmap_unknown: u64,
    /// First ends of heaps of which the trace does not say where they were before.
    pub break_unknown: u64,
}

impl Unmatched {
    /// The causes, as they are told.
    #[must_use]
    pub fn causes(&self) -> [(&'static str, u64); 4] {
        [
            ("frees of areas from before the trace", self.free_unknown),
            ("frees of per-CPU areas", self.free_percpu),
            ("unmaps of mappings from before the trace", self.unmap_unknown),
            ("heaps from before the trace", self.break_unknown),
        ]
    }
}

/// Events that are not replayed, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Ignored {
    /// Refusals: what they led to follows in the trace.
    pub failed: u64,
    /// Purges, where designs choose their own.
    pub purges: u64,
    /// Per-CPU chunks that were made or went.
    pub chunks: u64,
    /// Questions for the end of the heap.
    pub queries: u64,
    /// Changes of what may be done with pages.
    pub protections: u64,
}

impl Ignored {
    /// The kinds, as they are told.
    #[must_use]
    pub fn kinds(&self) -> [(&'static str, u64); 5] {
        [
            ("refusals", self.failed),
            ("purges", self.purges),
            ("per-CPU chunks", self.chunks),
            ("questions for the heap", self.queries),
            ("protections", self.protections),
        ]
    }
}

impl Tally {
    /// Returns true if the parts add up to all events.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let sum = |parts: &[(&str, u64)]| parts.iter().map(|(_, count)| count).sum::<u64>();
        self.events == self.replayed + sum(&self.unmatched.causes()) + sum(&self.ignored.kinds())
    }
}
