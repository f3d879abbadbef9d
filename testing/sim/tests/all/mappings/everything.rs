//! An area of every kind, for tests of calls that are wrong for most of them.

use crate::mappings::support::{
    PAGE, devices, fill, free, free_sparse, give, shows, take, unmap_ram, vunmap,
};
use vmalloc::{Frame, FreeError, Protection, Request, Space};
use vmalloc_sim::Sim;

const RW: Protection = Protection::ReadWrite;

/// An area of every kind, in a space whose frames are these.
pub(crate) struct Everything {
    /// Some for the areas, and three in reserve.
    pub(crate) frames: Vec<Frame>,
    /// By address: what is there, and how many pages.
    pub(crate) areas: Vec<(usize, usize)>,
    pub(crate) words: Vec<Vec<u64>>,
    pub(crate) base: usize,
}

pub(crate) const OFFSETS: [usize; 2] = [0, 8 * PAGE];
pub(crate) const SIZES: [usize; 2] = [4 * PAGE, 4 * PAGE];
/// The index of each area.
pub(crate) const PLAIN: usize = 0;
pub(crate) const EXEC: usize = 1;
pub(crate) const USER: usize = 2;
pub(crate) const VMAP: usize = 3;
pub(crate) const IOMAP: usize = 4;
pub(crate) const SHOWN: usize = 5;
pub(crate) const SPARSE: usize = 6;
pub(crate) const SLOT: usize = 7;
pub(crate) const LARGE: usize = 8;
pub(crate) const RESERVED: usize = 9;

impl Everything {
    pub(crate) fn new(space: &Space<Sim>) -> Self {
        let frames = take(space, 80);
        let request = Request::new(4 * PAGE);
        let user = space.raw().alloc_shared(&request).expect("room");
        let sparse = space.raw().alloc_sparse(&request).expect("room");
        // SAFETY: nothing else maps there.
        unsafe { space.raw().map_pages(sparse, &frames[..2], RW) }.expect("room");
        let areas = vec![
            (space.raw().alloc(&request).expect("room"), 4),
            (space.raw().alloc_exec(&request).expect("room"), 4),
            (user, 4),
            (space.raw().map(&frames[2..6], RW, None).expect("room"), 4),
            (space.raw().map_device(&devices(4), RW, None).expect("room"), 4),
            (space.raw().map_shared(user, 4 * PAGE, RW, None).expect("room"), 4),
            (sparse, 2),
            (space.raw().map_short(&frames[6..10]).expect("room"), 4),
            (space.raw().map_short(&frames[10..77]).expect("room"), 67),
        ];
        let words = areas.iter().map(|&(addr, count)| fill(space, addr, count)).collect();
        let reserved = space.raw().reserve(&request).expect("room");
        let base = space.raw().alloc_congruent(&OFFSETS, &SIZES, PAGE).expect("room");
        let areas = areas.into_iter().chain([(reserved, 4)]).collect();
        Self { frames, areas, words, base }
    }

    pub(crate) fn addr(&self, which: usize) -> usize {
        self.areas[which].0
    }

    pub(crate) fn spare(&self) -> &[Frame] {
        &self.frames[77..]
    }

    /// Starts of areas but these.
    pub(crate) fn but(&self, which: &[usize]) -> Vec<usize> {
        let others = self.areas.iter().enumerate().filter(|(nth, _)| !which.contains(nth));
        others.map(|(_, &(addr, _))| addr).collect()
    }

    /// Everything is as it was, and is freed.
    pub(crate) fn end(self, space: &Space<Sim>) {
        for (nth, (&(addr, _), words)) in self.areas.iter().zip(&self.words).enumerate() {
            // Each page shows the value written last.
            shows(space, addr, if nth == USER { &self.words[SHOWN] } else { words });
        }
        [PLAIN, EXEC, USER].into_iter().for_each(|which| free(space, self.addr(which)));
        [VMAP, IOMAP, SHOWN].into_iter().for_each(|which| vunmap(space, self.addr(which)));
        [SLOT, LARGE].into_iter().for_each(|which| unmap_ram(space, self.addr(which), self.areas[which].1));
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().unreserve(self.addr(RESERVED)) }.expect("reserved");
        free_sparse(space, self.addr(SPARSE));
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().free_congruent(self.base, &OFFSETS, &SIZES) }.expect("made");
        space.purge().expect("nothing fails");
        give(space, &self.frames);
    }
}

/// Returns addresses at which nothing begins.
pub(crate) fn nowhere(space: &Space<Sim>, all: &Everything) -> Vec<usize> {
    let span = space.geometry().span;
    let inside = all.areas.iter().flat_map(|&(addr, _)| [addr + 1, addr + PAGE, addr + PAGE / 2]);
    let outside = [0, 1, PAGE, usize::MAX, usize::MAX & !(PAGE - 1), (span.start() as usize - 1) * PAGE];
    let free = (span.end() as usize - 40) * PAGE;
    inside.chain(outside).chain([span.end() as usize * PAGE, free]).collect()
}

pub(crate) type Free = fn(&Space<Sim>, usize) -> Result<(), FreeError>;

/// The calls that free by address alone, and the areas that each is for.
pub(crate) const FREES: [(&str, Free, &[usize]); 4] = [
    // SAFETY: what is freed is the test's, and nothing uses it: here and below.
    ("free", |space, addr| unsafe { space.raw().free(addr) }, &[PLAIN, EXEC, USER]),
    // SAFETY: as above.
    ("vunmap", |space, addr| unsafe { space.raw().unmap(addr) }, &[VMAP, IOMAP, SHOWN]),
    // SAFETY: as above.
    ("free_sparse", |space, addr| unsafe { space.raw().free_sparse(addr) }, &[SPARSE]),
    // SAFETY: nothing uses the addresses any more.
    ("unreserve", |space, addr| unsafe { space.raw().unreserve(addr) }, &[RESERVED]),
];
