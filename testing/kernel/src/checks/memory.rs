//! Memory behind addresses, and none where there should be none.

use crate::access::{self, EXECUTE, Fault, REFUSED, WRITE};
use crate::memory::{PAGE, direct};
use crate::walk;
use crate::world::{Failure, Outcome, World, ensure, free, pages, stamp};
use vmalloc::{Protection, Request};

/// Patterns in the first and last word of every page are read back, at the address and where its
/// frame always is.
pub(super) fn is_there(world: &World) -> Outcome {
    for space in [world.space, world.caching] {
        for count in [1, 2, 16, 64, 600] {
            let addr = pages(space, count)?;
            let words = (0..count).flat_map(|page| [addr + page * PAGE, addr + (page + 1) * PAGE - 8]);
            for word in words.clone() {
                // SAFETY: the area is this check's.
                unsafe { access::write(word, stamp(word, 1)) }.map_err(unexpected)?;
            }
            for word in words {
                let value = access::read(word).map_err(unexpected)?;
                let (physical, _) = walk::leaf(word).ok_or(Failure("no page".into()))?;
                let page = space.physical_page(word);
                ensure!(page == Some(physical >> 12), "{word:#x} is {physical:#x}, not frame {page:?}");
                // SAFETY: the frame is the area's.
                let there = unsafe { direct::<u64>(physical).read_volatile() };
                ensure!(value == stamp(word, 1) && there == value, "{value:#x} and {there:#x} at {word:#x}");
            }
            free(space, addr)?;
        }
    }
    Ok(())
}

pub(super) fn unexpected(fault: Fault) -> Failure {
    Failure(alloc::format!("{fault:x?}"))
}

/// That the access faulted at `addr`, with `error`.
fn expect<T: core::fmt::Debug>(access: Result<T, Fault>, addr: usize, error: u64) -> Outcome {
    match access {
        Err(fault) if fault == (Fault { addr, error }) => Ok(()),
        other => Err(Failure(alloc::format!("{other:x?}, not a fault at {addr:#x} with error {error}"))),
    }
}

/// That reading and writing `addr` faults, for there is nothing.
pub(super) fn expect_nothing(addr: usize) -> Outcome {
    expect(access::read(addr), addr, 0)?;
    // SAFETY: nothing uses it.
    expect(unsafe { access::write(addr, 1) }, addr, WRITE)
}

pub(super) fn guards_fault(world: &World) -> Outcome {
    for space in [world.space, world.caching] {
        for count in [1, 3, 512] {
            let (one, other) = (pages(space, count)?, pages(space, count)?);
            expect_nothing(one + count * PAGE)?;
            expect_nothing(other + count * PAGE)?;
            access::read(one + count * PAGE - 8).map_err(unexpected)?;
            free(space, one)?;
            free(space, other)?;
        }
    }
    Ok(())
}

pub(super) fn freed_faults(world: &World) -> Outcome {
    for count in [1, 16, 64, 600] {
        let addr = pages(world.space, count)?;
        access::read(addr).map_err(unexpected)?;
        free(world.space, addr)?;
        world.space.purge()?;
        for page in 0..count {
            expect_nothing(addr + page * PAGE)?;
        }
    }
    Ok(())
}

pub(super) fn zeroed_is_zero(world: &World) -> Outcome {
    const BYTES: usize = 3 * PAGE;
    for space in [world.space, world.caching] {
        for _ in 0..3 {
            let addr = space.raw().alloc(&vmalloc::Request::new(BYTES).zeroed())?;
            for word in (addr..addr + BYTES).step_by(8) {
                ensure!(access::read(word) == Ok(0), "{:x?} at {word:#x}", access::read(word));
                // SAFETY: the area is this check's.
                unsafe { access::write(word, u64::MAX) }.map_err(unexpected)?;
            }
            free(space, addr)?;
            space.flush()?;
        }
    }
    Ok(())
}

pub(super) fn huge(world: &World) -> Outcome {
    const LARGE: usize = 2 << 20;
    let addr = world.space.raw().alloc(&vmalloc::Request::new(2 * LARGE).huge())?;
    for at in (addr..addr + 2 * LARGE).step_by(PAGE) {
        let leaf = walk::leaf(at);
        ensure!(leaf.is_some_and(|(_, shift)| shift == 21), "{leaf:?} at {at:#x} is no leaf of 2 MiB");
        // SAFETY: the area is this check's.
        unsafe { access::write(at, stamp(at, 2)) }.map_err(unexpected)?;
    }
    for at in (addr..addr + 2 * LARGE).step_by(PAGE) {
        ensure!(access::read(at) == Ok(stamp(at, 2)), "{:x?} at {at:#x}", access::read(at));
    }
    expect_nothing(addr + 2 * LARGE)?;
    free(world.space, addr)?;
    world.space.purge()?;
    expect_nothing(addr)?;
    expect_nothing(addr + 2 * LARGE - 8)
}

pub(super) fn exec(world: &World) -> Outcome {
    let addr = world.space.raw().alloc_exec(&Request::new(PAGE))?;
    // SAFETY: the area is this check's, and holds a function when it is called.
    unsafe {
        access::write(addr, access::CODE).map_err(unexpected)?;
        expect(access::call(addr), addr, EXECUTE | REFUSED)?;
        world.space.raw().protect(addr, Protection::ReadExecute)?;
        ensure!(access::call(addr) == Ok(42), "{:x?}", access::call(addr));
        expect(access::write(addr, 0), addr, WRITE | REFUSED)?;
        world.space.raw().protect(addr, Protection::Read)?;
        expect(access::call(addr), addr, EXECUTE | REFUSED)?;
    }
    free(world.space, addr)
}
