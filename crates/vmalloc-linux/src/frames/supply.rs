//! The supply of pages that can be mapped at several addresses at once.
//!
//! Frame n is page n of a file that exists in memory alone (memfd_create(2)). The whole file is
//! mapped once, for good, outside the span: the **linear** map, where any frame can be used without
//! a mapping of its own. Other mappings of a frame are made from that one
//! ([`Reservation::duplicate`](crate::os::reservation::Reservation::duplicate)), so no descriptor
//! is kept. A daemon may close all of its descriptors, and a limit on them does no harm. (Measured:
//! mremap(2) of an old size of zero takes as long as mmap(2) of the file.)
//!
//! The addresses are reserved at once, for they have to stay the same. The file is made when the
//! first frame is taken.
//!
//! The linear map is made accessible in steps, as far as frames were ever taken: a program that
//! locks all its memory (mlockall(2)) gets some behind every page that is accessible.
//!
//! # Memory
//! A taken frame gets memory when it is touched. A frame that is given back keeps its memory, up to
//! [`KEEP_BYTES`] in all, and such frames are the first to be taken again. Beyond that the memory
//! goes back to the machine, with one call for each run of consecutive frames in the order they
//! come in. Other frames are taken lowest first. That keeps the used part dense, and gives
//! consecutive frames while it can.
//!
//! A run is searched for from one free frame to the next taken one, 64 frames a step, and only up
//! to the highest frame that was ever taken: behind it everything is free. So at worst it costs a
//! pass over the bits of the used part (32 KiB for a gigabyte). That pass is not repeated each
//! time, for one result is remembered:
//! - **S3** No run of [`SupplyState::no_run_count`] free frames with
//!   [`SupplyState::no_run_align`] is wholly below [`SupplyState::no_run_below`].
//!
//! It holds for larger runs and alignments as well. Frames that are given back lower the mark to
//! where they begin.
//!
//! # Forks
//! Shared memory is shared with a forked child as well. If parent or child writes to a frame **that
//! was taken before the fork**, both see it, through any mapping. Nothing could be done about that
//! at the fork: a copy would need all other threads to stand still until it is made. These promises
//! hold:
//! - **S1** Frames that a process takes after the fork are its own. The child begins a new file,
//!   which replaces the old one in its linear map from the highest frame on that was ever taken
//!   ([`SupplyState::floor`]); below it takes none.
//! - **S2** A child gives back no frame that its parent took: those frames are forgotten, and their
//!   memory stays the parent's.
//!
//! The parent may give its frames back, and hand them to others, while the child still has them
//! mapped. So the child should leave them alone, or agree with its parent on them, as on any shared
//! memory.
//!
//! # Locking
//! The state is changed under [`SUPPLY`]. It is held over a fork and is one for all supplies, see
//! [`locks`]; frames are taken in bulk. Nothing else is taken under it. Memory is given back
//! outside of it.

use crate::error::{platform_error, protect_error, refusal};
use crate::fork::hooks;
use crate::fork::locks::{self, SUPPLY};
use crate::frames::bitmap::{Begin, Bitmap, Some64};
use crate::guard::chunks::CHUNK_PAGES;
use crate::means::FRAMES_MAX;
use crate::os::futex::FutexLock;
use crate::os::madvise::{Advice, advise};
use crate::os::reservation::{Access, Mapping, unlock};
use libc::iovec;
use lock_api::MutexGuard;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vmalloc::{Frame, Origin, PageRange, PlatformError, PlatformFault};

/// The most memory that free frames keep. A fresh page costs a fault of 1–2 µs with its zeroing, so
/// this is worth 16,384 of those, and a quarter of a percent of a machine with 24 GiB.
const KEEP_BYTES: u64 = 64 << 20;

/// Frames that become accessible at a time: as many as an opened chunk of the span has pages.
const STEP: u64 = CHUNK_PAGES;

/// The frames of one reservation.
#[derive(Debug)]
pub(crate) struct Supply {
    linear: Mapping,
    range: PageRange,
    page_shift: u32,
    free: Bitmap,
    /// Those of them that may hold memory.
    kept: Bitmap,
    state: SupplyState,
}

/// The numbers of a supply. They are changed under [`SUPPLY`] only, and atomic, since some are read
/// without it, too. Relaxed, but for the top: the lock orders.
#[derive(Debug, Default)]
struct SupplyState {
    /// True once the file is there, and the sets can be used.
    started: AtomicBool,
    /// The count of forks that these numbers are for: another one means that this process is a
    /// child of that.
    forks: AtomicU64,
    /// Frames below this one are an ancestor's.
    floor: AtomicU64,
    /// Above this one no frame was ever taken.
    top: AtomicU64,
    free: AtomicU64,
    /// Free frames that may hold memory.
    kept: AtomicU64,
    /// Below this one frames are accessible in the linear map.
    reached: AtomicU64,
    /// S3. None is known while this is 0.
    no_run_count: AtomicU64,
    no_run_align: AtomicU64,
    no_run_below: AtomicU64,
}

