//! The way of a stack: from a magazine or the space to its owner, and back.
//!
//! ```text
//!   stack() ◄── deep ◄───────────────────┐ used below the kept part
//!           ◄── warm ◄──────────────────┤  not used there                 drop(stack)
//!           ◄── the space ◄── no room ──┘
//!                            deep is full: 64 stacks are trimmed by one call, then they are warm
//! ```
//!
//! The common way is one exchange to make a stack and one to drop it, on memory of this CPU's own.
//! Each function here that takes a [`Hold`] by value takes over one stack's.

use crate::decay;
use crate::error::StackError;
use crate::hold::Hold;
use crate::magazine::{CAPACITY, Magazine};
use crate::pool::Batch;
use crate::shape::Extent;
use crate::shard::Shard;
use vmalloc::Tag;

/// The way that a dropped stack goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Plain, and of the pool's size: any owner may have it next.
    Pooled,
    /// Named, or of another size: the space has it next.
    Single,
}

/// The age of a shard's stacks, as a round of the decay sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// Stacks were dropped there since the last round.
    Fresh,
    /// None was.
    Idle,
}

impl Hold {
    /// Takes a cached stack of the pool's size, with its hold.
    #[inline]
    pub(crate) fn reuse(&self) -> Option<(Self, Extent)> {
        let shard = self.shard();
        // A stack that was used deeper has more memory, and is the better one to reuse.
        let bottom = shard.deep.take_last().or_else(|| shard.warm.take())?;
        Some((self.of_cached(), Extent { bottom, bytes: self.shape.stack_bytes }))
    }

    /// Allocates a stack from the space.
    pub(crate) fn alloc(&self, bytes: usize, name: Option<Tag>) -> Result<Extent, StackError> {
        let request = self.request(bytes, name);
        let bottom = self.in_need(|| Ok(self.space.raw().alloc(&request)?))?;
        Ok(Extent { bottom, bytes })
    }

    /// Tries `step`, and once more after the cached stacks of all CPUs went to the space.
    pub(crate) fn in_need<T>(&self, step: impl Fn() -> Result<T, StackError>) -> Result<T, StackError> {
        step().or_else(|error| if self.empty() > 0 { step() } else { Err(error) })
    }

    /// Gives the cached stacks of all CPUs to the space. Returns how many those were.
    #[cold]
    pub(crate) fn empty(&self) -> usize {
        let magazines = self.shards.iter().flat_map(Shard::magazines);
        magazines.flat_map(Magazine::take_all).map(|bottom| self.of_cached().end(bottom)).count()
    }

    /// Seals the magazines, and gives their stacks to the space: the last handle has gone.
    #[cold]
    pub(crate) fn close(&self) {
        let magazines = self.shards.iter().flat_map(Shard::magazines);
        magazines.flat_map(Magazine::seal).for_each(|bottom| self.of_cached().end(bottom));
    }

    /// Drops a stack. Nothing uses it any more.
    #[inline]
    pub(crate) fn recycle(self, stack: Extent, way: Way) {
        let shard = self.shard();
        if shard.activate() && self.has_threads {
            decay::wake();
        }
        // SAFETY: the stack is the caller's, mapped, and not used any more.
        let is_deep = unsafe { self.shape.is_deep(stack) };
        let magazine = match (way, is_deep) {
            (Way::Pooled, false) => &shard.warm,
            (Way::Pooled, true) => &shard.deep,
            (Way::Single, true) => &shard.single,
            (Way::Single, false) => return self.end(stack.bottom),
        };
        if magazine.put(stack.bottom) {
            return self.leave();
        }
        if is_deep { self.trim_with(stack, way) } else { self.end(stack.bottom) }
    }

    /// Gives a stack to the space, and ends its hold.
    #[inline(never)]
    fn end(self, bottom: usize) {
        self.free(bottom);
    }

    /// Trims a dropped stack for which its magazine has no room, together with those in there.
    #[cold]
    #[inline(never)]
    fn trim_with(self, stack: Extent, way: Way) {
        let pool = self.another();
        self.leave();
        let shard = pool.shard();
        let mut batch = pool.batch_of(shard, way, CAPACITY - 1);
        batch.push(stack);
        pool.discard(&mut batch);
        pool.settle(shard, way, &batch);
    }

    /// Takes up to `most` stacks that were used below their kept part.
    fn batch_of(&self, shard: &Shard, way: Way, most: usize) -> Batch {
        match way {
            Way::Pooled => {
                let bytes = self.shape.stack_bytes;
                shard.deep.take_all().take(most).map(|bottom| Extent { bottom, bytes }).collect()
            }
            Way::Single => shard.single.take_all().take(most).map(|bottom| self.extent_of(bottom)).collect(),
        }
    }

    /// Puts trimmed stacks where they wait for their next owner.
    fn settle(&self, shard: &Shard, way: Way, stacks: &[Extent]) {
        for stack in stacks {
            let hold = self.of_cached();
            if way == Way::Pooled && shard.warm.put(stack.bottom) {
                hold.leave();
            } else {
                hold.end(stack.bottom);
            }
        }
    }

    /// Trims all stacks that a shard has cached, whatever their sentinels say. Of an idle shard's
    /// warm stacks half go to the space, which frees them by their age.
    pub(crate) fn trim(&self, shard: &Shard, age: Age) {
        for way in [Way::Single, Way::Pooled] {
            let mut batch = self.batch_of(shard, way, CAPACITY);
            self.discard(&mut batch);
            self.settle(shard, way, &batch);
        }
        let bytes = self.shape.stack_bytes;
        let warm = shard.warm.take_all().take(CAPACITY);
        let mut batch: Batch = warm.map(|bottom| Extent { bottom, bytes }).collect();
        self.discard(&mut batch);
        let idle = if age == Age::Idle { batch.len().div_ceil(2) } else { 0 };
        let (idle, rest) = batch.split_at(idle);
        self.settle(shard, Way::Single, idle);
        self.settle(shard, Way::Pooled, rest);
    }
}
