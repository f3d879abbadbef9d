//! Congruent areas of a space: per-CPU memory.
//!
//! A group of areas at the same distances from one base
//! ([`AreaMap::alloc_congruent`](crate::AreaMap::alloc_congruent)). It is placed from the top of the
//! space, away from everything that is placed lowest first. A group is made whole or not at all,
//! and freed in the same way:
//!
//! ```text
//!   get    claim all areas, under the map's lock ─► an annotation for each ──no memory──► forget the annotations, free the areas
//!   free   retire each, with its annotation in hand ──one is not what it should be──► revive those before it
//!             └─ all retired ─► forget the annotations ─► lazy, as any area
//! ```
//!
//! No other thread finds an area that is retired and on no list. So a group that is being looked at
//! is not lost to it. Of two threads that free the same group, one gets an error.

use super::{Raw, Space};
use crate::PageRange;
use crate::areas::{Annotation, Kind};
use crate::cache::Trigger;
use crate::platform::Platform;
use crate::purge::PurgePlan;
use crate::{CongruentError, FreeError, PercpuError, PercpuFreeError};
use ::alloc::vec::Vec;

/// Offsets and sizes in bytes, of which each may still be wrong.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    offsets: &'a [usize],
    sizes: &'a [usize],
    shift: u32,
}

/// One area of a group, in pages.
struct Part {
    offset: u64,
    pages: u64,
}

impl<'a> Wanted<'a> {
    fn new(offsets: &'a [usize], sizes: &'a [usize], shift: u32) -> Result<Self, PercpuError> {
        let wanted = Self { offsets, sizes, shift };
        match (offsets.len(), sizes.len()) {
            (0, 0) => Err(CongruentError::NoAreas.into()),
            (offsets, sizes) if offsets != sizes => {
                Err(CongruentError::LengthsDiffer { offsets, sizes }.into())
            }
            _ => Ok(wanted),
        }
    }

    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn part(&self, index: usize) -> Result<Part, PercpuError> {
        let (offset, bytes, page) = (self.offsets[index], self.sizes[index], 1usize << self.shift);
        if offset & (page - 1) != 0 {
            return Err(PercpuError::OffsetNotPages { index, offset });
        }
        if bytes == 0 {
            return Err(CongruentError::ZeroSize { index }.into());
        }
        // No object is larger, and no address behind it.
        if bytes > isize::MAX as usize || offset.checked_add(bytes).is_none() {
            return Err(CongruentError::Overflow { index }.into());
        }
        Ok(Part { offset: (offset >> self.shift) as u64, pages: bytes.div_ceil(page) as u64 })
    }

    /// Returns the area at `index` of a group at page `base`.
    fn range(&self, base: u64, index: usize) -> Result<PageRange, PercpuError> {
        let part = self.part(index)?;
        let start = base.checked_add(part.offset);
        let range = start.and_then(|start| PageRange::from_len(start, part.pages));
        range.ok_or(CongruentError::Overflow { index }.into())
    }
}

/// A group in pages.
struct Group {
    offsets: Vec<u64>,
    sizes: Vec<u64>,
    align: u64,
}

impl Group {
    fn check(wanted: Wanted<'_>, align: usize) -> Result<Self, PercpuError> {
        if !align.is_power_of_two() {
            return Err(CongruentError::AlignNotPowerOfTwo { align: align as u64 }.into());
        }
        if align >> wanted.shift == 0 {
            return Err(PercpuError::AlignNotPages { align });
        }
        let (mut offsets, mut sizes) = (Vec::new(), Vec::new());
        for list in [&mut offsets, &mut sizes] {
            list.try_reserve_exact(wanted.len()).map_err(|_| CongruentError::Metadata)?;
        }
        for index in 0..wanted.len() {
            let part = wanted.part(index)?;
            offsets.push(part.offset);
            sizes.push(part.pages);
        }
        Ok(Self { offsets, sizes, align: (align >> wanted.shift) as u64 })
    }

    /// Returns the area at `index` of the group made at page `base`, and its annotation.
    fn area(&self, base: u64, index: usize) -> (PageRange, Annotation) {
        let (start, pages) = (base + self.offsets[index], self.sizes[index]);
        let annotation = Annotation { kind: Kind::Percpu, guard_pages: 0, tag: None };
        (PageRange::of(start, start + pages), annotation)
    }
}

