//! Groups of reserved areas at chosen pages, which are made and freed together: all, or none.

use super::Raw;
use super::claim::Backing;
use crate::areas::{Annotation, AreaInfo, Kind, Tag};
use crate::platform::Platform;
use crate::purge::PurgePlan;
use crate::{FitError, FreeError, PageRange};

impl<P: Platform> Raw<'_, P> {
    /// Reserves exactly the pages of each of `areas`, with a tag: all of them, or none. The areas
    /// have no guard page and no memory. Nothing is purged for them. O(log n) for each.
    ///
    /// # Errors
    /// [`FitError`] of the first that can't be had; nothing is changed.
    pub fn reserve_all(
        &self,
        areas: impl Iterator<Item = PageRange> + Clone,
        tag: impl Into<Tag>,
    ) -> Result<(), FitError> {
        let annotation = Annotation::new(Kind::Reserved, 0, Some(tag.into()));
        for (index, area) in areas.clone().enumerate() {
            let made = self.space.areas.claim_at(area);
            let made = made.and_then(|()| {
                self.space.hand_out(area, annotation, Backing::None).map_err(|_| FitError::Metadata)
            });
            if let Err(cause) = made {
                areas.take(index).for_each(|area| self.space.give_up(area, annotation));
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Frees the areas of a group as [`unreserve`](Self::unreserve) does: all of them, or none.
    /// Each is named by all of its pages, has this tag and no guard page. Waits for a purge under
    /// way. O(areas).
    ///
    /// # Safety
    /// As for [`unreserve`](Self::unreserve), for each of them.
    ///
    /// # Errors
    /// The place of the first that can't be freed, and why; nothing is changed. An area of another
    /// size or with another tag is of the [wrong kind](FreeError::WrongKind).
    pub unsafe fn unreserve_all(
        &self,
        areas: impl Iterator<Item = PageRange> + Clone,
        tag: impl Into<Tag>,
    ) -> Result<(), (usize, FreeError)> {
        let (mut purge, tag, mut count, mut pages) = (self.space.hold_purger(), tag.into(), 0, 0);
        for (index, area) in areas.clone().enumerate() {
            let has_room = purge.purger.list().try_reserve(index + 1).is_ok();
            if let Err(cause) = self.retire_reserved(area, tag, has_room) {
                let map = self.space.areas.map();
                areas.take(index).for_each(|area| _ = self.space.sure(map.revive(area.start())));
                return Err((index, cause));
            }
            (count, pages) = (count + 1, pages + area.len());
        }
        if count == 0 {
            return Ok(());
        }
        for area in areas {
            self.space.areas.forget_annotation(area.start());
            purge.purger.list().push(area);
        }
        self.space.count_taken(usize::MAX, count, pages);
        drop(purge);
        self.space.trigger_drain(usize::MAX, pages);
        if self.space.options.trap_on_free {
            // A refusal stays with the purger, as after any free.
            let _ = self.space.purge_with(PurgePlan::LAZY);
        }
        Ok(())
    }

    /// Takes a reserved area of exactly these pages, with this tag, out of use, if it can be
    /// remembered. It keeps its annotation so far.
    fn retire_reserved(&self, area: PageRange, tag: Tag, has_room: bool) -> Result<(), FreeError> {
        let page = area.start();
        if !has_room {
            return Err(FreeError::NoMemory { addr: self.space.addr(page) });
        }
        let is_right = |known: AreaInfo| known.kind == Kind::Reserved && known.tag == Some(tag);
        let is_right = self.space.find(self.space.addr(page)).is_some_and(is_right);
        let retired = self.space.areas.map().retire_area(page, |found| is_right && found == area);
        retired.map(|_| ()).map_err(|error| FreeError::of(error, self.space.shift()))
    }
}
