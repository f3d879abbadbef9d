//! One allocator in the state that a workload asks for, and the measured loops.
//!
//! Everything random is drawn into a [`Window`] before the clock starts, so that a iteration of a
//! measured loop is the calls themselves, a load of the request and a load and store of the handle.
//! What that costs is known exactly: the same loop over [`Noop`](crate::adapter::Noop).

use crate::heap;
use crate::ranges::{BASE_PAGE, Plan, Ranges};
use crate::workload::{Cycle, Setup, Shape, Step, Workload};
use std::hint::black_box;
use std::time::{Duration, Instant};
use vmalloc_kit::clock::{tick, ticks_per_ns};
use vmalloc_kit::rng::Rng;
use vmalloc_kit::times::Times;

/// The seed of every stage: all allocators see the same requests.
const SEED: u64 = 0x766d_616c_6c6f_6301;

/// Set-up work between two looks at the wall clock.
const CALLS_PER_CLOCK: usize = 64;

/// How far the set-up came before its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// All the way.
    Steady,
    /// The live set is complete, but its churn was cut short: the state is kinder than the steady
    /// one.
    ChurnCut,
}

/// The set-up could not even build the live set in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the set-up takes too long")]
pub struct TooSlow;

/// The requests of one measured loop.
#[derive(Debug)]
pub enum Window {
    /// Allocations.
    Steps(Vec<Step>),
    /// Pages to look up, or to be near to.
    Pages(Vec<u64>),
}

impl Window {
    /// Turns of the loop.
    pub fn iterations(&self) -> usize {
        match self {
            Window::Steps(steps) => steps.len(),
            Window::Pages(pages) => pages.len(),
        }
    }
}

/// An allocator with its live areas.
pub struct Stage<R: Ranges> {
    workload: Workload,
    ranges: R,
    live: Vec<R::Handle>,
    /// Pages of each live area, without guard.
    pages: Vec<u32>,
    guard_pages: u32,
    rng: Rng,
    readiness: Readiness,
    /// Heap bytes in use before the allocator was built.
    heap_before: usize,
}

impl<R: Ranges> Stage<R> {
    /// An empty space with room for the bookkeeping of `workload`.
    pub fn new(workload: &Workload) -> Self {
        let areas = workload.most_areas();
        Self {
            workload: *workload,
            live: Vec::with_capacity(areas),
            pages: Vec::with_capacity(areas),
            guard_pages: u32::from(workload.guard && !R::GUARDS),
            rng: Rng::new(SEED),
            readiness: Readiness::Steady,
            // After the bookkeeping above and before the allocator below: fields are built in this
            // order.
            heap_before: heap::live_bytes(),
            ranges: R::build(&Plan { areas, guard: workload.guard }),
        }
    }

    /// Brings the space into the state of the workload, within `cap` if it can.
    ///
    /// # Errors
    /// [`TooSlow`] when the live set is not complete by then.
    pub fn set_up(&mut self, cap: Duration) -> Result<Readiness, TooSlow> {
        let deadline = Instant::now() + cap;
        match self.workload.setup {
            Setup::Empty => {}
            Setup::Held { areas } => self.fill(areas, ONE_PAGE, deadline)?,
            Setup::Holes { holes } => {
                self.fill(2 * holes, ONE_PAGE, deadline)?;
                self.free_every_second(deadline)?;
            }
            Setup::Steady { areas, churn, shape } => {
                self.fill(areas, shape, deadline)?;
                self.churn(churn, shape, deadline);
            }
        }
        self.ranges.settle();
        Ok(self.readiness)
    }

    fn fill(&mut self, areas: usize, shape: Shape, deadline: Instant) -> Result<(), TooSlow> {
        for area in 0..areas {
            if area % CALLS_PER_CLOCK == 0 && Instant::now() > deadline {
                return Err(TooSlow);
            }
            let step = shape.draw(&mut self.rng, 0);
            self.live.push(self.ranges.allocate(u64::from(step.pages + self.guard_pages), 1 << step.order));
            self.pages.push(step.pages);
        }
        Ok(())
    }

    fn free_every_second(&mut self, deadline: Instant) -> Result<(), TooSlow> {
        for index in (1..self.live.len()).step_by(2) {
            if index % CALLS_PER_CLOCK == 1 && Instant::now() > deadline {
                return Err(TooSlow);
            }
            self.ranges.free(self.live[index]);
        }
        let mut index = 0;
        self.live.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.pages.truncate(self.live.len());
        Ok(())
    }

