//! The machine of the porting guide passes the kit.

#[path = "../../../../crates/vmalloc/examples/made_up_machine.rs"]
#[allow(dead_code)]
mod made_up_machine;

use made_up_machine::{Machine, PAGE_SHIFT, PAGES};
use vmalloc_conformance::{Conformance, Direct, Look, Seen};

/// Looks at the machine through the TLB of each CPU.
struct Tlbs;

impl Look<Machine> for Tlbs {
    fn fill(&self, machine: &Machine, cpu: usize, page: u64, word: u64) {
        assert!(machine.can_touch(cpu, (page << PAGE_SHIFT) as usize), "a store to page {page:#x} faults");
        Direct.fill(machine, cpu, page, word);
    }

    fn read(&self, machine: &Machine, cpu: usize, page: u64) -> Seen {
        match self.leads(machine, cpu, page) {
            Some(true) => Direct.read(machine, cpu, page),
            _ => Seen::Fault,
        }
    }

    fn leads(&self, machine: &Machine, cpu: usize, page: u64) -> Option<bool> {
        Some(machine.can_touch(cpu, (page << PAGE_SHIFT) as usize))
    }
}

#[test]
fn the_machine_of_the_porting_guide_keeps_its_contract() {
    let kit = Conformance::new(|| Machine::boot(PAGES), Tlbs).threads().relocate();
    println!("{}", kit.check().unwrap());
}

#[test]
fn one_call_is_enough_for_memory_at_its_own_addresses() {
    vmalloc_conformance::check(|| Machine::boot(PAGES)).unwrap();
}
