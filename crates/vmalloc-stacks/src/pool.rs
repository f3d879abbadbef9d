//! The pool: a space of its own, and the magazines of each CPU.

use crate::error::StackError;
use crate::fork;
use crate::hold::Hold;
use crate::magazine::CAPACITY;
use crate::options::StacksOptions;
use crate::registry::{self, Entry};
use crate::shape::{Extent, Shape};
use crate::shard::Shard;
use arrayvec::ArrayVec;
use std::ptr;
use std::slice;
use std::sync::atomic::AtomicUsize;
use vmalloc::{Discard, PageRange, Platform, Request, SpaceOptions, Tag};
use vmalloc_linux::{LinuxOptions, OpenError, SharedSpace, page_bytes};

/// The fewest bytes of addresses that a pool takes where more are refused.
const LEAST_SPAN_BYTES: usize = 16 << 20;

/// Dropped stacks that are trimmed together.
pub(crate) type Batch = ArrayVec<Extent, CAPACITY>;

/// A pool of stacks. See [`hold`](crate::hold) for its life.
pub(crate) struct Pool {
    pub(crate) space: SharedSpace,
    pub(crate) shape: Shape,
    pub(crate) shards: Box<[Shard]>,
    pub(crate) name: Tag,
    pub(crate) has_threads: bool,
    align: usize,
    pub(crate) holds: AtomicUsize,
    pub(crate) handles: AtomicUsize,
    /// The place where signal handlers and the decay find the pool.
    pub(crate) entry: &'static Entry,
}

impl Pool {
    /// Opens a pool with one handle.
    pub(crate) fn open(options: &StacksOptions) -> Result<Hold, StackError> {
        fork::watch().map_err(OpenError::from)?;
        let page_bytes = page_bytes();
        let span_bytes = options.span_bytes / page_bytes * page_bytes;
        // Before anything is reserved, and again for the addresses that there are.
        let shape = Shape::of(options, page_bytes, span_bytes)?;
        let space = open_space(options, span_bytes, shape.cache_bytes(options.warm_bytes))?;
        let shape = Shape::of(options, page_bytes, space.platform().reserved_bytes())?;
        let shards = (0..space.geometry().cpus).map(|_| Shard::new()).collect();
        let entry = registry::claim();
        let hold = Hold::first(Box::new(Self {
            space,
            shape,
            shards,
            name: options.name,
            has_threads: options.has_threads,
            align: options.align,
            holds: AtomicUsize::new(1),
            handles: AtomicUsize::new(1),
            entry,
        }));
        entry.show(&hold);
        Ok(hold)
    }

    /// Returns the shard of this CPU.
    #[inline]
    pub(crate) fn shard(&self) -> &Shard {
        // The platform's answer is below its number of CPUs.
        &self.shards[self.space.platform().cpu()]
    }

    /// Returns a request for an area that stacks are made in.
    pub(crate) fn request(&self, bytes: usize, name: Option<Tag>) -> Request {
        let request = Request::new(bytes).align(self.align);
        name.map_or(request, |name| request.tag(name))
    }

    /// Frees a stack: the space caches it.
    pub(crate) fn free(&self, bottom: usize) {
        // SAFETY: the caller owns the stack, which came from `alloc`, and nothing uses it.
        if let Err(error) = unsafe { self.space.raw().free(bottom) } {
            self.space.platform().fatal(&error);
        }
    }

    /// Gives the memory below the kept parts of `stacks` back, with one call. The caller owns them.
    /// Where the system refuses, it is asked for each by itself. Those that it refuses stay as they
    /// are, until the space frees them by their age.
    pub(crate) fn discard(&self, stacks: &mut Batch) {
        stacks.sort_unstable_by_key(|stack| stack.bottom);
        let below = stacks.iter().filter_map(|stack| self.shape.below_kept(*stack));
        let ranges: ArrayVec<PageRange, CAPACITY> = below.collect();
        // SAFETY: the caller owns the stacks, which are mapped, and nothing needs their content.
        // The ranges ascend, with a guard page or more between any two.
        let discard = |ranges: &[PageRange]| unsafe { self.space.platform().discard(ranges) };
        if discard(&ranges).is_err() {
            ranges.iter().for_each(|range| _ = discard(slice::from_ref(range)));
        }
    }

    /// Returns the size of a stack that is in use, by the space's own records.
    pub(crate) fn extent_of(&self, bottom: usize) -> Extent {
        Extent { bottom, bytes: self.space.usable_size(bottom).unwrap_or(0) }
    }
}

/// Opens the space, whose first page is no part of any stack: below the first one lies that page.
fn open_space(
    options: &StacksOptions,
    span_bytes: usize,
    cache_bytes: usize,
) -> Result<SharedSpace, StackError> {
    let least = LEAST_SPAN_BYTES.max(options.stack_bytes.saturating_mul(2)).min(span_bytes);
    let linux = LinuxOptions::new().max_bytes(span_bytes).min_bytes(least).frame_bytes(0);
    let linux = linux.drain_thread(options.has_threads);
    // Each area has a guard, and is of the size asked for: no slack between a stack and its guard.
    let space = SpaceOptions::default().guard(true).cache_bytes(cache_bytes).max_slack_percent(0);
    let space = vmalloc_linux::open(linux, space)?;
    let (span, shift) = (space.geometry().span, space.geometry().page_shift);
    let start = (span.start() << shift) as usize;
    // A huge page at the top of each stack would be most of its memory. One advice for the whole
    // span takes no further mapping. Kernels without huge pages refuse it, and need none.
    // SAFETY: the span is the space's, and the advice changes no content.
    unsafe {
        let first = ptr::with_exposed_provenance_mut(start);
        libc::madvise(first, (span.len() << shift) as usize, libc::MADV_NOHUGEPAGE);
    }
    let first = start..start + space.geometry().page_bytes();
    let request = Request::new(first.len()).guard(false).within(first.start, first.end);
    // Never freed: it goes with the span.
    space.raw().reserve(&request)?;
    Ok(space)
}
