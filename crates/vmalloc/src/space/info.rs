//! What a space tells of itself: one area, all areas, and the counts.

use super::state::{Note, State};
use super::{Kind, Space};
use crate::addr::PageRange;
use crate::area_map::State as SegmentState;
use crate::platform::{Platform, Translate};
use core::fmt;

/// What is known of a busy area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AreaInfo {
    /// Its first address.
    pub addr: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Pages, the guard not counted.
    pub pages: u64,
    /// Whether a guard page follows.
    pub guard: bool,
    /// What it is for.
    pub kind: Kind,
    /// The caller's tag.
    pub tag: Option<&'static str>,
}

/// Counts of a space: pages unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Pages of the whole span: the sum of free, busy, lazy and retained ones.
    pub span_pages: u64,
    /// Areas handed out.
    pub busy_areas: u64,
    /// Pages handed out, guards included.
    pub busy_pages: u64,
    /// Areas freed and not yet purged.
    pub lazy_areas: u64,
    /// Pages freed and not yet purged.
    pub lazy_pages: u64,
    /// Areas freed that keep their pages.
    pub retained_areas: u64,
    /// Pages of areas freed that keep their pages.
    pub retained_pages: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
    /// Sets purged so far: each was one unmap and one flush.
    pub purges: u64,
    /// Areas purged so far.
    pub purged_areas: u64,
    /// The most areas that a purge moved or gave back under one hold of the lock.
    pub longest_hold_areas: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
}

impl State {
    fn info(&self, area: PageRange, shift: u32, guards: bool) -> AreaInfo {
        let plain = Note { kind: Kind::Vmalloc, guard_pages: u64::from(guards), slack: 0, tag: None };
        let note = self.notes.get(&area.start()).unwrap_or(&plain);
        let pages = area.len() - note.guard_pages;
        AreaInfo {
            addr: (area.start() << shift) as usize,
            bytes: ((pages << shift) - u64::from(note.slack)) as usize,
            pages,
            guard: note.guard_pages != 0,
            kind: note.kind,
            tag: note.tag,
        }
    }
}

impl<P: Platform> Space<P> {
    /// The area that holds `addr`, which may be anywhere inside it, guard page included. O(1) for areas of up to
    /// 256 pages, O(log n) for larger ones.
    pub fn find(&self, addr: usize) -> Option<AreaInfo> {
        self.find_in(&self.state.lock(), addr)
    }

    /// As [`find`](Self::find) but never waits: for profilers and crash dumps, which may run at any moment.
    ///
    /// # Errors
    /// [`Busy`] when the lock is held, perhaps by the very thread that was interrupted.
    pub fn try_find(&self, addr: usize) -> Result<Option<AreaInfo>, Busy> {
        self.state.try_lock().map(|state| self.find_in(&state, addr)).ok_or(Busy)
    }

    fn find_in(&self, state: &State, addr: usize) -> Option<AreaInfo> {
        let area = state.map.find((addr >> self.shift) as u64)?;
        Some(state.info(area, self.shift, self.config.guard))
    }

    /// The busy areas in address order. The lock is taken anew for every step: areas that come or go meanwhile
    /// may or may not be seen, and nobody waits for the walk. O(areas and free ranges) in all.
    pub fn areas(&self) -> Areas<'_, P> {
        Areas { space: self, page: self.platform.span().start() }
    }

    /// The areas as text, a line each in the manner of Linux's `/proc/vmallocinfo`: range with guard page, size with guard
    /// page, tag, pages, kind.
    pub fn vmallocinfo(&self) -> Vmallocinfo<'_, P> {
        Vmallocinfo { space: self }
    }

    /// The counts. O(1).
    pub fn stats(&self) -> Stats {
        let state = self.state.lock();
        let notes = state.notes.allocation_size() as u64;
        let lists = (state.lazy.capacity() + state.stuck.capacity()) as u64 * size_of::<PageRange>() as u64;
        let records = state.map.metadata_bytes() as u64 + state.retained.bytes() as u64;
        Stats {
            span_pages: self.platform.span().len(),
            busy_areas: state.busy_areas,
            busy_pages: state.busy_pages,
            lazy_areas: state.lazy_areas,
            lazy_pages: state.lazy_pages,
            retained_areas: state.retained.areas(),
            retained_pages: state.retained.pages(),
            free_pages: state.map.free_pages(),
            largest_free_pages: state.map.largest_free(),
            purges: state.purges,
            purged_areas: state.purged_areas,
            longest_hold_areas: state.longest_hold,
            metadata_bytes: records + lists + notes,
        }
    }
}

impl<P: Translate> Space<P> {
    /// The physical frame behind `addr`, anywhere inside an area; `None` outside areas, on guard pages, where no
    /// page is yet, and where the machine does not tell.
    pub fn vmalloc_to_page(&self, addr: usize) -> Option<u64> {
        let area = self.find(addr)?;
        let page = (addr >> self.shift) as u64;
        let payload = PageRange::from_len((area.addr >> self.shift) as u64, area.pages)?;
        if area.kind == Kind::Vmalloc && payload.contains(page) { self.platform.frame(page) } else { None }
    }
}

/// Somebody holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the space's lock is held")
    }
}

impl core::error::Error for Busy {}

/// The busy areas of a space, in address order.
pub struct Areas<'a, P: Platform> {
    space: &'a Space<P>,
    page: u64,
}

/// Segments passed over under one hold of the lock.
const STEP: usize = 32;

impl<P: Platform> Iterator for Areas<'_, P> {
    type Item = AreaInfo;

    fn next(&mut self) -> Option<AreaInfo> {
        let space = self.space;
        while space.platform.span().contains(self.page) {
            let state = space.state.lock();
            for segment in state.map.segments_from(self.page).take(STEP) {
                self.page = segment.range.end();
                if segment.state == SegmentState::Busy {
                    return Some(state.info(segment.range, space.shift, space.config.guard));
                }
            }
        }
        None
    }
}

/// The areas of a space as text.
pub struct Vmallocinfo<'a, P: Platform> {
    space: &'a Space<P>,
}

impl<P: Platform> fmt::Display for Vmallocinfo<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for area in self.space.areas() {
            let bytes = ((area.pages + u64::from(area.guard)) << self.space.shift) as usize;
            let kind = match area.kind {
                Kind::Vmalloc => "vmalloc",
                Kind::Reserved => "reserved",
            };
            let tag = area.tag.unwrap_or("-");
            let (start, end, pages) = (area.addr, area.addr + bytes, area.pages);
            writeln!(f, "{start:#018x}-{end:#018x} {bytes:7} {tag} pages={pages} {kind}")?;
        }
        Ok(())
    }
}
