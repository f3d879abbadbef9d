//! Memory for code, and changes of what is allowed.

use crate::mappings::support::{PAGE, everywhere, faults, fill, free, kind, page};
use vmalloc::{Kind, Protection, Request, Space};
use vmalloc_sim::{Access, Fault, Sim};

fn set(space: &Space<Sim>, addr: usize, protection: Protection) {
    // SAFETY: nothing uses the area otherwise.
    unsafe { space.raw().protect(addr, protection) }.expect("it is such an area");
}

/// Every CPU is denied `access` to each of `count` pages, whatever it remembers.
fn denied(space: &Space<Sim>, addr: usize, count: usize, access: Access, protection: Protection) {
    for (cpu, page) in
        crate::mappings::support::cpus(space).flat_map(|cpu| (0..count as u64).map(move |nth| (cpu, nth)))
    {
        let (sim, page) = (space.platform(), crate::mappings::support::page(addr) + page);
        let result = match access {
            Access::Write => sim.write(cpu, page, 1),
            Access::Fetch => sim.fetch(cpu, page).map(|_| ()),
            Access::Read => sim.read(cpu, page).map(|_| ()),
        };
        assert_eq!(result, Err(Fault::Denied { cpu, page, access, protection }));
    }
}

#[test]
fn code_is_writable_or_executable_on_every_cpu_and_never_both() {
    everywhere(|space| {
        let addr = space.raw().alloc_exec(&Request::new(3 * PAGE).tag("code")).expect("room");
        assert_eq!(kind(space, addr), Some(Kind::Exec));
        let words = fill(space, addr, 3);
        denied(space, addr, 3, Access::Fetch, Protection::ReadWrite);
        set(space, addr, Protection::ReadExecute);
        denied(space, addr, 3, Access::Write, Protection::ReadExecute);
        for cpu in crate::mappings::support::cpus(space) {
            assert_eq!(space.platform().fetch(cpu, page(addr)), Ok(words[0]));
        }
        set(space, addr, Protection::Read);
        denied(space, addr, 3, Access::Fetch, Protection::Read);
        set(space, addr, Protection::ReadWrite);
        fill(space, addr, 3);
        faults(space, addr + 3 * PAGE, 1);
        free(space, addr);
    });
}
