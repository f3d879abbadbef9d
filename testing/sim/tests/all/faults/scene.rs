//! Spaces to begin in.

pub(crate) use crate::{PAGE, free};
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_sim::{Direct, OnViolation, Options, Sim};

/// Pages of a roomy span: two leaves and more.
const ROOMY: u64 = 1 << 12;
const CPUS: usize = 3;

/// Addresses that an operation works on.
pub(crate) type Areas = Vec<usize>;

fn options(options: Options) -> Options {
    options.cpus(CPUS).frames(2 * ROOMY).huge_order(3).relocates().seed(1).on_violation(OnViolation::Record)
}

/// Returns a machine with so many pages.
pub(crate) fn sim_of(pages: u64) -> Sim {
    options(Options::new(PageRange::from_len(0x1_0000, pages).expect("not empty"))).build()
}

pub(crate) fn sim() -> Sim {
    sim_of(ROOMY)
}

/// Returns an empty space.
pub(crate) fn empty(space_options: SpaceOptions) -> Space<Sim> {
    Sim::run_on(0);
    Space::new(sim(), space_options).expect("a space")
}

/// Returns an empty space on memory, and with less of it.
pub(crate) fn direct(space_options: SpaceOptions) -> Space<Direct> {
    Sim::run_on(0);
    Space::new(Direct::new(ROOMY / 4, options), space_options).expect("a space")
}

/// Uses an area on all CPUs, so that each remembers its pages.
pub(crate) fn touch<P: vmalloc_sim::harness::Simulated>(space: &Space<P>, addr: usize) {
    let area = space.find(addr).expect("it is busy");
    let first = (area.addr / PAGE) as u64;
    for page in first..first + area.pages {
        (0..CPUS).for_each(|cpu| space.platform().machine().write(cpu, page, page).expect("it is mapped"));
    }
}

/// Settings with which a freed area becomes lazy, is purged soon, or is cached.
pub(crate) fn all_options() -> [(&'static str, SpaceOptions); 3] {
    let unmapping = SpaceOptions::default().unmap_on_free();
    [
        ("lazy", unmapping),
        ("purged at once", unmapping.lazy_max_pages(1)),
        ("cached", SpaceOptions::default()),
    ]
}