type Held = MutexGuard<'static, FutexLock, ()>;

impl Supply {
    /// Reserves a supply of `bytes`. Only addresses are taken.
    pub(crate) fn new(bytes: usize, page_bytes: usize) -> Result<Self, Errno> {
        let page_shift = page_bytes.trailing_zeros();
        let linear = Mapping::new(bytes, Access::None)?;
        let frames = linear.bytes() as u64 >> page_shift;
        let start = linear.base().addr().get() as u64 >> page_shift;
        let range =
            PageRange::from_len(start, frames).filter(|_| frames <= FRAMES_MAX).ok_or(Errno::NOMEM)?;
        let state = SupplyState {
            free: AtomicU64::new(frames),
            forks: AtomicU64::new(locks::generation()),
            ..SupplyState::default()
        };
        let (free, kept) = (Bitmap::new(frames, Begin::Full)?, Bitmap::new(frames, Begin::Empty)?);
        Ok(Self { linear, range, page_shift, free, kept, state })
    }

    /// Returns the pages where frame 0, 1, 2 … can be used.
    pub(crate) fn linear(&self) -> PageRange {
        self.range
    }

    /// Returns the address of `frame` in the linear map; `None` for a number that is no frame.
    pub(crate) fn address(&self, frame: Frame) -> Option<*mut libc::c_void> {
        let offset = usize::try_from(frame.0).ok()?.checked_mul(1 << self.page_shift)?;
        (frame.0 < self.range.len()).then(|| self.linear.base().as_ptr().wrapping_byte_add(offset))
    }

    pub(crate) fn origin(&self, frame: Frame) -> Origin {
        // Acquire: pairs with the Release in `note_taken`. A thread that sees a top may look at the
        // bits below it.
        let taken = frame.0 < self.state.top.load(Ordering::Acquire) && !self.free.contains(frame.0);
        if taken { Origin::Supply } else { Origin::Foreign }
    }

    /// Returns true if `frame` is of this process's own file: not of an ancestor's, as frames are
    /// that were taken before a fork.
    pub(crate) fn is_own(&self, frame: Frame) -> bool {
        // Relaxed: a process that took the frame, or got it from one that did, sees the numbers as
        // they were then, or later.
        self.state.started.load(Ordering::Relaxed)
            && self.state.forks.load(Ordering::Relaxed) == locks::generation()
            && frame.0 >= self.state.floor.load(Ordering::Relaxed)
    }

    /// Returns true if all frames of a run are taken.
    pub(crate) fn are_taken(&self, first: u64, count: u64) -> bool {
        let Some(end) = first.checked_add(count) else { return false };
        // Acquire: as above.
        end <= self.state.top.load(Ordering::Acquire) && !self.free.meets(first, end)
    }

