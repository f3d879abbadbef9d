//! A made-up trace of any length: a set of areas of random sizes that is kept at one size.
//!
//! The set grows in the first quarter of the trace, or to 20,000 areas: the rest replaces them.
//!
//! Half of the areas have one page to four, as most areas of kernels do; the others up to 64. While
//! the set grows every event allocates; later a free of a random area and an allocation take turns.
//! Each pair moves on to the next of four CPUs, so that areas are freed elsewhere than where they
//! were allocated. The same seed makes the same events.

use super::event::{Event, Kind};
use crate::rng::Rng;

/// The most areas of the set.
const LIVE: u64 = 20_000;
/// The set has so many areas for each event of the trace: one in four.
const EVENTS_PER_AREA: u64 = 4;
/// CPUs that take turns.
const CPUS: u32 = 4;
/// Nanoseconds from one event to the next.
const STEP_NS: u64 = 1_000;
/// Pages from one made-up address to the next: more than the largest area has.
const STRIDE: u64 = 128;

/// The events.
#[derive(Clone, Debug)]
pub struct Synthetic {
    rng: Rng,
    made: u64,
    all: u64,
    /// The slots of the set: an area's address is that of its slot.
    live: u64,
    /// The slot that a free left empty.
    hole: Option<u64>,
}

impl Synthetic {
    /// So many events.
    #[must_use]
    pub fn new(events: u64, seed: u64) -> Self {
        Self { rng: Rng::new(seed), made: 0, all: events, live: 0, hole: None }
    }

    fn kind(&mut self) -> Kind {
        if let Some(slot) = self.hole.take() {
            return self.alloc(slot);
        }
        if self.live < (self.all / EVENTS_PER_AREA).clamp(1, LIVE) {
            self.live += 1;
            return self.alloc(self.live - 1);
        }
        let slot = self.rng.below(self.live);
        self.hole = Some(slot);
        Kind::Free { start: address(slot) }
    }

    fn alloc(&mut self, slot: u64) -> Kind {
        let most = if self.rng.next_u64() & 1 == 0 { 4 } else { 64 };
        Kind::Alloc { start: address(slot), pages: 1 + self.rng.below(most), align: 1, within: None }
    }
}

fn address(slot: u64) -> u64 {
    (1 << 31) + slot * STRIDE
}

impl Iterator for Synthetic {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.made == self.all {
            return None;
        }
        let time_ns = Some(self.made * STEP_NS);
        let cpu = (self.made / 2 % u64::from(CPUS)) as u32;
        self.made += 1;
        Some(Event { time_ns, cpu, task: cpu + 1, kind: self.kind() })
    }
}
