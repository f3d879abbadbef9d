//! One run: a design, a number of CPUs, and what they do.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vmalloc_kit::cpu;
use vmalloc_kit::rng::Rng;
use vmalloc_lab::design::{Ask, Design, Setup};
use vmalloc_lab::designs::Name;
use vmalloc_lab::workload::{CASES, Case, Crowd, Size, Stage, Tenants};
use vmalloc_machine::{Costs, Machine, Report, Work};

/// The work of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) design: Name,
    pub(crate) cpus: usize,
    pub(crate) threads: usize,
    pub(crate) nodes: usize,
    /// Loops of all threads together.
    pub(crate) loops: u64,
    /// The cases, by their bits.
    pub(crate) mask: u8,
    /// The divisor of the areas that cases hold, beside the number of threads.
    pub(crate) held_by: u64,
    /// True where others live in the space.
    pub(crate) lived_in: bool,
    /// The number of the orders in which the threads take their cases.
    pub(crate) orders: u64,
    pub(crate) costs: Costs,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) load: Load,
    pub(crate) report: Report,
    /// Pages from the start of the span to the end of the highest area that was used.
    pub(crate) span: u64,
}

/// Builds a design.
pub(crate) type Build = fn(&Setup) -> Box<dyn Design>;

/// Has CPUs allocate and free 2 pages, in `pairs` turns of all of them. Returns the limit, and the
/// most lazy pages that there were.
///
/// # Panics
/// When the design refuses what it should not, or is not whole afterwards.
pub(crate) fn most_lazy(build: Build, cpus: usize, pairs: u64) -> (u64, u64) {
    let machine = Machine::new(Costs::BARE);
    let on_cpu = |cpu| cpu::play(Some(cpu));
    on_cpu(0);
    // Of four CPUs, as the machines of the publication had.
    let limit = Setup::with_cpus(4).lazy_max_pages;
    let design = machine.set_up(|| build(&Setup::with_cpus(cpus).lazy_max(limit)));
    let (most, design) = (AtomicU64::new(0), &*design);
    let turn = || {
        design.free(design.alloc(&Ask::new(2)).expect("room")).expect("an area");
        most.fetch_max(design.lazy_pages(), Relaxed);
    };
    let turns = pairs / cpus as u64;
    let threads = (0..cpus).map(|_| Box::new(|| (0..turns).for_each(|_| turn())) as Work<'_>).collect();
    machine.run(cpus, on_cpu, threads);
    design.verify().expect("a whole design");
    (limit, most.into_inner())
}

/// `run_test_mask=7`: one page, one page among holes, 100 pages and one.
pub(crate) const PUBLISHED_MASK: u8 = 7;

impl Load {
    /// The publication's load: a thread and a node for each CPU, in an empty space.
    pub(crate) const fn published(design: Name, cpus: usize, loops: u64) -> Self {
        Self {
            design,
            cpus,
            threads: cpus,
            nodes: cpus,
            loops,
            mask: PUBLISHED_MASK,
            held_by: 1,
            lived_in: false,
            orders: 0,
            costs: Costs::PUBLISHED,
        }
    }

    /// F5 as `vmalloc-lab reproduce f5` runs it: 32 nodes, a space that is lived in, and areas that
    /// are not used.
    pub(crate) const fn reproduced(design: Name, cpus: usize, loops: u64) -> Self {
        let published = Self::published(design, cpus, loops);
        Self { nodes: 32, held_by: 4, lived_in: true, costs: Costs::BARE, ..published }
    }

    fn cases(&self) -> impl Iterator<Item = (usize, Case)> {
        CASES.iter().copied().enumerate().filter(|(bit, _)| self.mask >> bit & 1 != 0)
    }

    /// Returns the pairs of allocations and frees of all loops: a loop of `long_busy_list` has two.
    pub(crate) fn pairs(&self) -> u64 {
        self.loops * self.cases().map(|(bit, _)| if bit == 2 { 2 } else { 1 }).sum::<u64>()
    }

    /// Runs it.
    ///
    /// # Panics
    /// When the design refuses what it should not, or is not whole afterwards.
    pub(crate) fn run(self) -> Outcome {
        let machine = Machine::new(self.costs);
        let on_cpu = |cpu| cpu::play(Some(cpu));
        on_cpu(0);
        let setup = Setup::with_cpus(self.nodes);
        let design = machine.set_up(|| self.design.build(&setup));
        let tenants = machine.set_up(|| self.lived_in.then(|| Tenants::move_in(&*design).expect("room")));
        let report = machine.run(self.cpus, on_cpu, self.threads(&*design, tenants.as_ref(), &setup));
        design.verify().expect("a whole design");
        drop((tenants, design));
        let span = report.highest.saturating_sub(setup.span.start());
        Outcome { load: self, report, span }
    }

    /// Each thread has an order of its own, as in F5.
    fn threads<'a>(
        &self,
        design: &'a dyn Design,
        tenants: Option<&'a Tenants>,
        setup: &Setup,
    ) -> Vec<Work<'a>> {
        let threads = self.threads as u64;
        let stage = Stage { design, lazy_max_pages: setup.lazy_max_pages, tenants, crowd: Crowd::Alone };
        let size = Size::loops(self.loops / threads).held_by(threads * self.held_by);
        let thread = |number| {
            let mut rng = Rng::new((self.orders << 32) + 0x5eed + number);
            let mut cases: Vec<_> = self.cases().map(|(_, case)| case).collect();
            rng.shuffle(&mut cases);
            Box::new(move || {
                for case in &cases {
                    let done = case.run(stage, size, rng.next_u64(), &mut |_| {});
                    done.unwrap_or_else(|refusal| panic!("{}: {refusal}", case.name));
                }
            }) as Work<'a>
        };
        (0..threads).map(thread).collect()
    }
}
