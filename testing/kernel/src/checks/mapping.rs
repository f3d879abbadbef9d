//! Frames of the caller's, and areas without memory.

use super::memory::{expect_nothing, unexpected};
use crate::access;
use crate::memory::{DIRECT_MAP, PAGE, direct};
use crate::world::{Outcome, World, ensure, stamp};
use crate::{walk, workers};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vmalloc::{Frame, FrameSupply, Protection, Request};

/// Frames that go back by themselves.
pub(crate) struct BorrowedFrames<'w> {
    world: &'w World,
    pub(crate) frames: Vec<Frame>,
}

impl<'w> BorrowedFrames<'w> {
    /// `count` frames, of which no two follow each other.
    pub(crate) fn scattered(world: &'w World, count: usize) -> Result<Self, vmalloc::PlatformError> {
        let mut borrowed = Self::consecutive(world, count)?;
        borrowed.frames.reverse();
        Ok(borrowed)
    }

    /// `count` frames, each behind the one before.
    pub(crate) fn consecutive(world: &'w World, count: usize) -> Result<Self, vmalloc::PlatformError> {
        Self::run(world, count, 1)
    }

    /// `count` frames, each behind the one before, from a multiple of 2 MiB on.
    fn aligned(world: &'w World, count: usize) -> Result<Self, vmalloc::PlatformError> {
        Self::run(world, count, 512)
    }

    fn run(world: &'w World, count: usize, align: u64) -> Result<Self, vmalloc::PlatformError> {
        let first = world.space.platform().take_run(count as u64, align)?;
        Ok(Self { world, frames: (0..count as u64).map(|nth| first.plus(nth)).collect() })
    }
}

impl Drop for BorrowedFrames<'_> {
    fn drop(&mut self) {
        // SAFETY: taken by `self`, and mapped nowhere any more.
        unsafe { self.world.space.platform().give_frames(&self.frames) };
    }
}

/// Checks that writes through the mapping reach the frames.
fn check_leads_to(addr: usize, frames: &[Frame]) -> Outcome {
    for (nth, frame) in frames.iter().enumerate() {
        let at = addr + nth * PAGE;
        // SAFETY: the frames are the check's.
        unsafe { access::write(at, stamp(at, 3)) }.map_err(unexpected)?;
        // SAFETY: as above.
        let there = unsafe { direct::<u64>(frame.0 << 12).read_volatile() };
        ensure!(there == stamp(at, 3), "page {nth} does not lead to {frame:?}");
    }
    Ok(())
}

pub(super) fn ram(world: &World) -> Outcome {
    for count in [1, 2, 16, 64, 65, 200] {
        let borrowed = BorrowedFrames::scattered(world, count)?;
        let addr = world.short.map(&borrowed.frames)?;
        check_leads_to(addr, &borrowed.frames)?;
        // SAFETY: nothing uses it any more.
        unsafe { world.short.unmap(addr, count) }?;
        world.space.purge()?;
        if count > 1 {
            expect_nothing(addr)?;
        }
    }
    let borrowed = BorrowedFrames::consecutive(world, 16)?;
    let addr = world.short.map(&borrowed.frames)?;
    let there = DIRECT_MAP + ((borrowed.frames[0].0 as usize) << 12);
    ensure!(addr == there, "consecutive frames are at {addr:#x}, not at {there:#x}, where they always are");
    check_leads_to(addr, &borrowed.frames)?;
    // SAFETY: nothing uses it any more.
    Ok(unsafe { world.short.unmap(addr, 16) }?)
}

