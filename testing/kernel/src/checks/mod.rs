//! Checks of this machine, each a line on the serial port.

mod load;
mod mapping;
mod memory;
mod nodes;
pub(crate) mod shortage;
mod stale;

pub(crate) use mapping::BorrowedFrames;
pub(crate) use nodes::nodes;

use crate::arch::tlb;
use crate::serial::say;
use crate::world::{Failure, Outcome, World};
use vmalloc_tables::Reach;

/// A check, with the CPUs that it needs.
struct Check {
    name: &'static str,
    cpus: usize,
    /// It is about CPUs that acknowledge, which none does where forgetting reaches all.
    asks: bool,
    run: fn(&World) -> Outcome,
}

const fn check(name: &'static str, cpus: usize, run: fn(&World) -> Outcome) -> Check {
    Check { name, cpus, asks: false, run }
}

const CHECKS: [Check; 18] = [
    check("memory is there, at its address and in the direct map", 1, memory::is_there),
    check("a guard page faults", 1, memory::guards_fault),
    check("a freed and purged area faults", 1, memory::freed_faults),
    check("zeroed memory is zero", 1, memory::zeroed_is_zero),
    check("huge pages, and a guard behind them", 1, memory::huge),
    check("code is executable and not writable", 1, memory::exec),
    check("vm_map_ram leads to its frames", 1, mapping::ram),
    check("vm_map_ram ended on another CPU", 2, mapping::ram_on_another),
    check("runs of 2 MiB are large pages, and split", 1, mapping::large),
    check("the rest of a large page and of a group stays while a part goes", 2, mapping::part_in_use),
    check("without a shootdown another CPU reads the next owner's data", 2, stale::without_shootdown),
    check("with it, it faults", 2, stale::with_shootdown),
    check("a purge of 1,000 ranges forgets them at once", 1, stale::many_ranges),
    Check { asks: true, ..check("a CPU that does not acknowledge is named", 2, stale::silent_cpu) },
    check("frames run out", 1, shortage::frames),
    check("frames for page tables run out", 1, shortage::tables),
    check("frames run out for huge pages", 1, shortage::huge),
    check("100 shootdowns under load", 1, load::shootdowns),
];

/// Runs all; how many failed.
pub(crate) fn run(world: &World) -> usize {
    CHECKS.iter().filter(|check| !passes(world, check)).count()
}

fn passes(world: &World, check: &Check) -> bool {
    let Check { name, cpus, asks, run } = *check;
    if world.cpus() < cpus {
        say!("left out {name}: it takes {cpus} CPUs");
        return true;
    }
    if asks && tlb::REACH == Reach::All {
        say!("left out {name}: forgetting reaches all");
        return true;
    }
    // Each leaves nothing behind, so that the next one's failure is its own.
    match run(world).and_then(|()| world.check_whole()) {
        Ok(()) => {
            say!("ok {name}");
            true
        }
        Err(Failure(why)) => {
            say!("FAILED {name}: {why}");
            false
        }
    }
}
