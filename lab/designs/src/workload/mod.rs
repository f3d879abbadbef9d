//! The calls that run on every design: the cases of Linux's test driver, and steady sets.
//!
//! The address part alone: what a kernel does besides (take pages, fill page tables, touch) is the
//! same for every design and is left out. An area of Linux's test is asked for with its guard page,
//! so that one page is a request for two.

#[cfg(not(machine))]
mod boot;
mod cases;
mod fits;
mod tenants;

use crate::design::{Ask, Design, Refusal};
use crate::rng::Rng;
#[cfg(not(machine))]
pub use boot::boot;
pub use cases::CASES;
pub use fits::FITS;
use std::time::{Duration, Instant};
pub use tenants::Tenants;
use vmalloc_kit::hooks;

/// A case of a test driver.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Linux's name, without its `_test`.
    pub name: &'static str,
    /// The calls of a loop.
    pub about: &'static str,
    run: fn(&mut Run<'_>) -> Result<(), Refusal>,
}

/// How much of a case is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Loops of a case.
    pub loops: u64,
    /// The divisor of the areas that cases hold: 1 holds as many as Linux's driver.
    pub held_by: u64,
}

impl Size {
    /// Linux's numbers, with so many loops.
    #[must_use]
    pub const fn loops(loops: u64) -> Self {
        Self { loops, held_by: 1 }
    }

    /// Divides the areas that cases hold.
    #[must_use]
    pub const fn held_by(mut self, divisor: u64) -> Self {
        self.held_by = divisor;
        self
    }
}

/// Where a case is run.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// The allocator.
    pub design: &'a dyn Design,
    /// Its lazy threshold in pages.
    pub lazy_max_pages: u64,
    /// The tenants of the space.
    pub tenants: Option<&'a Tenants>,
    /// The other threads on the CPU.
    pub crowd: Crowd,
}

/// The ratio of threads to CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crowd {
    /// A CPU for each.
    Alone,
    /// More: a thread lets others run now and then, while it holds no lock. A kernel's never lose
    /// the CPU with a spin lock held; threads of a program do, and then all wait for one that does
    /// not run.
    Crowded,
}

/// How long a thread runs among many: a fraction of what the system would let it.
const TURN: Duration = Duration::from_micros(300);

/// One worker at a case.
pub struct Run<'a> {
    stage: Stage<'a>,
    size: Size,
    rng: Rng,
    timed: &'a mut dyn FnMut(Timed),
    /// When this thread let others run last.
    rested: Instant,
}

/// A part of a case: its loops, or the preparation for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timed {
    /// The loops begin.
    Loops,
    /// They have ended.
    Rest,
}

impl Case {
    /// Runs it once; `timed` is told where its loops begin and end. Everything is freed afterwards.
    ///
    /// # Errors
    /// When the design refuses what should have been possible. Requests that no space could grant
    /// are not errors.
    pub fn run(
        &self,
        stage: Stage<'_>,
        size: Size,
        seed: u64,
        timed: &mut dyn FnMut(Timed),
    ) -> Result<(), Refusal> {
        (self.run)(&mut Run { stage, size, rng: Rng::new(seed), timed, rested: Instant::now() })
    }
}

impl Run<'_> {
    /// Runs `turn` as often as there are loops, and has that timed.
    fn turns(&mut self, mut turn: impl FnMut(&mut Self) -> Result<(), Refusal>) -> Result<(), Refusal> {
        (self.timed)(Timed::Loops);
        let done = (0..self.size.loops).try_for_each(|nth| {
            self.stage.tenants.map_or(Ok(()), |tenants| tenants.live(self.stage.design, nth))?;
            self.rest();
            turn(self)
        });
        (self.timed)(Timed::Rest);
        done
    }

    /// An area of so many pages and its guard page, allocated and freed.
    fn pair(&self, pages: u64, align: u64) -> Result<(), Refusal> {
        let start = self.area(pages, align)?;
        self.stage.design.free(start)
    }

    /// An area of so many pages and its guard page, allocated and used.
    fn area(&self, pages: u64, align: u64) -> Result<u64, Refusal> {
        let start = self.stage.design.alloc(&guarded(pages).align(align))?;
        hooks::used(start, pages);
        Ok(start)
    }

    /// So many one-page areas, less when cases are to hold less.
    fn hold(&mut self, count: u64) -> Result<Vec<u64>, Refusal> {
        let count = count / self.size.held_by;
        let one = |_| {
            self.rest();
            self.area(1, 1)
        };
        (0..count).map(one).collect()
    }

    fn free_all(&mut self, starts: &[u64]) -> Result<(), Refusal> {
        starts.iter().try_for_each(|&start| {
            self.rest();
            self.stage.design.free(start)
        })
    }

    /// Lets others run, if it is time.
    fn rest(&mut self) {
        if self.stage.crowd == Crowd::Crowded && self.rested.elapsed() > TURN {
            std::thread::yield_now();
            self.rested = Instant::now();
        }
    }
}

/// So many pages, and a guard page.
#[must_use]
pub const fn guarded(pages: u64) -> Ask {
    Ask::new(pages + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Setup;
    use crate::designs::Name;

    #[test]
    fn every_case_leaves_every_design_whole() {
        let setup = Setup::with_cpus(2).lazy_max(512);
        for &name in Name::ALL {
            let design = name.build(&setup);
            let tenants = Tenants::move_in(&*design).expect("room");
            let busy = design.counts().busy_areas;
            let stage = Stage {
                design: &*design,
                lazy_max_pages: 512,
                tenants: Some(&tenants),
                crowd: Crowd::Crowded,
            };
            for case in CASES.iter().chain(FITS) {
                let mut told = Vec::new();
                let size = Size::loops(20).held_by(10);
                case.run(stage, size, 1, &mut |timed| told.push(timed)).expect(case.name);
                assert_eq!(told, [Timed::Loops, Timed::Rest], "{}", case.name);
                design.verify().expect(case.name);
            }
            assert_eq!(design.counts().busy_areas, busy, "{}", design.name());
        }
    }
}
