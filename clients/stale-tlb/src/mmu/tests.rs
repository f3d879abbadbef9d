//! The machine against what the manuals say, on tables written by hand.

use super::{Access, Mmu, MmuFault};

const RIGHTS: u64 = 0b11;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;

/// Returns a machine whose first entries lead to a chain of so many tables, the last of which has
/// none, and that chain.
fn chain(cpus: usize, tables: usize) -> (Mmu, Vec<u64>) {
    let mmu = Mmu::new(cpus, 2048);
    let chain: Vec<u64> = (0..tables).map(|_| mmu.alloc().unwrap()).collect();
    chain.iter().for_each(|table| mmu.clear(*table));
    chain.windows(2).for_each(|pair| mmu.store(pair[0], 0, pair[1] << 12 | RIGHTS));
    (0..cpus).for_each(|cpu| mmu.load_root(cpu, chain[0]));
    (mmu, chain)
}

#[test]
fn large_page_is_flushed_by_any_of_its_addresses() {
    let (mmu, chain) = chain(1, 3);
    mmu.store(chain[2], 0, 512 << 12 | RIGHTS | LARGE);
    mmu.write(0, 0x1000, 7).unwrap();
    mmu.store(chain[2], 0, 0);
    assert!(matches!(mmu.read(0, 0x1000), Err(MmuFault::StaleAccess { held: 513, now: None, .. })));
    mmu.flush_page(0, 0x1F_F000);
    assert_eq!(mmu.read(0, 0x1000), Err(MmuFault::NotMapped { cpu: 0, addr: 0x1000 }));
}

#[test]
fn rights_are_those_of_all_entries_on_the_way() {
    let (mmu, chain) = chain(1, 4);
    mmu.store(chain[3], 0, 9 << 12 | RIGHTS | NO_EXECUTE);
    assert!(mmu.write(0, 0, 1).is_ok());
    assert_eq!(mmu.fetch(0, 0), Err(MmuFault::Denied { cpu: 0, addr: 0, access: Access::Fetch }));
    mmu.store(chain[1], 0, chain[2] << 12 | 1);
    assert_eq!(mmu.write(0, 0, 1), Err(MmuFault::StaleProtection { cpu: 0, addr: 0, access: Access::Write }));
    mmu.flush_page(0, 0);
    assert_eq!(mmu.write(0, 0, 1), Err(MmuFault::Denied { cpu: 0, addr: 0, access: Access::Write }));
}

#[test]
fn flush_of_one_page_keeps_other_pages_and_drops_tables() {
    let (mmu, chain) = chain(1, 4);
    (0..2).for_each(|nth| mmu.store(chain[3], nth, (100 + nth as u64) << 12 | RIGHTS));
    mmu.prefetch(0, 0);
    mmu.prefetch(0, 0x1000);
    mmu.flush_page(0, 0);
    (0..2).for_each(|nth| mmu.store(chain[3], nth, 0));
    assert!(matches!(mmu.read(0, 0), Err(MmuFault::NotMapped { .. })));
    assert!(matches!(mmu.read(0, 0x1000), Err(MmuFault::StaleAccess { .. })));
}

#[test]
fn walk_starts_at_a_cached_table_until_the_cpu_is_flushed() {
    let (mmu, chain) = chain(2, 4);
    mmu.prefetch(1, 0);
    mmu.store(chain[2], 0, 0);
    assert_eq!(mmu.free(chain[3]), Err(MmuFault::FreedTableWhileCached { cpu: 1, frame: chain[3], addr: 0 }));
    mmu.flush_all(1);
    assert_eq!(mmu.free(chain[2]), Ok(()));
    assert_eq!(mmu.alloc(), Some(chain[2]), "the frame freed last");
}

#[test]
fn frames_that_are_free_or_not_there_are_reported() {
    let (mmu, chain) = chain(1, 4);
    mmu.free(5).unwrap_err();
    assert_eq!(mmu.faults(), [MmuFault::FreedTwice { frame: 5 }]);
    mmu.store(chain[3], 0, 5000 << 12 | RIGHTS);
    assert_eq!(mmu.read(0, 0), Err(MmuFault::BeyondMemory { cpu: 0, addr: 0, frame: 5000 }));
}
