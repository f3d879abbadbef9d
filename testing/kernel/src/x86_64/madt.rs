//! The CPUs of the machine, as the MADT lists them: a table of ACPI.

use super::apic;
use super::boot::StartInfo;
use crate::memory::direct;
use acpi::madt::{Madt, MadtEntry};
use acpi::{AcpiHandler, AcpiTables, PhysicalMapping};
use alloc::vec::Vec;
use core::ptr::NonNull;

/// Shows the `acpi` crate physical memory, all of which is mapped already.
#[derive(Clone)]
struct DirectMap;

impl AcpiHandler for DirectMap {
    unsafe fn map_physical_region<T>(&self, start: usize, bytes: usize) -> PhysicalMapping<Self, T> {
        let place = NonNull::new(direct(start as u64)).expect("the direct map begins above address 0");
        // SAFETY: the direct map shows all memory for good; the caller says that a `T` is there.
        unsafe { PhysicalMapping::new(start, place, bytes, bytes, Self) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}

/// Returns the interrupt controllers of all usable CPUs, this one's first.
pub(crate) fn cpus(info: &StartInfo) -> Vec<u8> {
    let mut apics = listed(info).unwrap_or_else(|| alloc::vec![apic::id()]);
    let own = apics.iter().position(|&id| id == apic::id());
    own.into_iter().for_each(|own| apics.swap(0, own));
    apics
}

/// Returns the numbers of the interrupt controllers of all usable CPUs, or `None` if a table is
/// missing.
fn listed(info: &StartInfo) -> Option<Vec<u8>> {
    const ENABLED_OR_CAN_BE: u32 = 0b11;
    if info.rsdp_at == 0 {
        return None;
    }
    // SAFETY: the loader says that the tables begin there, and nothing writes them.
    let tables = unsafe { AcpiTables::from_rsdp(DirectMap, info.rsdp_at as usize) }.ok()?;
    let madt = tables.find_table::<Madt>().ok()?;
    let id = |entry| match entry {
        MadtEntry::LocalApic(cpu) if cpu.flags & ENABLED_OR_CAN_BE != 0 => Some(cpu.apic_id),
        _ => None,
    };
    Some(madt.get().entries().filter_map(id).collect())
}
