//! The CPUs that there are: from the MADT, a table of ACPI.

use crate::boot::StartInfo;
use crate::memory::direct;
use alloc::vec::Vec;

/// A table begins with its signature, its length, and more up to here.
const HEADER: usize = 36;
/// What the MADT has before its entries.
const MADT_HEADER: usize = 44;

/// The controllers' numbers of all usable CPUs. `None` if a table is missing.
pub(crate) fn cpus(info: &StartInfo) -> Option<Vec<u8>> {
    let madt = find(info, b"APIC")?;
    let mut rest = madt.get(MADT_HEADER..)?;
    let mut cpus = Vec::new();
    while let [kind, length, entry @ ..] = rest {
        // The CPU's number, its controller's, and flags: enabled, or can be.
        if let (0, [_, id, flags, ..]) = (kind, entry)
            && flags & 3 != 0
        {
            cpus.push(*id);
        }
        rest = rest.get(usize::from(*length).max(2)..).unwrap_or(&[]);
    }
    Some(cpus)
}

/// The table of that signature.
fn find(info: &StartInfo, signature: &[u8; 4]) -> Option<&'static [u8]> {
    let root = root(info)?;
    let width = if root.starts_with(b"XSDT") { 8 } else { 4 };
    let addrs = root.get(HEADER..)?.chunks_exact(width).map(number);
    addrs.map(table).find(|table| table.starts_with(signature))
}

/// The table of tables.
fn root(info: &StartInfo) -> Option<&'static [u8]> {
    if info.rsdp_at == 0 {
        return None;
    }
    // SAFETY: the loader says that 20 bytes at least are there, and nobody writes them.
    let pointer = unsafe { core::slice::from_raw_parts(direct(info.rsdp_at), 20) };
    // From revision 2 on it goes on, with the address of the table of 64-bit addresses.
    if pointer[15] >= 2 {
        // SAFETY: as above, 36 bytes.
        let pointer = unsafe { core::slice::from_raw_parts(direct(info.rsdp_at), 36) };
        return Some(table(number(&pointer[24..32])));
    }
    Some(table(number(&pointer[16..20])))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn table(addr: u64) -> &'static [u8] {
    // SAFETY: the machine's tables say that one is there, with its length behind its signature; nobody writes it.
    unsafe {
        let start: *const u8 = direct(addr);
        let length = number(core::slice::from_raw_parts(start.add(4), 4));
        core::slice::from_raw_parts(start, length as usize)
    }
}
