//! The pool: a space of its own, and the magazines of each CPU.
//!
//! - **POOL-1** A pool lives as long as it has an owner. A handle ([`Stacks`]) is an owner, and so
//!   is each stack: in use, or cached in a magazine.
//! - **POOL-2** A stack takes its share of the pool along when it goes into a magazine and comes
//!   out again. So the common way of making and dropping a stack changes no number that CPUs share.
//! - **POOL-3** When the last handle goes, all magazines are sealed and emptied. From then on a
//!   dropped stack goes to the space, and its share ends.
//!
//! By POOL-2 a thread that has put a stack into a magazine has given its share away. It touches the
//! pool no more: the last handle may go at that moment, and the pool with it.
//!
//! Considered instead: a share that ends with each stack. Two threads that make and drop stacks
//! then wait for one cache line, twice a stack.
//!
//! # Forks
//! Magazines are whole in a child (MAG-3), the space goes on there, and is drained there. A
//! stack that another thread owned or moved at the fork stays in use in the child: only its owner
//! could drop it. One that such a thread was growing can be grown on, see
//! [`growable`](crate::growable).
//!
//! [`Stacks`]: crate::Stacks

use crate::error::StackError;
use crate::magazine::CAPACITY;
use crate::options::StacksOptions;
use crate::overflow;
use crate::shape::{Extent, Shape};
use crate::shard::Shard;
use arrayvec::ArrayVec;
use std::mem;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use vmalloc::{Discard, Notifier, PageRange, Platform, Request, SpaceOptions, Tag};
use vmalloc_linux::watched::Watch;
use vmalloc_linux::{LinuxOptions, SharedSpace, page_bytes};

/// Dropped stacks that are trimmed together.
pub(crate) type Batch = ArrayVec<Extent, CAPACITY>;

/// A pool of stacks.
pub(crate) struct Pool {
    pub(crate) space: SharedSpace,
    pub(crate) shape: Shape,
    pub(crate) shards: Box<[Shard]>,
    pub(crate) name: Tag,
    align: usize,
    pub(crate) handles: AtomicUsize,
    /// Shows the pool to signal handlers.
    _watch: Watch<overflow::Shown>,
}

impl Pool {
    /// Opens a pool with one handle.
    pub(crate) fn open(linux: LinuxOptions, options: &StacksOptions) -> Result<Arc<Self>, StackError> {
        let page_bytes = page_bytes();
        let space = open_space(linux, Shape::cache_bytes(options, page_bytes))?;
        let pool = Arc::new(Self {
            shape: Shape::of(options, page_bytes, space.platform().reserved_bytes())?,
            shards: (0..space.geometry().cpus).map(|_| Shard::new()).collect(),
            name: options.name,
            align: options.align,
            handles: AtomicUsize::new(1),
            _watch: overflow::show(&space, options.name),
            space,
        });
        let notifier: Arc<dyn Notifier<_>> = Arc::<Self>::clone(&pool);
        pool.space.register_notifier(&notifier)?;
        Ok(pool)
    }

    /// Returns the share of a cached stack, which was taken out of a magazine of this pool.
    #[inline]
    pub(crate) fn share_of_cached(self: &Arc<Self>) -> Arc<Self> {
        // SAFETY: by POOL-2 the stack had a share, which no other owner has.
        unsafe { Arc::from_raw(Arc::as_ptr(self)) }
    }

    /// Leaves a share to a cached stack.
    #[inline]
    pub(crate) fn leave(self: Arc<Self>) {
        mem::forget(self);
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
fn open_space(linux: LinuxOptions, cache_bytes: usize) -> Result<SharedSpace, StackError> {
    // A huge page at the top of each stack would be most of its memory.
    let linux = linux.frame_bytes(0).huge_pages(false);
    // Each area has a guard, and is of the size asked for: no slack between a stack and its guard.
    let space = SpaceOptions::default().guard(true).cache_bytes(cache_bytes).max_slack_percent(0);
    let space = vmalloc_linux::open(linux, space)?;
    let (span, shift) = (space.geometry().span, space.geometry().page_shift);
    let start = (span.start() << shift) as usize;
    let first = start..start + space.geometry().page_bytes();
    let request = Request::new(first.len()).guard(false).within(first.start, first.end);
    // Never freed: it goes with the span.
    space.raw().reserve(&request)?;
    Ok(space)
}
