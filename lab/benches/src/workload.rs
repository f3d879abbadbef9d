//! The table of workloads: what is built before the clock starts, and what is measured.
//!
//! `FS-…` measure the free set alone (the area map: one free and one allocation, no pools),
//! `W7-start` and `W7-interior` the index of busy areas, which is the same map; the other `W…`
//! measure the space with its locks, pools and lazy purge, over a platform that does nothing; `W8`
//! its blocks of short mappings.

use vmalloc_kit::rng::Rng;

/// Which of our layers a workload runs on; peers have only one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// `AreaMap`: the address set alone.
    Map,
    /// `Space`: everything but real memory.
    Space,
    /// `Space`, asked for sizes that are not whole pages.
    OddSpace,
    /// The blocks of a space: slots for short mappings.
    Blocks,
}

/// The random size and alignment of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Fewest pages.
    pub min_pages: u32,
    /// Most pages.
    pub max_pages: u32,
    /// The alignment is 2^0 … 2^this pages.
    pub max_order: u32,
}

/// The state that is reached before anything is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setup {
    /// Nothing is allocated.
    Empty,
    /// So many one-page areas, side by side.
    Held {
        /// How many areas.
        areas: usize,
    },
    /// Twice as many one-page areas, of which every second was freed: the holes lie at odd pages.
    Holes {
        /// How many holes.
        holes: usize,
    },
    /// A live set of random areas after `churn` random replacements.
    Steady {
        /// Live areas.
        areas: usize,
        /// Replacements before the measurement.
        churn: usize,
        /// Sizes and alignments.
        shape: Shape,
    },
}

/// The measured operation, which is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cycle {
    /// Free a random live area, allocate another in its place. One pair.
    Replace(Shape),
    /// Allocate, and free that again. One pair.
    Bounce(Shape),
    /// Allocate two areas, free them in the same order. Two pairs.
    Two {
        /// Pages of the first area.
        first: u32,
        /// Pages of the second.
        second: u32,
    },
    /// Look up a random live area by its first page.
    FindStart,
    /// Look up a random live area by any of its pages.
    FindInterior,
    /// Allocate a page near any page of a random live area, and free it. One pair.
    Near,
    /// The first call for one page at alignment 2, 4, … 512 and the free after it, each from a
    /// set-up of its own; the worst of them counts.
    WorstCall,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The layer that it runs on.
    pub layer: Layer,
    /// The state that is built first.
    pub setup: Setup,
    /// The operation that is measured.
    pub cycle: Cycle,
    /// True if every area has a guard page.
    pub guard: bool,
    /// True if it runs only when asked for: most need much time or memory.
    pub large: bool,
}

const PLAIN: Shape = Shape { min_pages: 1, max_pages: 64, max_order: 0 };
const ALIGNED: Shape = Shape { min_pages: 1, max_pages: 10, max_order: 9 };
const ONE_PAGE: Shape = fixed(1);
const LARGE: Shape = Shape { min_pages: 1, max_pages: 65_536, max_order: 0 };

const fn fixed(pages: u32) -> Shape {
    Shape { min_pages: pages, max_pages: pages, max_order: 0 }
}

const fn steady(areas: usize, churn: usize, shape: Shape) -> (Setup, Cycle) {
    (Setup::Steady { areas, churn, shape }, Cycle::Replace(shape))
}

const fn find(cycle: Cycle) -> (Setup, Cycle) {
    (Setup::Steady { areas: 100_000, churn: 200_000, shape: PLAIN }, cycle)
}

const fn on(layer: Layer, name: &'static str, parts: (Setup, Cycle), about: &'static str) -> Workload {
    Workload { name, about, layer, setup: parts.0, cycle: parts.1, guard: false, large: false }
}

const HOLES: Setup = Setup::Holes { holes: 15_000 };

