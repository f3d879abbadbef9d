//! Cases that free after a grace period: when all readers that may still see the memory have gone.

use super::{Area, Context, Refusal};
use crate::machine::Machine;
use std::ptr::NonNull;
use vmalloc_linux::rcu::Head;

/// The begin of the page, as in Linux's test.
#[repr(C)]
struct Header {
    /// Room for the record of the two-argument form.
    head: Head,
    array: [u8; 20],
}

/// A loop: one page, touched, freed after a grace period. The deferral allocates its own record.
pub(super) fn one_argument(context: &mut Context<'_>) -> Result<(), Refusal> {
    for _ in context.turns() {
        let header = fresh_header(context.machine)?;
        // SAFETY: the page belongs to this loop, which forgets it; nothing reads it.
        unsafe { context.machine.grace.free(header.addr().get()) }?;
    }
    Ok(())
}

/// A loop: one page, touched, freed after a grace period. The record is in the page.
pub(super) fn two_arguments(context: &mut Context<'_>) -> Result<(), Refusal> {
    for _ in context.turns() {
        let header = fresh_header(context.machine)?;
        // SAFETY: a field of a header that is there.
        let head = unsafe { &raw mut (*header.as_ptr()).head };
        let head = NonNull::new(head).ok_or_else(|| Refusal::Failed("a page at address zero".into()))?;
        // SAFETY: as above; the head is writable and used by nothing else.
        unsafe { context.machine.grace.free_embedded(head) }?;
    }
    Ok(())
}

/// A page of its own, with a header.
fn fresh_header(machine: &Machine) -> Result<NonNull<Header>, Refusal> {
    let area = Area::of_pages(machine, 1)?;
    let header = NonNull::new(std::ptr::with_exposed_provenance_mut::<Header>(area.into_addr()));
    let header = header.ok_or_else(|| Refusal::Failed("a page at address zero".into()))?;
    // SAFETY: a whole page that is mapped, aligned to itself, and this call's own.
    unsafe { header.write(Header { head: Head::new(), array: [0; 20] }) };
    // SAFETY: as above. Volatile, or it would be dropped for want of a reader.
    unsafe { (&raw mut (*header.as_ptr()).array[0]).write_volatile(b'a') };
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MachineOptions, Strategy};

    #[test]
    fn pages_come_back_after_their_grace_period() {
        for strategy in [Strategy::Retain, Strategy::Unmap] {
            let machine =
                Machine::new(MachineOptions { strategy, guards: None, nodes: None }).expect("a machine");
            let reader = vmalloc_linux::rcu::pin();
            let header = fresh_header(&machine).expect("a page");
            // SAFETY: given away here, and read below by a reader that is pinned.
            unsafe { machine.grace.free(header.addr().get()) }.expect("an area");
            // SAFETY: as above.
            assert_eq!(unsafe { header.as_ref() }.array[0], b'a');
            drop(reader);
            assert_eq!(machine.check_whole(), [""; 0]);
        }
    }
}