/// A list with two runs of 2 MiB in it, all of it and then without a page.
pub(super) fn large(world: &World) -> Outcome {
    const LARGE: usize = 512;
    let (borrowed, space) = (BorrowedFrames::aligned(world, 2 * LARGE)?, world.space);
    let frames = [&borrowed.frames[LARGE..], &borrowed.frames[..LARGE], &borrowed.frames[7..8]].concat();
    let addr = space.raw().map(&frames, Protection::ReadWrite, None)?;
    let order = |page: usize| walk::leaf(addr + page * PAGE).map(|(_, shift)| shift);
    let orders = [0, LARGE - 1, LARGE, 2 * LARGE].map(order);
    ensure!(orders == [Some(21), Some(21), Some(21), Some(12)], "pages of 2^{orders:?} bytes");
    check_leads_to(addr, &frames[..2 * LARGE])?;
    expect_nothing(addr + frames.len() * PAGE)?;
    // SAFETY: nothing uses it.
    unsafe { space.raw().unmap(addr) }?;
    space.purge()?;
    for page in [0, LARGE, 2 * LARGE] {
        expect_nothing(addr + page * PAGE)?;
    }
    let addr = space.raw().reserve(&Request::new(2 * LARGE * PAGE).align(LARGE * PAGE))?;
    // SAFETY: this check alone maps there.
    unsafe { space.raw().map_pages(addr, &frames[..LARGE], Protection::ReadWrite) }?;
    let leaf = walk::leaf(addr);
    ensure!(leaf.is_some_and(|(_, shift)| shift == 21), "{leaf:?} is no large page");
    check_leads_to(addr, &frames[..LARGE])?;
    // SAFETY: as above, and nothing uses the page.
    unsafe { space.raw().unmap_pages(addr + 9 * PAGE, 1) }?;
    expect_nothing(addr + 9 * PAGE)?;
    check_leads_to(addr, &frames[..9])?;
    check_leads_to(addr + 10 * PAGE, &frames[10..LARGE])?;
    // SAFETY: as above.
    Ok(unsafe { space.raw().unreserve(addr) }?)
}

/// Another CPU reads pages of a large page, and of a group behind it, of which others are unmapped.
pub(super) fn part_in_use(world: &World) -> Outcome {
    const LARGE: usize = 512;
    let (borrowed, raw) = (BorrowedFrames::aligned(world, LARGE + 128)?, world.space.raw());
    for round in 0..20 {
        let addr = raw.reserve(&Request::new((LARGE + 128) * PAGE).align(LARGE * PAGE))?;
        // SAFETY: this check alone maps there.
        unsafe { raw.map_pages(addr, &borrowed.frames, Protection::ReadWrite) }?;
        let read = [addr, addr + (LARGE + 16) * PAGE];
        let (is_over, reads, faults) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |_| {
            while !is_over.load(Ordering::Relaxed) {
                faults.fetch_add(
                    read.iter().filter(|&&at| access::read(at).is_err()).count(),
                    Ordering::Relaxed,
                );
                reads.fetch_add(1, Ordering::Relaxed);
            }
        };
        let workers = workers::begin(world.kernel, [1], &work);
        let wait_for_reads = || {
            let before = reads.load(Ordering::Relaxed);
            while reads.load(Ordering::Relaxed) < before + 2 {
                core::hint::spin_loop();
            }
        };
        wait_for_reads();
        // SAFETY: as above, and nothing uses the pages.
        let ended = [9 + round, LARGE + 17 + round % 15]
            .map(|page| unsafe { raw.unmap_pages(addr + page * PAGE, 1) });
        wait_for_reads();
        is_over.store(true, Ordering::Relaxed);
        drop(workers);
        ended.into_iter().collect::<Result<(), _>>()?;
        // SAFETY: as above.
        unsafe { raw.unreserve(addr) }?;
        ensure!(faults.load(Ordering::Relaxed) == 0, "{faults:?} reads faulted in round {round}");
    }
    Ok(())
}

/// Mapped here, used and unmapped there.
pub(super) fn ram_on_another(world: &World) -> Outcome {
    for round in 0..20 {
        let borrowed = BorrowedFrames::scattered(world, 8)?;
        let addr = world.short.map(&borrowed.frames)?;
        check_leads_to(addr, &borrowed.frames)?;
        let is_right = AtomicBool::new(false);
        workers::on(world.kernel, 1 + round % (world.cpus() - 1), || {
            let reads = (0..8).all(|nth| {
                let at = addr + nth * PAGE;
                access::read(at) == Ok(stamp(at, 3))
            });
            // SAFETY: nothing uses it any more.
            let ended = unsafe { world.short.unmap(addr, 8) };
            is_right.store(reads && ended.is_ok(), Ordering::SeqCst);
        });
        ensure!(is_right.load(Ordering::SeqCst), "another CPU read something else, or could not unmap");
        world.space.purge()?;
        expect_nothing(addr)?;
    }
    Ok(())
}