/// Every workload, in the order of the tables.
pub const ALL: &[Workload] = &{
    use Layer::{Blocks, Map, OddSpace, Space};
    [
        on(
            Map,
            "FS-10k",
            steady(10_000, 20_000, PLAIN),
            "10,000 live areas of 1…64 pages, replaced at random",
        ),
        on(Map, "FS-100k", steady(100_000, 200_000, PLAIN), "the same, 100,000 live"),
        on(Map, "FS-1M", steady(1_000_000, 1_000_000, PLAIN), "the same, 1,000,000 live"),
        Workload {
            large: true,
            ..on(Map, "FS-10M", steady(10_000_000, 10_000_000, PLAIN), "the same, 10,000,000 live")
        },
        on(Map, "FS-large", steady(10_000, 20_000, LARGE), "10,000 live areas of 1…65,536 pages"),
        on(Map, "FS-holes-100", (HOLES, Cycle::Bounce(fixed(100))), "15,000 one-page holes; 100 pages"),
        on(Map, "FS-holes-1", (HOLES, Cycle::Bounce(ONE_PAGE)), "15,000 one-page holes; 1 page"),
        Workload {
            large: true,
            ..on(
                Map,
                "FS-near",
                (Setup::Holes { holes: 1_000_000 }, Cycle::Near),
                "1,000,000 one-page holes; 1 page near an area",
            )
        },
        on(
            Map,
            "FS-align",
            steady(10_000, 20_000, ALIGNED),
            "10,000 live areas of 1…10 pages, alignment 2^0…2^9",
        ),
        on(
            Map,
            "FS-align-worst",
            (HOLES, Cycle::WorstCall),
            "worst first call among 15,000 holes at odd pages",
        ),
        Workload {
            guard: true,
            ..on(
                Space,
                "W1",
                (Setup::Empty, Cycle::Bounce(fixed(3))),
                "3 pages and a guard page, empty space",
            )
        },
        on(
            Space,
            "W2",
            (Setup::Held { areas: 15_000 }, Cycle::Two { first: 100, second: 1 }),
            "15,000 one-page areas held; 100 pages and 1 page",
        ),
        on(Space, "W3", (HOLES, Cycle::Bounce(ONE_PAGE)), "15,000 one-page holes; 1 page"),
        on(
            Space,
            "W4",
            (Setup::Empty, Cycle::Bounce(Shape { min_pages: 1, max_pages: 100, max_order: 0 })),
            "1…100 pages, empty space",
        ),
        on(
            Space,
            "W5-10k",
            // So many that the pools are in a steady state as well.
            steady(10_000, 100_000, PLAIN),
            "10,000 live areas of 1…64 pages, replaced at random",
        ),
        on(Space, "W5-100k", steady(100_000, 400_000, PLAIN), "the same, 100,000 live"),
        Workload {
            large: true,
            ..on(Space, "W5-100k-1", steady(100_000, 400_000, ONE_PAGE), "100,000 live areas of one page")
        },
        on(Space, "W5-1M", steady(1_000_000, 1_000_000, PLAIN), "the same, 1,000,000 live"),
        Workload {
            large: true,
            ..on(Space, "W5-10M", steady(10_000_000, 10_000_000, PLAIN), "the same, 10,000,000 live")
        },
        Workload {
            guard: true,
            ..on(
                OddSpace,
                "W1-odd",
                (Setup::Empty, Cycle::Bounce(fixed(3))),
                "11,051 bytes in 3 pages and a guard page, empty space",
            )
        },
        on(
            OddSpace,
            "W5-odd",
            steady(100_000, 400_000, PLAIN),
            "100,000 live areas of 1…64 pages less 1,237 bytes, replaced at random",
        ),
        on(Space, "W6", (Setup::Empty, Cycle::Bounce(ALIGNED)), "1…10 pages, alignment 2^0…2^9, empty space"),
        on(Space, "W6b", steady(10_000, 20_000, ALIGNED), "the same among 10,000 live, replaced at random"),
        on(Map, "W7-start", find(Cycle::FindStart), "find by first page, 100,000 live"),
        on(Map, "W7-interior", find(Cycle::FindInterior), "find by any page, 100,000 live"),
        on(
            Space,
            "W7-space",
            find(Cycle::FindInterior),
            "look-ups through the space: its lock and the area's annotation",
        ),
        on(
            Blocks,
            "W8",
            (Setup::Empty, Cycle::Bounce(PLAIN)),
            "1…64 pages of blocks of 1024 slots, and returned",
        ),
    ]
};

impl Workload {
    /// The workload called `name`, in whatever case.
    pub fn named(name: &str) -> Option<&'static Workload> {
        ALL.iter().find(|workload| workload.name.eq_ignore_ascii_case(name))
    }

    /// Areas that live through the measured loop, and so the ones that metadata is shared among.
    pub const fn live_areas(&self) -> usize {
        match self.setup {
            Setup::Empty => 0,
            Setup::Held { areas } | Setup::Steady { areas, .. } => areas,
            Setup::Holes { holes } => holes,
        }
    }

    /// The most areas at any time.
    pub const fn most_areas(&self) -> usize {
        match self.setup {
            Setup::Holes { holes } => 2 * holes + 2,
            _ => self.live_areas() + 2,
        }
    }

    /// Returns true if the workload asks for alignment anywhere.
    pub const fn aligns(&self) -> bool {
        match self.cycle {
            Cycle::Replace(shape) | Cycle::Bounce(shape) => shape.max_order > 0,
            Cycle::WorstCall => true,
            Cycle::Two { .. } | Cycle::FindStart | Cycle::FindInterior | Cycle::Near => false,
        }
    }

    /// Returns true if the workload looks areas up.
    pub const fn finds(&self) -> bool {
        matches!(self.cycle, Cycle::FindStart | Cycle::FindInterior)
    }

    /// Measured operations in one iteration of the loop.
    pub const fn pairs_per_iteration(&self) -> usize {
        match self.cycle {
            Cycle::Two { .. } => 2,
            _ => 1,
        }
    }
}

/// One request, drawn before the clock starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which live area it replaces, where it replaces one.
    pub slot: u32,
    /// Its pages.
    pub pages: u32,
    /// log2 of its alignment in pages.
    pub order: u32,
}

impl Shape {
    /// A random request that replaces one of `slots` areas.
    pub fn draw(&self, rng: &mut Rng, slots: usize) -> Step {
        let slot = if slots == 0 { 0 } else { rng.below(slots as u64) as u32 };
        let pages = rng.between(self.min_pages.into(), self.max_pages.into()) as u32;
        let order = if self.max_order == 0 { 0 } else { rng.below(u64::from(self.max_order) + 1) as u32 };
        Step { slot, pages, order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        for workload in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == workload.name).count(), 1);
            assert_eq!(Workload::named(&workload.name.to_lowercase()).map(|w| w.name), Some(workload.name));
        }
        assert!(Workload::named("W99").is_none());
    }

    #[test]
    fn drawn_requests_stay_in_their_shape() {
        let mut rng = Rng::new(7);
        for _ in 0..1000 {
            let step = ALIGNED.draw(&mut rng, 5);
            assert!(step.slot < 5 && (1..=10).contains(&step.pages) && step.order <= 9);
        }
    }
}
