//! The ends of areas.

use crate::oracle::{Area, Shown, What, facts};
use crate::player::{Player, short};
use vmalloc::{DirectMemory, Frame, FreeError, MapFrames, Platform, Space};
use vmalloc_short::UnmapError;

/// Ends mappings, and gives frames back.
pub(crate) struct End<P: Platform> {
    unmap: fn(&Space<P>, &Area) -> Result<(), FreeError>,
    pub(crate) give: fn(&Space<P>, &[Frame]),
}

impl<P: Platform> Clone for End<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for End<P> {}

impl<P: Platform> End<P> {
    /// For platforms without frames.
    pub(crate) fn base() -> Self {
        let unmap = |space: &Space<P>, area: &Area| {
            // SAFETY: the player owns the area, and nothing uses it any more.
            unsafe { space.raw().remove(area.addr) }.map(drop)
        };
        Self { unmap, give: |_, frames| assert!(frames.is_empty()) }
    }

    /// For platforms with frames.
    pub(crate) fn of_frames() -> Self
    where
        P: MapFrames,
    {
        let unmap = |space: &Space<P>, area: &Area| {
            // SAFETY: the player owns the area, and nothing uses it any more.
            unsafe {
                match area.what {
                    What::Mapping(_) => space.raw().unmap(area.addr),
                    What::Short => short(space).unmap(area.addr, area.pages.len()).map_err(free_error),
                    _ => space.raw().unreserve(area.addr),
                }
            }
        };
        let give = |space: &Space<P>, frames: &[Frame]| {
            // SAFETY: the player took them, and nothing leads to them any more.
            unsafe { space.platform().give_frames(frames) };
        };
        Self { unmap, give }
    }
}

/// Returns the error of a mapping that is ended whole.
fn free_error(error: UnmapError) -> FreeError {
    match error {
        UnmapError::Free(error) => error,
        error => panic!("{error}"),
    }
}

impl<P: Platform> Player<'_, P> {
    /// Frees an area.
    pub(crate) fn free_any(&mut self) {
        if let Some(nth) = self.any(|_| true) {
            self.check_area(nth);
            self.free_area(nth);
        }
    }

    /// Frees an area in one of the ways that there are for its kind.
    pub(crate) fn free_area(&mut self, nth: usize) {
        let area = self.oracle.areas.swap_remove(nth);
        let (late, before) = (self.space.stats().late_frees, self.failed());
        let way = self.below(8);
        let freed = if let What::Percpu(base) = area.what {
            return self.free_group(area, base);
        } else {
            self.call(|_| self.end(&area, way))
        };
        self.tell(format_args!("{:?} at {:#x}, way {way}: {freed:?}", area.what, area.addr));
        if let Err(FreeError::NoMemory { .. }) = freed {
            self.excuse_any(before);
            return self.oracle.areas.push(area);
        }
        freed.unwrap_or_else(|error| panic!("{error}: {area:x?}"));
        let is_alone = self.oracle.areas.iter().all(|other| other.addr != area.addr);
        if area.what.kind().is_none() && is_alone && !self.is_shared {
            assert!(self.end(&area, way).is_err(), "it was ended twice: {area:x?}");
        }
        self.gone(&area, way == 0);
        let traps = self.space.options().trap_on_free && area.what.kind().is_some();
        if traps && !self.is_shaky && self.space.stats().late_frees == late {
            self.check_freed(self.oracle.payload(&area));
        }
    }

    fn end(&self, area: &Area, way: usize) -> Result<(), FreeError> {
        let (raw, addr) = (self.space.raw(), area.addr);
        // SAFETY: the player owns the area, and nothing uses it any more: here and below.
        unsafe {
            match area.what {
                What::Slots => {
                    short(&self.space).unreserve(addr, area.pages.len() as u64).map_err(free_error)
                }
                What::Short => (self.program.end.unmap)(&self.space, area),
                _ if way == 0 => {
                    let info = self.oracle.info(area);
                    raw.remove(addr).map(|removed| assert_eq!(Some(facts(&removed)), info))
                }
                What::Reserved => raw.unreserve(addr),
                What::Memory if way == 1 && raw.free_to_node(addr) => Ok(()),
                _ if area.what.is_freed() && way == 2 => raw.free_altered(addr),
                _ if area.what.is_freed() => raw.free(addr),
                _ => (self.program.end.unmap)(&self.space, area),
            }
        }
    }

    /// Notes that an area was freed, of whose frames the platform was told or not.
    pub(super) fn gone(&mut self, area: &Area, is_untold: bool) {
        self.oracle.note_freed_area(area);
        let may_lead = match area.what {
            What::Short => area.is_beyond_blocks(What::Short) && self.oracle.is_inside(area),
            What::Mapping(_) => is_untold,
            _ => true,
        };
        if may_lead {
            self.oracle.linger(&area.pages);
        }
    }

    /// Frees all areas of a group, of which this is one.
    fn free_group(&mut self, area: Area, base: usize) {
        let group = self.oracle.groups.remove(&base).expect("it was made");
        // SAFETY: the player owns the group, and nothing uses it any more.
        let freed =
            self.call(|space| unsafe { vmalloc_percpu::free(space, base, &group.offsets, &group.sizes) });
        self.tell(format_args!("a group at {base:#x}: {freed:?}"));
        freed.unwrap_or_else(|error| panic!("{error}: {group:x?}"));
        let all = std::mem::take(&mut self.oracle.areas);
        let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|other| other.what == area.what);
        self.oracle.areas = kept;
        gone.iter().chain([&area]).for_each(|area| self.gone(area, false));
    }
}

/// Frees memory as an interrupt would.
pub(super) fn free_atomic<P: DirectMemory>(player: &mut Player<'_, P>) {
    let Some(nth) = player.any(|area| area.what.is_freed()) else { return };
    player.check_area(nth);
    let addr = player.oracle.areas[nth].addr;
    // SAFETY: the player owns the area, and nothing uses it any more.
    let freed = player.call(|space| unsafe { space.raw().free_atomic(addr) });
    player.tell(format_args!("{addr:#x} atomically: {freed:?}"));
    match freed {
        Ok(()) => {
            let area = player.oracle.areas.swap_remove(nth);
            player.gone(&area, true);
        }
        // The list for it is full: nothing was changed.
        Err(FreeError::Contended { .. }) => {
            player.check_counts();
            player.free_area(nth);
        }
        Err(error) => panic!("{error}"),
    }
}

impl crate::oracle::Oracle {
    /// Something may lead to the frames of these pages until the next flush.
    pub(super) fn linger(&mut self, pages: &[Shown]) {
        let frames = pages.iter().filter_map(|shown| match shown {
            Shown::Frame(frame) => Some(*frame),
            _ => None,
        });
        self.lingering.extend(frames);
    }

    fn note_freed_area(&mut self, area: &Area) {
        self.note_freed(self.payload(area));
    }
}
