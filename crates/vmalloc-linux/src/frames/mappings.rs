//! Frames of the [supply](crate::frames::supply), mapped in the span.
//!
//! A run of consecutive frames is one call and one mapping to the kernel, however long. It merges
//! neighbours that continue each other, and so do runs that are mapped one after the other.
//!
//! # What is not done
//! Frames that a page no longer needs stay mapped ([`MapFrames::discard_hint`] does nothing).
//! Mapping others over them replaces them: one call a run, and none at all where the
//! [entries](crate::frames::table) say that the right frame is there already. For pages mapped
//! again and again (the blocks of `vm_map_ram`) that is the difference between 4.7 µs a page and 40
//! ns for one, 120 ns for sixteen, touches included (`mappings` in the lab, "the same").
//!
//! Other frames each time cost what the kernel takes to replace a mapping, some 3 µs a run, and
//! the faults of the first touches, 2 µs a page. Where the pages show frames of the same file,
//! remap_file_pages(2) replaces one mapping by another. It takes a tenth less than mremap(2), as
//! mmap(2) of the file does, but needs no descriptor, which a daemon might close. It is deprecated:
//! the kernel notes its first use in its log. Where the kernel refuses it, mremap(2) does the same.
//! Few pages at a time are [populated](POPULATED) with one call, which saves up to a tenth again
//! (`cargo run --release -p vmalloc-bench --features buffers --bin memory -- mappings` in the
//! lab, "others"). Moving page table entries (`MREMAP_DONTUNMAP`) would take them out of the linear
//! map.
//!
//! # Mappings
//! Scattered frames cost a mapping each. Before a range is mapped, the
//! [budget](crate::os::map_count) is asked for the mappings that are added. The entries tell where
//! one mapping ends and the next begins, so frames that replace frames cost nothing once more.

use crate::error::{mapping_error, platform_error};
use crate::frames::supply::Supply;
use crate::frames::table::Entry;
use crate::os::madvise::Advice;
use crate::os::map_count::BUDGET;
use crate::os::reservation::Access;
use crate::os::swap::{Found, has_left_holes};
use crate::platform::Linux;
use rustix::io::Errno;
use std::ops::RangeInclusive;
use vmalloc::{Frame, FrameSupply, MapFrames, Origin, PageRange, PlatformError, PlatformFault, Protection};

/// Pages that are mapped at once, when one call has put frames behind so many. One fault takes
/// longer than one page of a call, but a call takes as long as two faults. Long ranges, of which
/// perhaps little is ever touched, are left to faults.
const POPULATED: RangeInclusive<u64> = 4..=64;

// SAFETY:
// - The supply's bitmap says for each frame if it was handed out, and changes under a lock.
// - W2: where the entry of a page names a frame it leads there, and elsewhere the kernel is asked
//   to map it. Its call returns when no CPU reaches the former page, so frames are replaced
//   atomically.
// - The linear map is constant, and its pages are the file's in order.
unsafe impl FrameSupply for Linux {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.supply()?.take(frames)
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.supply()?.take_run(count, align)
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        if let Some(supply) = &self.supply {
            // SAFETY: `give` asks that the frames were taken and that nothing uses them: so does
            // this function.
            unsafe { supply.give(frames) }
        }
    }

    /// Returns where `frame` comes from. In a forked child, a frame that the parent took before is
    /// the supply's as well, see [`LinuxOptions::frame_bytes`](crate::LinuxOptions::frame_bytes).
    fn origin(&self, frame: Frame) -> Origin {
        self.supply.as_ref().map_or(Origin::Foreign, |supply| supply.origin(frame))
    }

    fn are_taken(&self, first: Frame, count: u64) -> bool {
        self.supply.as_ref().is_some_and(|supply| supply.are_taken(first.0, count))
    }
}

// SAFETY: as for `FrameSupply`.
unsafe impl MapFrames for Linux {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.check(range)?;
        let (supply, access) = (self.supply()?, protection.try_into()?);
        if frames.len() as u64 != range.len() || frames.iter().any(|frame| supply.address(*frame).is_none()) {
            return Err(platform_error("frames that are not there, or not as many as pages", Errno::INVAL));
        }
        if self.leads_there(range, frames, access) {
            return Ok(());
        }
        self.admit(range)?;
        let mapped = self.draw(range, frames, access).and_then(|()| self.show(supply, range, frames, access));
        mapped.inspect_err(|_| self.put_back(range))?;
        self.populate(range);
        Ok(())
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.table.get(page).frame()
    }
}

impl Linux {
    fn supply(&self) -> Result<&Supply, PlatformError> {
        const NONE: PlatformError =
            PlatformError { call: "frames (none were reserved)", fault: PlatformFault::Unsupported, code: 0 };
        self.supply.as_ref().ok_or(NONE)
    }

    /// Returns true if `range` leads to `frames` already.
    fn leads_there(&self, range: PageRange, frames: &[Frame], access: Access) -> bool {
        self.table.is_special(range)
            && self
                .table
                .entries(range)
                .zip(frames)
                .all(|((_, entry), frame)| entry == Entry::frame_page(*frame, access))
    }