impl<P: Platform> Raw<'_, P> {
    /// Reserves one area for each of `sizes`, rounded up to pages, at `offsets` from one base,
    /// which is returned: the highest multiple of `align` from which all are free. All areas are
    /// made, or none. They have no guard pages and no memory: the caller maps its pages into them.
    /// The base itself need not lie in the space. Bytes throughout.
    ///
    /// When there is no room, everything freed is given back first, and the
    /// [notifiers](Space::register_notifier) are asked, as for [`alloc`](Self::alloc). Cost: see
    /// [`AreaMap::alloc_congruent`](crate::AreaMap::alloc_congruent).
    ///
    /// # Errors
    /// [`PercpuError`]; nothing is lost or changed.
    #[doc(alias = "pcpu_get_vm_areas")]
    pub fn alloc_congruent(
        &self,
        offsets: &[usize],
        sizes: &[usize],
        align: usize,
    ) -> Result<usize, PercpuError> {
        let group = Group::check(Wanted::new(offsets, sizes, self.shift())?, align)?;
        self.balance();
        let base = self.claim_group(&group)?;
        self.hand_out_group(&group, base)?;
        Ok(self.addr(base))
    }

    /// Frees what [`alloc_congruent`](Self::alloc_congruent) returned `base` for, with the same
    /// offsets and sizes, in any order. Memory that was mapped there is unmapped by the next purge,
    /// and the addresses are flushed before reuse.
    ///
    /// # Safety
    /// Nothing uses the areas any more, nor what is mapped there: their owner calls this, once.
    ///
    /// # Errors
    /// [`PercpuFreeError`] when one of the areas is not what it should be; nothing is changed.
    #[doc(alias = "pcpu_free_vm_areas")]
    pub unsafe fn free_congruent(
        &self,
        base: usize,
        offsets: &[usize],
        sizes: &[usize],
    ) -> Result<(), PercpuFreeError> {
        let wanted = Wanted::new(offsets, sizes, self.shift())?;
        let base = self.page(base).map_err(|cause| PercpuFreeError::Area { index: 0, cause })?;
        let mut purger = self.purger.lock();
        if purger.remote().try_reserve(wanted.len()).is_err() {
            return Err(PercpuError::from(CongruentError::Metadata).into());
        }
        for index in 0..wanted.len() {
            if let Err(error) = self.retire_part(&wanted, base, index) {
                self.revive_parts(&wanted, base, index);
                return Err(error);
            }
        }
        let mut pages = 0;
        for index in 0..wanted.len() {
            let area = wanted.range(base, index)?;
            self.areas.forget_annotation(area.start());
            purger.remote().push(area);
            pages += area.len();
        }
        let total = self.count_taken(wanted.len() as u64, pages);
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
    fn claim_group(&self, group: &Group) -> Result<u64, CongruentError> {
        match self.try_claim_group(group) {
            Err(CongruentError::NoSpace(mut refusal)) => {
                let claimed = self.until_room(refusal.pages, || match self.try_claim_group(group) {
                    Err(CongruentError::NoSpace(again)) => {
                        refusal = again;
                        None
                    }
                    result => Some(result),
                });
                claimed.unwrap_or(Err(refusal.into()))
            }
            result => result,
        }
    }

    fn try_claim_group(&self, group: &Group) -> Result<u64, CongruentError> {
        let mut map = self.areas.map();
        let base = map.alloc_congruent(&group.offsets, &group.sizes, group.align, None)?;
        group.offsets.iter().for_each(|offset| map.leaf(base + offset).withhold(base + offset));
        Ok(base)
    }

    /// Makes the areas busy, with their annotations; if memory is short, they are taken back.
    fn hand_out_group(&self, group: &Group, base: u64) -> Result<(), PercpuError> {
        for index in 0..group.sizes.len() {
            let (area, annotation) = group.area(base, index);
            match self.areas.annotate(area, annotation) {
                Some(true) => {}
                Some(false) => self.platform.fatal(&"a claimed area is busy"),
                None => return Err(self.take_back(group, base, index)),
            }
        }
        Ok(())
    }

    /// Takes a group back of which `made` areas are busy.
    #[cold]
    fn take_back(&self, group: &Group, base: u64, made: usize) -> PercpuError {
        for index in 0..group.sizes.len() {
            let (area, annotation) = group.area(base, index);
            if index < made {
                self.give_up(area, annotation);
            } else {
                self.sure(self.areas.release(&[area]));
            }
        }
        CongruentError::Metadata.into()
    }

    /// Takes the area at `index` out of use, if it is one of these. It keeps its annotation so far.
    fn retire_part(&self, wanted: &Wanted<'_>, base: u64, index: usize) -> Result<(), PercpuFreeError> {
        let asked = wanted.range(base, index)?;
        let page = asked.start();
        let table = self.areas.table(page);
        let is_percpu = table.get(&page).is_some_and(|annotation| annotation.kind == Kind::Percpu);
        let mut map = self.areas.map();
        match map.find(page).filter(|area| area.start() == page) {
            Some(_) if !is_percpu => {
                let cause = FreeError::WrongKind { page };
                return Err(PercpuFreeError::Area { index, cause });
            }
            Some(area) if area != asked => return Err(PercpuFreeError::Size { index, asked, area }),
            // If there is none, retiring it tells why.
            _ => {}
        }
        map.retire(page).map(|_| ()).map_err(|cause| PercpuFreeError::Area { index, cause: cause.into() })
    }

    /// Puts the areas before `end` back in use, which were just retired.
    fn revive_parts(&self, wanted: &Wanted<'_>, base: u64, end: usize) {
        let mut map = self.areas.map();
        for range in (0..end).filter_map(|index| wanted.range(base, index).ok()) {
            self.sure(map.revive(range.start()));
        }
    }
}
