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
//! Each function here that takes an `Arc` by value takes over one stack's share of the pool.
//!
//! # Age
//! Each drain of the space calls the pool, once a second while anything is left. Then every
//! cached stack is trimmed, whatever its sentinel says. So a stack that was used deeper than its
//! sentinel tells has given that memory back a second later. Of shards where nothing was dropped
//! since, half of the stacks go to the space, which frees them by their age in turn.
//!
//! No drop is overlooked: it marks its shard, and then has the space know, which asks for a drain.
//! A drain forgets that it was asked, and then looks for marked shards. Fences lie between both
//! steps of either. Where the space has no drain thread, stacks keep their memory until more are
//! dropped, or trimmed.

use crate::error::StackError;
use crate::magazine::{CAPACITY, Magazine};
use crate::pool::{Batch, Pool};
use crate::shape::Extent;
use crate::shard::Shard;
use std::sync::Arc;
use vmalloc::{Notifier, Space, Tag};
use vmalloc_linux::Linux;

/// The way that a dropped stack goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Plain, and of the pool's size: any owner may have it next.
    Pooled,
    /// Named, or of another size: the space has it next.
    Single,
}

/// The age of a shard's stacks, as a drain sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// Stacks were dropped there since the last drain.
    Fresh,
    /// None was.
    Idle,
}

impl Notifier<Linux> for Pool {
    fn make_room(self: Arc<Self>, space: &Space<Linux>, _: u64) -> u64 {
        let pages = self.shape.stack_bytes / space.geometry().page_bytes();
        (self.empty() * pages) as u64
    }

    fn decay(self: Arc<Self>, _: &Space<Linux>) -> bool {
        let mut is_left = false;
        for shard in &self.shards {
            let age = if shard.deactivate() { Age::Fresh } else { Age::Idle };
            self.trim(shard, age);
            is_left |= age == Age::Fresh || !shard.is_empty();
        }
        is_left
    }
}

impl Pool {
    /// Takes a cached stack of the pool's size, with its share.
    #[inline]
    pub(crate) fn reuse(self: &Arc<Self>) -> Option<(Arc<Self>, Extent)> {
        let shard = self.shard();
        // A stack that was used deeper has more memory, and is the better one to reuse.
        let bottom = shard.deep.take_last().or_else(|| shard.warm.take())?;
        Some((self.share_of_cached(), Extent { bottom, bytes: self.shape.stack_bytes }))
    }

    /// Allocates a stack from the space.
    pub(crate) fn alloc(self: &Arc<Self>, bytes: usize, name: Option<Tag>) -> Result<Extent, StackError> {
        let request = self.request(bytes, name);
        let bottom = self.in_need(|| Ok(self.space.raw().alloc(&request)?))?;
        Ok(Extent { bottom, bytes })
    }

    /// Tries `step`, and once more after the cached stacks of all CPUs went to the space.
    pub(crate) fn in_need<T>(
        self: &Arc<Self>,
        step: impl Fn() -> Result<T, StackError>,
    ) -> Result<T, StackError> {
        step().or_else(|error| if self.empty() > 0 { step() } else { Err(error) })
    }

    /// Gives the cached stacks of all CPUs to the space. Returns how many those were.
    #[cold]
    pub(crate) fn empty(self: &Arc<Self>) -> usize {
        let magazines = self.shards.iter().flat_map(Shard::magazines);
        magazines.flat_map(Magazine::take_all).map(|bottom| self.share_of_cached().end(bottom)).count()
    }

    /// Seals the magazines, and gives their stacks to the space: the last handle has gone.
    #[cold]
    pub(crate) fn close(self: &Arc<Self>) {
        let magazines = self.shards.iter().flat_map(Shard::magazines);
        magazines.flat_map(Magazine::seal).for_each(|bottom| self.share_of_cached().end(bottom));
    }

    /// Drops a stack. Nothing uses it any more.
    #[inline]
    pub(crate) fn recycle(self: Arc<Self>, stack: Extent, way: Way) {
        let shard = self.shard();
        if shard.activate() {
            self.space.tell();
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

    /// Gives a stack to the space, and ends its share.
    #[inline(never)]
    fn end(self: Arc<Self>, bottom: usize) {
        self.free(bottom);
    }

    /// Trims a dropped stack for which its magazine has no room, together with those in there.
    #[cold]
    #[inline(never)]
    fn trim_with(self: Arc<Self>, stack: Extent, way: Way) {
        let pool = Arc::clone(&self);
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
    fn settle(self: &Arc<Self>, shard: &Shard, way: Way, stacks: &[Extent]) {
        for stack in stacks {
            let share = self.share_of_cached();
            if way == Way::Pooled && shard.warm.put(stack.bottom) {
                share.leave();
            } else {
                share.end(stack.bottom);
            }
        }
    }

    /// Trims all stacks that a shard has cached, whatever their sentinels say. Of an idle shard's
    /// warm stacks half go to the space, which frees them by their age.
    pub(crate) fn trim(self: &Arc<Self>, shard: &Shard, age: Age) {
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