    /// Draws the mappings that `frames` behind `range`, which was admitted, add to those that are
    /// there.
    fn draw(&self, range: PageRange, frames: &[Frame], access: Access) -> Result<(), PlatformError> {
        let around = self.with_neighbours(range);
        let new = |page| frames.get(usize::try_from(page - range.start()).unwrap_or(usize::MAX));
        let (mut before, mut after) = (0_u64, 0_u64);
        let mut last: Option<(Entry, Entry)> = None;
        for page in around.start()..around.end() {
            let old = self.table.get(page);
            let new = if range.contains(page) {
                new(page).map_or(old, |frame| Entry::frame_page(*frame, access))
            } else {
                old
            };
            if let Some((last_old, last_new)) = last {
                before += u64::from(!last_old.joins(old));
                after += u64::from(!last_new.joins(new));
            }
            last = Some((old, new));
        }
        BUDGET.take(after.saturating_sub(before))
    }

    /// Maps each run of consecutive frames, without those at its ends that are mapped already.
    fn show(
        &self,
        supply: &Supply,
        range: PageRange,
        frames: &[Frame],
        access: Access,
    ) -> Result<(), PlatformError> {
        let mut page = range.start();
        for run in frames.chunk_by(|first, next| next.0 == first.0 + 1) {
            let (start, first) = (page, run.first().copied().unwrap_or_default());
            page += run.len() as u64;
            let wanted = |page| Entry::frame_page(first.plus(page - start), access);
            let pages = PageRange::new(start, page).and_then(|run| self.differing(run, wanted));
            if let Some(pages) = pages {
                self.show_run(supply, pages, first.plus(pages.start() - start), access)?;
            }
        }
        Ok(())
    }

    /// Returns the shortest part of `run` that holds all pages whose entries are not as `wanted`.
    fn differing(&self, run: PageRange, wanted: impl Fn(u64) -> Entry) -> Option<PageRange> {
        let mut differing =
            self.table.entries(run).filter(|(page, entry)| *entry != wanted(*page)).map(|(page, _)| page);
        let first = differing.next()?;
        PageRange::new(first, differing.next_back().unwrap_or(first) + 1)
    }

    /// Maps the pages of `range` with one call where that pays: see [`POPULATED`]. The pages are
    /// mapped as for a read, which takes a shorter way in the kernel, and shared memory that may be
    /// written needs no fault for that any more. A refusal is harmless, for the first touch does
    /// the same.
    fn populate(&self, range: PageRange) {
        if POPULATED.contains(&range.len()) {
            let _ = self.memory.advise(range, Advice::PopulateRead);
        }
    }

    /// Replaces frames behind `pages` by others of the same file with the same access: by one
    /// search in the kernel less than for mapping those. Returns false where the frames are not of
    /// one file, or the kernel refuses; then the pages have to be mapped.
    fn exchange(&self, supply: &Supply, pages: PageRange, first: Frame, access: Access) -> bool {
        let shows = |(_, entry): (u64, Entry)| {
            let frame = entry.frame().filter(|frame| supply.is_own(*frame));
            frame.is_some_and(|frame| entry == Entry::frame_page(frame, access))
        };
        if has_left_holes() || !supply.is_own(first) || !self.table.entries(pages).all(shows) {
            return false;
        }
        // SAFETY: W2: the pages show frames of this process's file, which has all frames from its
        // first own one on.
        let exchanged = unsafe { self.memory.show_others(pages, first.0) };
        // The pages showed shared memory before.
        if exchanged.is_err() && self.mend(pages) == Found::Whole && !self.memory.is_shared(pages) {
            self.lose(pages);
        }
        exchanged.is_ok()
    }

    fn show_run(
        &self,
        supply: &Supply,
        pages: PageRange,
        first: Frame,
        access: Access,
    ) -> Result<(), PlatformError> {
        let source = supply.address(first).ok_or_else(|| platform_error("a frame", Errno::INVAL))?;
        let wanted = |page, _| Entry::frame_page(first.plus(page - pages.start()), access);
        if self.exchange(supply, pages, first, access) {
            self.table.update(pages, wanted);
            return Ok(());
        }
        self.retake(pages)?;
        let refused = |errno| mapping_error(["mremap", "mremap (at vm.max_map_count)"], errno);
        if self.table.entries(pages).any(|(_, entry)| entry != Entry::PLAIN) {
            // From here on each of them traps, as plain ones do.
            self.table.update(pages, |_, old| old.unsure());
            self.memory.protect(pages, Access::None).map_err(refused)?;
        }
        self.table.update(pages, |page, old| wanted(page, old).unsure());
        // SAFETY: `map_frames` has checked that all frames are the supply's. So they are in its
        // linear map, which is shared memory, to the end.
        unsafe { self.memory.duplicate(source, pages) }.map_err(|errno| {
            self.mend_trapping(pages);
            refused(errno)
        })?;
        // The linear map is readable and writable, so its duplicates are.
        if access != Access::ReadWrite {
            self.memory.protect(pages, access).map_err(refused)?;
        }
        self.table.update(pages, wanted);
        Ok(())
    }
}
