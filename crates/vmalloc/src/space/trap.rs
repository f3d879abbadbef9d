//! Frees after which a stale access traps at once.
//!
//! ```text
//!   free ── retire ──► in no list ── unmap_now ──► pool of the leaf's node, or the map
//!                          │ refused                 ▲
//!                          └────────► lazy ── purge ─┘ before the free returns
//! ```
//!
//! No lock is held over the call of the platform. Meanwhile the area is in no list, as in
//! [`free_atomic`](Raw::free_atomic): the child of a fork makes it lazy, and an allocation
//! in need does not wait for it. Its free has not returned yet.

use super::Raw;
use super::free::FreedArea;
use crate::FreeError;
use crate::PageRange;
use crate::areas::{Annotation, Entry};
use crate::platform::Platform;
use crate::purge::{Done, FrameShare, PurgePlan};
use crate::wait::{Node, SizeStacks, make_room};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

impl<P: Platform> Raw<'_, P> {
    /// Unmaps and flushes a retired area, and gives its addresses back. If the platform refuses, or
    /// can't do that at once, the area becomes lazy and is purged here. So is an area that was to
    /// be cleared and was not: a platform may keep memory that it unmaps at once, but none in a
    /// purge.
    #[inline(never)]
    pub(super) fn unmap_freed(&self, freed: &FreedArea, is_clear: bool) -> Result<(), FreeError> {
        let (area, extras) = (freed.area, self.space.platform.extras());
        // An area is not its guard alone.
        let pages = PageRange::of(area.start(), area.end() - freed.guard_pages);
        // REFUSED-3: where a part of an area was refused before, the purge says when it is gone.
        let may_unmap = is_clear && !self.space.counts.is_anything_pending();
        // SAFETY: the area was retired by this caller, and is in no list: it has no other owner.
        if may_unmap && unsafe { extras.unmap_now(pages, freed.tag.as_deref()) }.is_ok() {
            self.give_unmapped(area, freed.owner_node);
            // Its addresses wait in a pool, and its memory perhaps with the platform.
            self.space.tell();
            return Ok(());
        }
        self.make_lazy(area)?;
        // What the platform refuses stays lazy.
        let unmapped = self.space.purge_with(PurgePlan::LAZY).and_then(Done::refused);
        if is_clear && unmapped.is_err() {
            // Relaxed: a number and nothing else.
            self.space.counts.late_frees.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Gives the addresses of an unmapped and flushed area back.
    fn give_unmapped(&self, area: PageRange, owner_node: Option<usize>) {
        let node = owner_node.filter(|_| SizeStacks::takes(area.len()));
        let node = node.map(|owner| &self.space.cache.nodes[owner % self.space.cache.nodes.len()]);
        let is_pooled = node.is_some_and(|node| {
            let mut node = node.lock();
            make_room(&mut node, Node::pooled, area.len(), 1) && node.pool(area)
        });
        if !is_pooled {
            self.space.release(&[area]);
        }
    }

    /// Makes a retired area lazy that could not be unmapped at once. Without memory to remember it
    /// nothing is changed.
    #[cold]
    fn make_lazy(&self, area: PageRange) -> Result<(), FreeError> {
        let mut held = self.space.node_with_room(area.start())?;
        held.node.enter_lazy(area, area.len());
        held.publish_if_due();
        Ok(())
    }

    /// Makes a retired area busy again that could not be freed, as it was.
    #[cold]
    pub(super) fn not_freed(
        &self,
        area: PageRange,
        annotation: Annotation,
        entry: Option<Box<Entry>>,
        share: Option<FrameShare>,
    ) {
        if let Some(share) = share {
            // Another area may have taken the room that it left. Without memory for more, its
            // frames stay taken.
            if let Some(mut sets) = self.space.frame_sets.lock_with_room() {
                sets.stay(share);
            }
        }
        if self.space.areas.hand_out(area.start(), &annotation, entry) != Some(true) {
            self.space.platform.fatal(&"an area that is being freed is busy");
        }
    }
}
