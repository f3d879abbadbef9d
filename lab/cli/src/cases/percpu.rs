//! The case about congruent areas: per-CPU memory.

use super::{Context, Refusal};
use crate::machine::Machine;
use vmalloc_percpu::{CongruentError, CongruentFreeError, TAG};

/// Groups of a run, as in Linux.
const GROUPS: u64 = 35_000;
/// Pages from the area of one CPU to that of the next: groups lie between each other's areas.
const UNIT_PAGES: usize = 16;
/// The most areas that all workers hold together. With more CPUs than 60 or so there are fewer
/// groups: else 128 workers on 128 CPUs would hold 573 million areas.
const MOST_AREAS: u64 = 1 << 22;

/// Once, whatever the number of loops: 35,000 groups of 1 byte to a quarter of a page for each CPU,
/// at a random power of two up to 4096 bytes; then all are freed.
pub(super) fn alloc(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let offsets = offsets(machine);
    let mut groups = Vec::new();
    let wanted = count(context, offsets.len() as u64) as usize;
    while groups.len() < wanted {
        let bytes = 1 + context.random.below(machine.page_bytes as u64 / 4) as usize;
        let align = 2 << context.random.below(12);
        let group = Group::new(machine, &offsets, bytes, align)?;
        group.check(align)?;
        groups.push(group);
    }
    groups.into_iter().try_for_each(|group| Ok(group.free()?))
}

fn count(context: &Context<'_>, cpus: u64) -> u64 {
    let areas = context.most_held.min(MOST_AREAS / context.workers);
    GROUPS.min(areas / cpus).max(1)
}

/// Where the areas of a group are, from its base: one for each CPU.
fn offsets(machine: &Machine) -> Vec<usize> {
    (0..machine.space.geometry().cpus).map(|cpu| cpu * UNIT_PAGES * machine.page_bytes).collect()
}

/// A group that frees itself.
struct Group<'m> {
    machine: &'m Machine,
    offsets: &'m [usize],
    bytes: usize,
    base: usize,
}

impl<'m> Group<'m> {
    fn new(
        machine: &'m Machine,
        offsets: &'m [usize],
        bytes: usize,
        align: usize,
    ) -> Result<Self, CongruentError> {
        // Areas are whole pages, and begin at one.
        let align = align.max(machine.page_bytes);
        let base = vmalloc_percpu::alloc(&machine.space, offsets, &sizes(offsets, bytes), align)?;
        Ok(Self { machine, offsets, bytes, base })
    }

    /// Checks that each CPU has an area, and that all are aligned.
    fn check(&self, align: usize) -> Result<(), Refusal> {
        let addrs = self.offsets.iter().map(|offset| self.base + offset);
        for (cpu, addr) in addrs.enumerate() {
            let found = self.machine.space.find(addr);
            let right = found.is_some_and(|area| {
                (area.addr, area.pages, area.tag.as_deref()) == (addr, 1, Some(TAG)) && !area.guard
            });
            if !right || !addr.is_multiple_of(align) {
                return Err(Refusal::Failed(format!(
                    "{addr:#x} for CPU {cpu}, at a multiple of {align:#x}, is {found:?}"
                )));
            }
        }
        Ok(())
    }

    fn free(self) -> Result<(), CongruentFreeError> {
        let result = self.give_back();
        core::mem::forget(self);
        result
    }

    fn give_back(&self) -> Result<(), CongruentFreeError> {
        // SAFETY: nothing uses the addresses any more.
        unsafe {
            vmalloc_percpu::free(
                &self.machine.space,
                self.base,
                self.offsets,
                &sizes(self.offsets, self.bytes),
            )
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        // A refusal leaves the areas busy, which the check after the run reports.
        let _ = self.give_back();
    }
}

fn sizes(offsets: &[usize], bytes: usize) -> Vec<usize> {
    vec![bytes; offsets.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineOptions;

    #[test]
    fn a_group_has_an_area_for_each_cpu_and_gives_all_back() {
        let machine = Machine::new(MachineOptions::default()).expect("a machine with address space");
        let offsets = offsets(&machine);
        let groups: Vec<_> = [(1, 2), (1000, 4096), (1024, 64)]
            .map(|(bytes, align)| (Group::new(&machine, &offsets, bytes, align).expect("room"), align))
            .into();
        assert_eq!(machine.counts().busy_areas, 3 * machine.space.geometry().cpus as u64);
        groups.iter().for_each(|(group, align)| group.check(*align).expect("congruent areas"));
        let wrong = groups[0].0.base + 1;
        assert!(!wrong.is_multiple_of(2) && groups[0].0.check(1 << 46).is_err(), "a check that sees nothing");
        drop(groups);
        assert_eq!(machine.check_whole(), [""; 0]);
    }
}
