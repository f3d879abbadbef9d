//! Several reserved areas that are freed together: all, or none.

use super::{Raw, Space};
use crate::areas::Kind;
use crate::cache::Trigger;
use crate::platform::Platform;
use crate::purge::PurgePlan;
use crate::{FreeError, PageRange};

impl<P: Platform> Raw<'_, P> {
    /// Frees reserved areas as [`unreserve`](Self::unreserve) does: all of them, or none. Each is
    /// named by all of its pages, and has no guard page. Waits for a purge under way. O(areas).
    ///
    /// # Safety
    /// As for [`unreserve`](Self::unreserve), for each of them.
    ///
    /// # Errors
    /// The place of the first that can't be freed, and why; nothing is changed. An area of another
    /// size is of the [wrong kind](FreeError::WrongKind).
    pub unsafe fn unreserve_all(
        &self,
        areas: impl Iterator<Item = PageRange> + Clone,
    ) -> Result<(), (usize, FreeError)> {
        let (mut purger, count) = (self.purger.lock(), areas.clone().count());
        let Some(first) = areas.clone().next() else { return Ok(()) };
        let no_memory = FreeError::NoMemory { addr: self.addr(first.start()) };
        purger.remote().try_reserve(count).map_err(|_| (0, no_memory))?;
        for (index, area) in areas.clone().enumerate() {
            if let Err(cause) = self.retire_reserved(area) {
                let mut map = self.areas.map();
                areas.take(index).for_each(|area| _ = self.sure(map.revive(area.start())));
                return Err((index, cause));
            }
        }
        let mut pages = 0;
        for area in areas {
            self.areas.forget_annotation(area.start());
            purger.remote().push(area);
            pages += area.len();
        }
        let total = self.count_taken(count as u64, pages);
        drop(purger);
        self.trigger_drain(Trigger { total, added: pages, is_first: total == pages });
        if self.config.trap_on_free {
            // A refusal stays with the purger, as after any free.
            let _ = self.purge_with(PurgePlan::FLUSH);
        }
        Ok(())
    }
}

impl<P: Platform> Space<P> {
    /// Takes a reserved area of exactly these pages out of use. It keeps its annotation so far.
    fn retire_reserved(&self, area: PageRange) -> Result<(), FreeError> {
        let page = area.start();
        let table = self.areas.table(page);
        let is_reserved = table.get(&page).is_some_and(|known| known.kind == Kind::Reserved);
        let mut map = self.areas.map();
        let retired = map.retire_area(page, |found| is_reserved && found == area);
        retired.map(|_| ()).map_err(|error| FreeError::of(error, self.shift()))
    }
}
