//! Forks: all locks held over one, and a child that ends what other threads were in the middle of.

use super::Space;
use crate::areas::Kind;
use crate::platform::Platform;
use crate::short_map::BLOCK;
use crate::sync::{Mutant, is};
use core::sync::atomic::Ordering::Relaxed;

impl<P: Platform> Space<P> {
    /// Holds all locks of the space, for a `fork`, until [`resume`](Self::resume). Waits for a
    /// purge under way; a thread that calls it twice, or allocates in between, waits for itself.
    ///
    /// It is safe to call, for it only takes locks: memory is never handed out twice, but threads
    /// may wait for ever. The locks of what the platform stands on are not among them.
    pub fn quiesce(&self) {
        if is(Mutant::ForkOutOfOrder) {
            self.areas.lock_map();
        }
        core::mem::forget(self.purger.lock());
        self.cache.lock_all();
        self.short.lock_all();
        self.areas.lock_tables();
        self.notifiers.lock_all();
        self.frame_sets.lock_all();
        if !is(Mutant::ForkOutOfOrder) {
            self.areas.lock_map();
        }
    }

    /// Ends what [`quiesce`](Self::quiesce) began, in the child of a fork. It also ends what
    /// threads of the parent, which the child does not have, were doing without locks.
    ///
    /// # Safety
    /// The thread that this one was forked from has called `quiesce`; this one has not yet called
    /// this, or [`resume`](Self::resume), and is the only one.
    pub unsafe fn resume_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.resume() };
        if !is(Mutant::ForkAsItIs) {
            if !is(Mutant::ForkInNeed) {
                self.need.start_anew();
                self.notifiers.start_anew();
            }
            self.repair_retired();
            self.repair_blocks();
            self.cache.forget_all();
        }
    }

    /// Ends what [`quiesce`](Self::quiesce) began.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet
    /// `resume`.
    pub unsafe fn resume(&self) {
        // SAFETY: by the caller's promise this thread holds all locks.
        unsafe {
            self.areas.unlock_all();
            self.frame_sets.unlock_all();
            self.notifiers.unlock_all();
            self.short.unlock_all();
            self.cache.unlock_all();
            self.purger.force_unlock();
        }
    }

    /// Ends what threads of the parent were doing with blocks. A block that was being made or
    /// released is released.
    fn repair_blocks(&self) {
        let mut purger = self.purger.lock();
        let super::Purger { blocks, refused, .. } = &mut *purger;
        let spent = self.short.repair_purge(blocks, &mut refused.blocks);
        self.unmapper().move_from_refused(spent, spent * self.short.slots());
        self.counts.refused_blocks.store(0, Relaxed);
        drop(purger);
        while let Some(first) = self.unfinished_block() {
            self.give_up(self.short.range(first), BLOCK);
        }
        let trigger = self.short.repair(&self.cache.lazy);
        self.trigger_drain(trigger);
    }

    /// Returns an area that is annotated as a block and is none.
    fn unfinished_block(&self) -> Option<u64> {
        let mut tables = self.areas.tables();
        tables.find_map(|table| {
            let blocks = table.iter().filter(|(_, annotation)| annotation.kind == Kind::Block);
            blocks.map(|(&page, _)| page).find(|&page| self.short.is_unfinished(page))
        })
    }
}
