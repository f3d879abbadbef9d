//! Spaces to begin in.

pub(crate) use crate::{PAGE, free};
use vmalloc::{AllocError, PageRange, Platform, Request, Space, SpaceOptions};
use vmalloc_sim::harness::Simulated;
use vmalloc_sim::{Direct, Discard, OnViolation, Options, Sim};

/// Pages of a roomy span: two leaves and more.
const ROOMY: u64 = 1 << 12;
const CPUS: usize = 3;

/// A space and its content.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pages: u64,
    frames: u64,
    config: SpaceOptions,
    fill: Fill,
    machine: Machine,
}

/// The behaviour of a machine with mappings of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    Plain,
    /// Discarded pages stay mapped.
    Keeps,
    /// Discarded pages stay mapped, and mappings replace what was there.
    Replaces,
}

impl Machine {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Keeps, Self::Replaces];
}

#[derive(Clone, Copy)]
enum Fill {
    Nothing,
    Some,
    Everything,
}

/// Addresses that an operation works on, with room for more.
pub(crate) type Areas = Vec<usize>;

impl Scene {
    /// Returns an empty space.
    pub(crate) fn empty(config: SpaceOptions) -> Self {
        Self { pages: ROOMY, frames: 2 * ROOMY, config, fill: Fill::Nothing, machine: Machine::Plain }
    }

    /// Returns areas of many sizes in use, and freed ones among them, on all CPUs.
    pub(crate) fn used(config: SpaceOptions) -> Self {
        Self { fill: Fill::Some, ..Self::empty(config) }
    }

    /// Every address, or every frame, was in use, and every other area was freed.
    pub(crate) fn full(config: SpaceOptions) -> Self {
        Self { pages: 64, fill: Fill::Everything, ..Self::empty(config) }
    }

    /// Sets the number of pages.
    pub(crate) fn pages(self, pages: u64) -> Self {
        Self { pages, ..self }
    }

    /// Sets the number of frames.
    pub(crate) fn frames(self, frames: u64) -> Self {
        Self { frames, ..self }
    }

    /// Sets the machine.
    pub(crate) fn on(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    fn options(&self, options: Options) -> Options {
        let options = match self.machine {
            Machine::Plain => options,
            Machine::Keeps => options.discard(Discard::Keeps),
            Machine::Replaces => options.discard(Discard::Keeps).remaps_atomically(),
        };
        options
            .cpus(CPUS)
            .frames(self.frames)
            .devices(16)
            .huge_order(3)
            .relocates()
            .seed(1)
            .on_violation(OnViolation::Record)
    }

    pub(crate) fn config(&self) -> SpaceOptions {
        self.config
    }

    pub(crate) fn sim(&self) -> Sim {
        let span = PageRange::from_len(0x1_0000, self.pages).expect("not empty");
        self.options(Options::new(span)).build()
    }

    /// Returns the space, and the areas in use.
    pub(crate) fn build(self) -> (Space<Sim>, Areas) {
        self.build_on(self.sim())
    }

    /// Builds the scene on memory, and with less of it.
    pub(crate) fn build_direct(self) -> (Space<Direct>, Areas) {
        self.build_on(Direct::new(self.pages / 4, |options| self.options(options)))
    }

    fn build_on<P: Simulated>(self, platform: P) -> (Space<P>, Areas) {
        Sim::run_on(0);
        let space = Space::new(platform, self.config).expect("a space");
        let areas = match self.fill {
            Fill::Nothing => Areas::new(),
            Fill::Some => fill(&space, 60),
            Fill::Everything => fill(&space, usize::MAX),
        };
        let mut areas = free_every_other(&space, areas);
        areas.reserve(64);
        (space, areas)
    }
}

/// Allocates up to `count` areas, as far as there is room, on one CPU after the other, and uses
/// them on all.
fn fill<P: Simulated>(space: &Space<P>, count: usize) -> Areas {
    let mut areas = Areas::new();
    let largest = 1 + space.stats().span_pages as usize / 16;
    for nth in 0..count {
        Sim::run_on(nth % CPUS);
        let pages = [1, 2, 1, 5, 1, 17][nth % 6].min(largest);
        let request = Request::new(pages * PAGE - nth % 2).align(PAGE << (nth % 7 / 5));
        let request = if nth.is_multiple_of(5) { request.tag("filled") } else { request };
        let smallest = Request::new(PAGE).guard(false);
        match space.raw().alloc(&request).or_else(|_| space.raw().alloc(&smallest)) {
            Ok(addr) => areas.push(addr),
            Err(AllocError::NoSpace(_) | AllocError::Unbacked(_)) => break,
            Err(error) => panic!("{error}"),
        }
        touch(space, areas[areas.len() - 1]);
    }
    Sim::run_on(0);
    areas
}

/// Uses an area on all CPUs, so that each remembers its pages.
pub(crate) fn touch<P: Simulated>(space: &Space<P>, addr: usize) {
    let area = space.find(addr).expect("it is busy");
    let first = (area.addr / PAGE) as u64;
    for page in first..first + area.pages {
        (0..CPUS).for_each(|cpu| space.platform().machine().write(cpu, page, page).expect("it is mapped"));
    }
}

/// Frees every other area, on another CPU than it was asked for; those that are left.
fn free_every_other<P: Platform>(space: &Space<P>, areas: Areas) -> Areas {
    for (nth, &addr) in areas.iter().enumerate().step_by(2) {
        Sim::run_on(nth / 2 % CPUS);
        free(space, addr);
    }
    Sim::run_on(0);
    areas.into_iter().skip(1).step_by(2).collect()
}

/// Settings with which a freed area becomes lazy, is purged soon, or is cached.
pub(crate) fn configs() -> [(&'static str, SpaceOptions); 3] {
    let unmapping = SpaceOptions::default().unmap_on_free();
    [
        ("lazy", unmapping),
        ("purged at once", unmapping.lazy_max_pages(1)),
        ("cached", SpaceOptions::default()),
    ]
}

/// Returns these, and one in which nothing is left for a purge.
pub(crate) fn configs_of_frees() -> impl Iterator<Item = (&'static str, SpaceOptions)> {
    configs().into_iter().chain([("trapping", SpaceOptions::default().trap_on_free(true))])
}
