//! A witness that uses every area, from several CPUs, as hard as hardware might.

use vmalloc::{AreaInfo, Kind, PageRange, Platform};
use vmalloc_model::space::{Call, Content, Witness};
use vmalloc_model::{Seeded, Source};
use vmalloc_sim::{Counts, Fault, Point, Sim};

/// Pages of an area that are written to and checked: the first ones, and the last.
const USED: u64 = 64;

/// Writes to every area from the current CPU, reads it on others, and leaves translations behind on
/// all of them.
pub(crate) struct SimWitness {
    source: Seeded,
    /// The machine's counts at the end.
    pub(crate) counts: Counts,
}

impl SimWitness {
    /// Its choices follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { source: Seeded::new(seed), counts: Counts::default() }
    }

    fn any_cpu(&mut self, sim: &Sim) -> usize {
        self.source.below(sim.geometry().cpus as u64) as usize
    }

    /// Lets CPUs fill their TLBs with what is mapped around `area`, as any CPU may at any time.
    fn speculate(&mut self, sim: &Sim, area: &AreaInfo) {
        let cpu = self.any_cpu(sim);
        sim.prefetch(cpu, pages(area));
    }
}

fn pages(area: &AreaInfo) -> PageRange {
    PageRange::from_len((area.addr >> Sim::PAGE_SHIFT) as u64, area.pages).expect("an area is not empty")
}

fn used(area: &AreaInfo) -> impl Iterator<Item = u64> {
    let pages = pages(area);
    let (first_end, last) = (pages.end().min(pages.start() + USED), pages.end() - 1);
    (pages.start()..first_end).chain((last >= first_end).then_some(last))
}

/// Returns the word that is written to a page: never zero, and another for each page.
fn word(page: u64) -> u64 {
    !page
}

fn check_traps(sim: &Sim, cpu: usize, page: u64, area: &AreaInfo) {
    let read = sim.read(cpu, page);
    assert_eq!(read, Err(Fault::NotMapped { cpu, page }), "{area:?} or its guard is reached");
}

fn check_guard(sim: &Sim, cpu: usize, area: &AreaInfo) {
    if area.guard {
        check_traps(sim, cpu, pages(area).end(), area);
    }
}

impl Witness<Sim> for SimWitness {
    fn appeared(&mut self, sim: &Sim, area: &AreaInfo, content: Content) {
        let (here, there) = (sim.cpu(), self.any_cpu(sim));
        check_guard(sim, there, area);
        if area.kind != Kind::Vmalloc {
            sim.handed_out(pages(area));
            used(area).for_each(|page| check_traps(sim, here, page, area));
            return;
        }
        for page in used(area) {
            let found = sim.read(there, page).expect("it is mapped");
            assert!(content == Content::Any || found == 0, "{area:?} does not read as zero");
            sim.write(here, page, word(page)).expect("it is mapped");
        }
        self.speculate(sim, area);
    }

    fn leaves(&mut self, sim: &Sim, area: &AreaInfo) {
        let (here, there) = (sim.cpu(), self.any_cpu(sim));
        check_guard(sim, here, area);
        if area.kind != Kind::Vmalloc {
            used(area).for_each(|page| check_traps(sim, there, page, area));
            return;
        }
        for page in used(area) {
            assert_eq!((sim.read(here, page), sim.read(there, page)), (Ok(word(page)), Ok(word(page))));
        }
        self.speculate(sim, area);
    }

    fn ends(&mut self, sim: &Sim) {
        sim.check_end();
        self.counts = sim.counts();
        let others = sim.geometry().cpus as u64 - 1;
        assert!(sim.flushes().iter().all(|flush| flush.interrupts <= others));
    }

    fn move_to(&mut self, sim: &Sim, cpu: usize) {
        Sim::run_on(cpu);
        sim.audit();
    }

    fn fail(&mut self, sim: &Sim, call: Call, nth: u64) {
        let point = match call {
            Call::Map if self.source.chance(128) => Point::Frame,
            Call::Map => Point::Map,
            Call::Unmap => Point::Unmap,
            Call::Flush => Point::Flush,
        };
        sim.fail_nth(point, nth);
    }

    fn heal(&mut self, sim: &Sim) {
        sim.heal();
    }

    fn failed(&self, sim: &Sim) -> u64 {
        sim.counts().failed
    }
}
