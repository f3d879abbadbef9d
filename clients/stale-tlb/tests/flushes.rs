//! Flushes that are missing are found by one run, and code that flushes is found right.

use stale_tlb::mmu::{Access, MmuFault};
use stale_tlb::{Flush, Kernel, Tables};

const ADDR: u64 = 0x4000_0000_0000;

/// Maps a page and uses it on two CPUs.
fn used_on_two_cpus() -> Kernel {
    let mut kernel = Kernel::boot(2, 64);
    kernel.map(ADDR).unwrap();
    kernel.mmu().write(0, ADDR, 42).unwrap();
    assert_eq!(kernel.mmu().read(1, ADDR), Ok(42));
    kernel
}

#[test]
fn an_ignored_flush_is_found_when_the_frame_is_freed() {
    let mut kernel = used_on_two_cpus();
    let found = kernel.unmap(0, ADDR, Flush::Ignored).unwrap();
    assert!(matches!(found, Err(MmuFault::FreedWhileCached { cpu: 0, addr: ADDR, .. })), "{found:?}");
    // It is damage: the next page has the frame, and the old address writes to it.
    kernel.map(ADDR + 4096).unwrap();
    kernel.mmu().write(1, ADDR + 4096, 1).unwrap();
    assert!(matches!(kernel.mmu().write(0, ADDR, 666), Err(MmuFault::StaleAccess { cpu: 0, now: None, .. })));
    assert_eq!(kernel.mmu().read(1, ADDR + 4096), Ok(666));
}

#[test]
fn a_flush_of_the_own_cpu_alone_is_found_by_the_other_cpu() {
    // `MapperFlush::flush` is this: the crate knows of no other CPU.
    let mut kernel = used_on_two_cpus();
    let found = kernel.unmap(0, ADDR, Flush::Local).unwrap();
    assert!(matches!(found, Err(MmuFault::FreedWhileCached { cpu: 1, addr: ADDR, .. })), "{found:?}");
    assert!(matches!(kernel.mmu().read(0, ADDR), Err(MmuFault::NotMapped { .. })));
    assert!(matches!(kernel.mmu().read(1, ADDR), Err(MmuFault::StaleAccess { cpu: 1, .. })));
}

#[test]
fn unmap_with_a_shootdown_is_right() {
    let mut kernel = used_on_two_cpus();
    assert_eq!(kernel.unmap(0, ADDR, Flush::Everywhere).unwrap(), Ok(()));
    for cpu in 0..2 {
        assert_eq!(kernel.mmu().read(cpu, ADDR), Err(MmuFault::NotMapped { cpu, addr: ADDR }));
    }
    assert_eq!(kernel.mmu().faults(), []);
}

#[test]
fn protection_without_a_flush_is_found() {
    let (cpu, addr, access) = (1, ADDR, Access::Write);
    let mut kernel = used_on_two_cpus();
    kernel.protect(0, ADDR, Flush::Local);
    assert_eq!(kernel.mmu().write(0, ADDR, 1), Err(MmuFault::Denied { cpu: 0, addr, access }));
    assert_eq!(kernel.mmu().write(1, ADDR, 1), Err(MmuFault::StaleProtection { cpu, addr, access }));

    let mut kernel = used_on_two_cpus();
    kernel.protect(0, ADDR, Flush::Everywhere);
    assert_eq!(kernel.mmu().write(1, ADDR, 1), Err(MmuFault::Denied { cpu, addr, access }));
    assert_eq!(kernel.mmu().faults(), []);
}

/// Maps, uses, unmaps and flushes a page as it should be done, and lets a CPU speculate there. All of that is right.
fn with_empty_tables() -> Kernel {
    let mut kernel = used_on_two_cpus();
    kernel.unmap(0, ADDR, Flush::Everywhere).unwrap().unwrap();
    // The CPU reads the entries above, finds none at the bottom, and has the tables in its cache: no page is mapped.
    kernel.mmu().prefetch(1, ADDR);
    assert_eq!(kernel.mmu().faults(), []);
    kernel
}

#[test]
fn clean_up_frees_tables_that_a_cpu_may_still_walk() {
    // The crate's own code: it clears entries of tables and hands the tables back with nothing between, and its answer
    // has no flush to ignore. The conditions of `clean_up` do not name one.
    let mut kernel = with_empty_tables();
    let (count, found) = kernel.clean_up(Tables::AtOnce);
    assert_eq!(count, 3, "a table of each level below the root");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|it| matches!(it, MmuFault::FreedTableWhileCached { cpu: 1, .. })), "{found:?}");
    // It is damage: a table that is memory of a program now is still read as entries.
    let (tables, secret) = ((0..3).map(|_| kernel.mmu().alloc().unwrap()).collect::<Vec<_>>(), 60);
    kernel.mmu().store(secret, 0, 0x5EC7E7);
    tables.iter().for_each(|table| kernel.mmu().store(*table, 0, secret << 12 | 0b11));
    let read = kernel.mmu().read(1, ADDR);
    assert!(matches!(read, Err(MmuFault::StaleAccess { cpu: 1, now: None, held: 60, .. })), "{read:?}");
}

#[test]
fn clean_up_whose_tables_wait_for_a_flush_is_right() {
    let mut kernel = with_empty_tables();
    assert_eq!(kernel.clean_up(Tables::AfterFlush), (3, vec![]));
    assert!(matches!(kernel.mmu().read(1, ADDR), Err(MmuFault::NotMapped { .. })));
    assert_eq!(kernel.mmu().faults(), []);
}

/// The shape of such a test in a kernel: it fails as long as the flush is missing.
#[test]
#[should_panic(expected = "FreedWhileCached")]
fn a_kernel_without_the_flush_fails_its_test() {
    let mut kernel = used_on_two_cpus();
    kernel.unmap(0, ADDR, Flush::Ignored).unwrap().unwrap();
}