    fn churn(&mut self, churn: usize, shape: Shape, deadline: Instant) {
        for iteration in 0..churn {
            if iteration % CALLS_PER_CLOCK == 0 && Instant::now() > deadline {
                self.readiness = Readiness::ChurnCut;
                return;
            }
            let step = shape.draw(&mut self.rng, self.live.len());
            let slot = step.slot as usize;
            self.ranges.free(self.live[slot]);
            self.live[slot] = self.ranges.allocate(u64::from(step.pages + self.guard_pages), 1 << step.order);
            self.pages[slot] = step.pages;
        }
    }

    /// Draws the requests of the next `iterations` iterations.
    pub fn draw(&mut self, iterations: usize) -> Window {
        match self.workload.cycle {
            Cycle::Replace(shape) | Cycle::Bounce(shape) => Window::Steps(self.draw_steps(shape, iterations)),
            Cycle::Two { .. } | Cycle::WorstCall => Window::Steps(self.draw_steps(ONE_PAGE, iterations)),
            Cycle::FindStart => Window::Pages((0..iterations).map(|_| self.draw_page(0)).collect()),
            Cycle::FindInterior | Cycle::Near => {
                Window::Pages((0..iterations).map(|_| self.draw_page(u32::MAX)).collect())
            }
        }
    }

    fn draw_steps(&mut self, shape: Shape, iterations: usize) -> Vec<Step> {
        let draw = |_| {
            let step = shape.draw(&mut self.rng, self.live.len());
            Step { pages: step.pages + self.guard_pages, ..step }
        };
        (0..iterations).map(draw).collect()
    }

    /// A page of a random live area, at most `reach` pages from its first.
    fn draw_page(&mut self, reach: u32) -> u64 {
        let slot = self.rng.below(self.live.len() as u64) as usize;
        let offset = self.rng.below(self.pages[slot].into()).min(reach.into());
        R::start(self.live[slot]) + offset
    }

    /// The measured loop.
    #[inline(never)]
    pub fn play(&mut self, window: &Window) {
        match (window, self.workload.cycle) {
            (Window::Steps(steps), Cycle::Replace(_)) => steps.iter().for_each(|step| self.replace(step)),
            (Window::Steps(steps), Cycle::Two { first, second }) => {
                steps.iter().for_each(|_| self.two(u64::from(first), u64::from(second)));
            }
            (Window::Steps(steps), _) => steps.iter().for_each(|step| self.bounce(step)),
            (Window::Pages(pages), Cycle::Near) => {
                pages.iter().for_each(|&page| self.ranges.bounce_near(page));
            }
            (Window::Pages(pages), _) => pages.iter().for_each(|&page| self.look_up(page)),
        }
    }

    /// Plays `count` iterations of the measured loop, and times each by itself.
    pub fn time(&mut self, count: usize) -> Times {
        let window = self.draw(count);
        // Written before, so that no page of it is new to the kernel while the clock runs.
        let mut ticks = vec![1; window.iterations()];
        ticks.clear();
        self.play_timed(&window, &mut ticks);
        self.absorb(&window);
        let (rate, mut times) = (ticks_per_ns(), Times::precise());
        ticks.iter().for_each(|&ticks| times.record(Duration::from_nanos((ticks as f64 / rate) as u64)));
        times
    }

    /// Plays the measured loop with a tick before and after each iteration; the ticks of each go to
    /// `ticks`.
    fn play_timed(&mut self, window: &Window, ticks: &mut Vec<u64>) {
        let mut timed = |iteration: &mut dyn FnMut()| {
            let before = tick();
            iteration();
            ticks.push(tick().wrapping_sub(before));
        };
        match (window, self.workload.cycle) {
            (Window::Steps(steps), Cycle::Replace(_)) => {
                steps.iter().for_each(|step| timed(&mut || self.replace(step)));
            }
            (Window::Steps(steps), Cycle::Two { first, second }) => {
                steps.iter().for_each(|_| timed(&mut || self.two(u64::from(first), u64::from(second))));
            }
            (Window::Steps(steps), _) => steps.iter().for_each(|step| timed(&mut || self.bounce(step))),
            (Window::Pages(pages), Cycle::Near) => {
                pages.iter().for_each(|&page| timed(&mut || self.ranges.bounce_near(page)));
            }
            (Window::Pages(pages), _) => pages.iter().for_each(|&page| timed(&mut || self.look_up(page))),
        }
    }

    #[inline(always)]
    fn replace(&mut self, step: &Step) {
        let handle = &mut self.live[step.slot as usize];
        self.ranges.free(*handle);
        *handle = self.ranges.allocate(u64::from(step.pages), 1 << step.order);
    }

    #[inline(always)]
    fn bounce(&mut self, step: &Step) {
        let handle = self.ranges.allocate(u64::from(step.pages), 1 << step.order);
        self.ranges.free(handle);
    }