    /// Fills `frames`.
    pub(crate) fn take(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        let _held = self.enter_started()?;
        let free = self.state.free.load(Ordering::Relaxed);
        if free < frames.len() as u64 {
            return Err(used_up());
        }
        let kept = usize::try_from(self.state.kept.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let (kept, rest) = frames.split_at_mut(kept.min(frames.len()));
        // There are enough of either: see above.
        self.fill(kept, &self.kept)?;
        self.fill(rest, &self.free)?;
        let end = frames.iter().max().map_or(0, |last| last.0 + 1);
        // The frames that were taken in vain may be those that had kept their memory.
        self.reach(end).inspect_err(|_| runs(frames).for_each(|run| self.free_run(run, Memory::Kept)))
    }

    /// Makes all frames below `end` accessible.
    fn reach(&self, end: u64) -> Result<(), PlatformError> {
        let reached = self.state.reached.load(Ordering::Relaxed);
        if end <= reached {
            return Ok(());
        }
        let end = end.next_multiple_of(STEP).min(self.range.len());
        let [offset, bytes] = [reached, end - reached].map(|frames| (frames << self.page_shift) as usize);
        // SAFETY: no frame from `reached` on was handed out since the file was put there.
        unsafe { self.linear.make_accessible(offset, bytes) }.map_err(protect_error)?;
        let _ = self.linear.advise_part(offset, bytes, Advice::DoDump);
        self.state.reached.store(end, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the first of a set of free frames.
    fn fill(&self, frames: &mut [Frame], set: &Bitmap) -> Result<(), PlatformError> {
        let (mut filled, mut from) = (0, self.state.floor.load(Ordering::Relaxed));
        while filled < frames.len() {
            let first = set.next(from).ok_or_else(used_up)?;
            let some = set.some(first, frames.len() - filled);
            self.note_taken(some);
            for frame in some {
                frames[filled] = Frame(frame);
                (filled, from) = (filled + 1, frame + 1);
            }
        }
        Ok(())
    }

    /// Takes `count` consecutive frames, the first at a multiple of `align`.
    pub(crate) fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        if count == 0 || !align.is_power_of_two() {
            return Err(platform_error("take_run of no frames or with such an alignment", Errno::INVAL));
        }
        let _held = self.enter_started()?;
        let (start, end) = self.find_run(count, align).ok_or_else(used_up)?;
        self.reach(end)?;
        Some64::cover(start, end).for_each(|some| self.note_taken(some));
        self.note_no_run(count, align, end);
        Ok(Frame(start))
    }

    fn find_run(&self, count: u64, align: u64) -> Option<(u64, u64)> {
        let top = self.state.top.load(Ordering::Relaxed);
        let mut from = self.first_that_may_do(count, align);
        loop {
            let start = self.free.next(from)?.checked_next_multiple_of(align)?;
            let end = start.checked_add(count).filter(|&end| end <= self.range.len())?;
            // Behind the top everything is free.
            match self.free.first_missing(start, end.min(top)) {
                None => return Some((start, end)),
                Some(taken) => from = taken + 1,
            }
        }
    }

    /// Returns the frame to begin a search at, by S3.
    fn first_that_may_do(&self, count: u64, align: u64) -> u64 {
        let floor = self.state.floor.load(Ordering::Relaxed);
        match self.has_no_run_for(count, align) {
            // A run that is not wholly below the mark.
            true => floor.max(self.state.no_run_below.load(Ordering::Relaxed).saturating_sub(count - 1)),
            false => floor,
        }
    }

    fn has_no_run_for(&self, count: u64, align: u64) -> bool {
        let no_run = self.state.no_run_count.load(Ordering::Relaxed);
        no_run != 0 && count >= no_run && align >= self.state.no_run_align.load(Ordering::Relaxed)
    }

    /// Notes S3 after the lowest run that fits was taken: it ends at `end`.
    fn note_no_run(&self, count: u64, align: u64, end: u64) {
        let known =
            [&self.state.no_run_count, &self.state.no_run_align].map(|value| value.load(Ordering::Relaxed));
        // A fact about smaller runs says more.
        if self.has_no_run_for(count, align) && known != [count, align] {
            return;
        }
        self.state.no_run_count.store(count, Ordering::Relaxed);
        self.state.no_run_align.store(align, Ordering::Relaxed);
        self.state.no_run_below.store(end, Ordering::Relaxed);
    }

    /// Takes `frames`, which are free.
    fn note_taken(&self, frames: Some64) {
        let (taken, kept) = (self.free.remove(frames), self.kept.remove(frames));
        self.state.free.fetch_sub(taken, Ordering::Relaxed);
        self.state.kept.fetch_sub(kept, Ordering::Relaxed);
        // Release: pairs with the Acquire in `origin`.
        self.state.top.fetch_max(frames.end(), Ordering::Release);
    }

    /// Gives frames back.
    ///
    /// # Safety
    /// They were taken, and nothing uses them or reads their content any more.
    pub(crate) unsafe fn give(&self, frames: &[Frame]) {
        let (kept, floor) = self.give_kept(frames);
        let rest = &frames[kept..];
        if rest.is_empty() {
            return;
        }
        for (start, end) in runs(rest) {
            // SAFETY: `drop_memory` asks for frames of this process, whose content is not wanted.
            // The caller has taken these and gives them back; from the floor on they are this
            // process's own.
            unsafe { self.drop_memory(start.max(floor), end) };
        }
        let _held = self.enter();
        runs(rest).for_each(|run| self.free_run(run, Memory::Dropped));
    }

    /// Gives back as many of `frames` as may keep their memory. Returns how many, and where this
    /// process's own frames begin.
    fn give_kept(&self, frames: &[Frame]) -> (usize, u64) {
        let _held = self.enter();
        let room = (KEEP_BYTES >> self.page_shift).saturating_sub(self.state.kept.load(Ordering::Relaxed));
        let kept = frames.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        runs(&frames[..kept]).for_each(|run| self.free_run(run, Memory::Kept));
        (kept, self.state.floor.load(Ordering::Relaxed))
    }

    /// Frees a run of frames. By S2, those below the floor count for nothing, and no search gets
    /// there.
    fn free_run(&self, (start, end): (u64, u64), memory: Memory) {
        debug_assert!(
            self.free.next(start).is_none_or(|free| free >= end),
            "a free frame of {start}..{end} is given back"
        );
        Some64::cover(start, end).for_each(|some| self.free.insert(some));
        self.state.no_run_below.fetch_min(start, Ordering::Relaxed);
        let start = start.max(self.state.floor.load(Ordering::Relaxed));
        let count = end.saturating_sub(start);
        self.state.free.fetch_add(count, Ordering::Relaxed);
        if memory == Memory::Kept {
            Some64::cover(start, end).for_each(|some| self.kept.insert(some));
            self.state.kept.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// # Safety
    /// The frames `[start, end)` are this process's own, and nothing reads their content any more.
    unsafe fn drop_memory(&self, start: u64, end: u64) {
        let Some(iov_base) = self.address(Frame(start)).filter(|_| start < end) else { return };
        let run = iovec { iov_base, iov_len: ((end - start) << self.page_shift) as usize };
        // SAFETY: the run is mapped, in the linear map, and by the caller's promise its content may
        // go.
        let dropped = unsafe { advise(run, Advice::Remove) };
        // `EINVAL` says that it is locked. If unlocking fails too, the frames hold their memory
        // until they are given back again.
        if dropped == Err(Errno::INVAL) && unlock(run).is_ok() {
            // SAFETY: as above.
            let _ = unsafe { advise(run, Advice::Remove) };
        }
    }

    /// Takes the lock, and starts the file if it is not there.
    fn enter_started(&self) -> Result<Held, PlatformError> {
        let held = self.enter();
        if !self.state.started.load(Ordering::Relaxed) {
            self.start()?;
        }
        Ok(held)
    }

    /// Takes the lock, and makes the state this process's own if it is an ancestor's.
    fn enter(&self) -> Held {
        let held = SUPPLY.lock();
        let forks = locks::generation();
        if self.state.forks.swap(forks, Ordering::Relaxed) != forks {
            self.inherit();
        }
        held
    }

    /// Leaves to an ancestor, by S1, the frames that it has taken, and those that it may take where
    /// its child has not yet begun.
    #[cold]
    fn inherit(&self) {
        let floor = self.state.top.load(Ordering::Relaxed);
        self.state.started.store(false, Ordering::Relaxed);
        self.state.floor.store(floor, Ordering::Relaxed);
        self.state.free.store(self.range.len() - floor, Ordering::Relaxed);
        self.state.kept.store(0, Ordering::Relaxed);
        self.state.no_run_count.store(0, Ordering::Relaxed);
    }

    /// Makes the file, and puts it behind the linear map from the floor on.
    #[cold]
    fn start(&self) -> Result<(), PlatformError> {
        if self.linear.stays() {
            return Err(platform_error(
                "frames (another mapping of the program took their place)",
                Errno::EXIST,
            ));
        }
        hooks::lock_always();
        let floor = self.state.floor.load(Ordering::Relaxed);
        let file = create(self.linear.bytes())?;
        let ready = self.free.make_ready().and_then(|()| self.kept.make_ready());
        ready.map_err(|errno| platform_error("mprotect", errno))?;
        self.state.reached.store(floor, Ordering::Relaxed);
        if floor < self.range.len() {
            let from = (floor << self.page_shift) as usize;
            // SAFETY: no frame from the floor on was ever handed out, here or in an ancestor (S1).
            unsafe { self.linear.show(&file, from) }.map_err(|errno| platform_error("mmap", errno))?;
        }
        self.state.started.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The fate of the memory of a frame that is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Kept,
    Dropped,
}

/// Creates a file of that size, of holes.
fn create(bytes: usize) -> Result<OwnedFd, PlatformError> {
    // The kernel would not only refuse, but kill (SIGXFSZ).
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes as u64) {
        return Err(platform_error("a file of frames (RLIMIT_FSIZE)", Errno::NOMEM));
    }
    // Not executable as a program, which says nothing about mappings. Kernels before 6.3 don't know
    // it.
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL;
    let file = match memfd_create(c"vmalloc frames", flags) {
        Err(Errno::INVAL) => memfd_create(c"vmalloc frames", MemfdFlags::CLOEXEC),
        made => made,
    };
    let file = file.map_err(|errno| platform_error("memfd_create", errno))?;
    ftruncate(&file, bytes as u64).map_err(|errno| platform_error("ftruncate", errno))?;
    Ok(file)
}

/// Returns the maximal runs of consecutive frames, as `[start, end)`, in the order they come in.
fn runs(frames: &[Frame]) -> impl Iterator<Item = (u64, u64)> {
    frames
        .chunk_by(|first, next| next.0 == first.0 + 1)
        .filter_map(|run| Some((run.first()?.0, run.last()?.0 + 1)))
}

#[cold]
fn used_up() -> PlatformError {
    refusal("taking frames (too few are free)", PlatformFault::OutOfMemory, Errno::NOMEM)
}
