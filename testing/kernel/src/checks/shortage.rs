//! Frames that run out.

use super::memory::unexpected;
use crate::access;
use crate::memory::PAGE;
use crate::world::{Failure, Outcome, World, ensure, free, pages};
use alloc::vec;
use alloc::vec::Vec;
use vmalloc::{AllocError, Frame, PlatformFault};

/// All frames but a few, which go back by themselves.
pub(crate) struct Hog<'w> {
    world: &'w World,
    frames: Vec<Frame>,
}

impl<'w> Hog<'w> {
    pub(crate) fn leave(world: &'w World, left: u64) -> Result<Self, Failure> {
        let supply = &world.kernel.supply;
        let mut frames = vec![Frame(0); supply.free().saturating_sub(left) as usize];
        ensure!(supply.take(&mut frames), "the supply has fewer than it says");
        Ok(Self { world, frames })
    }

    /// Gives so many back, of which no two follow each other.
    fn let_go_scattered(&mut self, count: usize) {
        let mut place = 0..;
        let (given, kept): (Vec<_>, _) = core::mem::take(&mut self.frames)
            .into_iter()
            .partition(|_| place.next().is_some_and(|place| place % 2 == 0 && place < 2 * count));
        self.frames = kept;
        self.world.kernel.supply.give(&given);
    }
}

impl Drop for Hog<'_> {
    fn drop(&mut self) {
        self.world.kernel.supply.give(&self.frames);
    }
}

/// That an allocation is refused for want of frames while only `left` are there, and that nothing
/// is lost by it.
fn refused(world: &World, left: u64, allocate: impl Fn() -> Result<usize, AllocError>) -> Outcome {
    let hog = Hog::leave(world, left)?;
    let held = world.missing();
    let refusal = match allocate() {
        Err(AllocError::Unbacked(refusal)) => refusal,
        other => return Err(Failure(alloc::format!("{other:?} with {left} frames left"))),
    };
    ensure!(refusal.cause.fault == PlatformFault::OutOfMemory, "{refusal}");
    world.space.verify()?;
    ensure!(world.missing() == held, "{held} frames were held, now {}", world.missing());
    drop(hog);
    Ok(())
}

pub(super) fn frames(world: &World) -> Outcome {
    for (left, count) in [(0, 1), (1, 2), (15, 16), (63, 64), (100, 200), (599, 600)] {
        // The tables are there already.
        free(world.space, pages(world.space, count)?)?;
        world.check_whole()?;
        refused(world, left, || world.space.raw().alloc(&vmalloc::Request::new(count * PAGE)))?;
        // The pages left can be had.
        let hog = Hog::leave(world, count as u64)?;
        let addr = pages(world.space, count)?;
        access::read(addr + (count - 1) * PAGE).map_err(unexpected)?;
        free(world.space, addr)?;
        drop(hog);
    }
    Ok(())
}

/// In addresses that no tables lead to: three of the lowest level, and one above.
pub(super) fn tables(world: &World) -> Outcome {
    const COUNT: usize = 1100;
    // What lies behind all that was used so far.
    let spacer = world.space.raw().reserve(&vmalloc::Request::new(1 << 30))?;
    let before = crate::walk::tables();
    for left in [0, 1, 2, 3, 4, 500, 1000, 1099] {
        refused(world, left, || world.space.raw().alloc(&vmalloc::Request::new(COUNT * PAGE)))?;
    }
    ensure!(crate::walk::tables() >= before + 3, "no tables were made");
    free(world.space, pages(world.space, COUNT)?)?;
    // SAFETY: nothing uses the addresses any more.
    Ok(unsafe { world.space.raw().unreserve(spacer) }?)
}

pub(super) fn huge(world: &World) -> Outcome {
    for left in [0, 511, 600, 1000] {
        refused(world, left, || world.space.raw().alloc(&vmalloc::Request::new(4 << 20).huge()))?;
    }
    // Base pages do where no run is free.
    let mut hog = Hog::leave(world, 0)?;
    hog.let_go_scattered(1100);
    let addr = world.space.raw().alloc(&vmalloc::Request::new(4 << 20).huge())?;
    access::read(addr + (4 << 20) - 8).map_err(unexpected)?;
    free(world.space, addr)?;
    Ok(world.space.purge()?)
}