    #[inline(always)]
    fn two(&mut self, first: u64, second: u64) {
        let one = self.ranges.allocate(first, 1);
        let two = self.ranges.allocate(second, 1);
        self.ranges.free(one);
        self.ranges.free(two);
    }

    #[inline(always)]
    fn look_up(&mut self, page: u64) {
        black_box(self.ranges.find(page));
    }

    /// One allocation by itself.
    #[inline(never)]
    pub fn call_allocate(&mut self, pages: u64, align: u64) -> R::Handle {
        self.ranges.allocate(pages, align)
    }

    /// One free by itself.
    #[inline(never)]
    pub fn call_free(&mut self, handle: R::Handle) {
        self.ranges.free(handle);
    }

    /// Notes the sizes that `window`, played before, left behind.
    pub fn absorb(&mut self, window: &Window) {
        if let (Window::Steps(steps), Cycle::Replace(_)) = (window, self.workload.cycle) {
            for step in steps {
                self.pages[step.slot as usize] = step.pages - self.guard_pages;
            }
        }
    }

    /// Pages from the base of the space to the highest live end, over the live pages; `None` when
    /// nothing is live.
    pub fn span_per_live(&self) -> Option<f64> {
        let end = |(&handle, &pages)| R::start(handle) + u64::from(pages);
        let highest = self.live.iter().zip(&self.pages).map(end).max()?;
        let live: u64 = self.pages.iter().copied().map(u64::from).sum();
        Some((highest - BASE_PAGE) as f64 / live as f64)
    }

    /// Metadata of the allocator: the heap it has taken, or what it counts itself where that is
    /// more. To be asked right after the set-up, before anything else allocates.
    pub fn metadata_bytes(&self) -> usize {
        let heap = heap::live_bytes().wrapping_sub(self.heap_before);
        heap.max(self.ranges.own_metadata_bytes().unwrap_or(0))
    }
}

const ONE_PAGE: Shape = Shape { min_pages: 1, max_pages: 1, max_order: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{BTreeFirst, Noop};
    use crate::workload::Layer;

    const SHAPE: Shape = Shape { min_pages: 1, max_pages: 8, max_order: 0 };

    fn workload(setup: Setup, cycle: Cycle) -> Workload {
        Workload { name: "test", about: "", layer: Layer::Map, setup, cycle, guard: false, large: false }
    }

    fn ready(workload: &Workload) -> Stage<BTreeFirst> {
        let mut stage = Stage::new(workload);
        assert_eq!(stage.set_up(Duration::from_secs(100)), Ok(Readiness::Steady));
        stage
    }

    #[test]
    fn held_areas_have_no_gaps() {
        let stage = ready(&workload(Setup::Held { areas: 10 }, Cycle::Bounce(ONE_PAGE)));
        assert_eq!(stage.span_per_live(), Some(1.0));
    }

    #[test]
    fn holes_lie_at_odd_pages() {
        let mut stage = ready(&workload(Setup::Holes { holes: 100 }, Cycle::WorstCall));
        assert_eq!(stage.span_per_live(), Some(199.0 / 100.0));
        assert_eq!(BTreeFirst::start(stage.call_allocate(1, 1)), BASE_PAGE + 1);
        assert_eq!(BTreeFirst::start(stage.call_allocate(1, 2)), BASE_PAGE + 200);
    }

    #[test]
    fn an_empty_space_has_no_span() {
        assert_eq!(ready(&workload(Setup::Empty, Cycle::Bounce(SHAPE))).span_per_live(), None);
    }

    #[test]
    fn live_sizes_follow_the_played_windows() {
        let setup = Setup::Steady { areas: 50, churn: 200, shape: SHAPE };
        let mut stage = ready(&workload(setup, Cycle::Replace(SHAPE)));
        for _ in 0..10 {
            let window = stage.draw(100);
            assert_eq!(window.iterations(), 100);
            stage.play(&window);
            stage.absorb(&window);
            assert!(stage.span_per_live().is_some_and(|span| (1.0..2.0).contains(&span)));
            let ends: Vec<_> = stage.live.iter().zip(&stage.pages).collect();
            assert!(ends.iter().all(|((_, len), pages)| *len == u64::from(**pages)));
        }
    }

    #[test]
    fn slow_set_up_is_reported() {
        let setup = Setup::Steady { areas: 1, churn: 1_000_000_000, shape: SHAPE };
        let mut stage = Stage::<Noop>::new(&workload(setup, Cycle::Replace(SHAPE)));
        assert_eq!(stage.set_up(Duration::ZERO), Err(TooSlow));
        let mut stage = Stage::<Noop>::new(&workload(setup, Cycle::Replace(SHAPE)));
        assert_eq!(stage.set_up(Duration::from_millis(20)), Ok(Readiness::ChurnCut));
    }
}
