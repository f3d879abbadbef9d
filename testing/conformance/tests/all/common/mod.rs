//! Simulated machines, and a look at them.
#![allow(dead_code)]

pub(crate) mod wrong;

use vmalloc::PageRange;
use vmalloc_conformance::{Look, Seen};
use vmalloc_sim::{Direct, Options, Sim, TlbVisibility};

/// A simulated machine with a word in each page.
pub(crate) fn sim(choose: impl FnOnce(Options) -> Options) -> Sim {
    let span = PageRange::new(0x1000, 0x1000 + (1 << 11)).expect("not empty");
    choose(Options::new(span).frames(1 << 12)).build()
}

/// A simulated machine with memory at its addresses.
pub(crate) fn direct(choose: impl FnOnce(Options) -> Options) -> Direct {
    Direct::new(1 << 11, choose)
}

/// Looks at a simulated machine as its CPUs do.
pub(crate) struct SimLook;

impl Look<Sim> for SimLook {
    fn fill(&self, sim: &Sim, cpu: usize, page: u64, word: u64) {
        sim.write(cpu, page, word).expect("a page that can be written");
    }

    fn read(&self, sim: &Sim, cpu: usize, page: u64) -> Seen {
        sim.read(cpu, page).map_or(Seen::Fault, Seen::Word)
    }

    fn leads(&self, sim: &Sim, cpu: usize, page: u64) -> Option<bool> {
        Some(sim.look(cpu, page) != TlbVisibility::Nothing)
    }

    fn can_write(&self, sim: &Sim, cpu: usize, page: u64) -> Option<bool> {
        let held = sim.read(cpu, page).ok()?;
        Some(sim.write(cpu, page, held).is_ok())
    }

    fn run_on(&self, _: &Sim, cpu: usize) {
        Sim::run_on(cpu);
    }

    fn faults(&self, sim: &Sim) -> Vec<String> {
        sim.faults().iter().chain(&sim.audit()).map(|fault| format!("{fault:?}")).collect()
    }
}
