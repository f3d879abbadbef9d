//! A4 `vmalloc`: the product, over a platform without memory.

use crate::design::{Ask, Counts, Design, PAGE_SHIFT, Refusal, Segment, Setup, State};
use crate::lock::{Sleep, Spin};
use crate::null::{ByCallers, Cpus, NullPlatform, Unmapped};
use std::collections::HashSet;
use vmalloc::area_map::State as MapState;
use vmalloc::{AllocError, PageRange, Platform, Request, Space, SpaceOptions};
use vmalloc_percpu::{CongruentError, CongruentFreeError};

/// The treatment of a freed area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// It is unmapped, flushed, and then reusable.
    AfterFlush,
    /// It is reusable at once, within the default budget.
    AsItIs,
}

/// The platform with the locks of the lab.
pub(crate) type Addresses = NullPlatform<Spin, Cpus, ByCallers, Unmapped, Sleep>;

/// The product's space.
pub struct Ours {
    space: Space<Addresses>,
    reuse: Reuse,
}

impl Ours {
    /// An empty one.
    ///
    /// # Panics
    /// When memory for its metadata is short, or the set-up makes no sense.
    #[must_use]
    pub fn new(setup: &Setup, reuse: Reuse) -> Self {
        let options = SpaceOptions::default();
        let options = if reuse == Reuse::AfterFlush { options.unmap_on_free() } else { options };
        Self { space: space(setup, options), reuse }
    }
}

/// A space as every design of the lab is set up.
pub(crate) fn space(setup: &Setup, options: SpaceOptions) -> Space<Addresses> {
    let options = options.guard(false).lazy_max_pages(setup.lazy_max_pages).nodes(setup.cpus);
    let platform = NullPlatform::new(setup.span, Cpus(setup.cpus), ByCallers);
    Space::new(platform, options).expect("metadata for an empty space")
}

fn addr(page: u64) -> usize {
    (page << PAGE_SHIFT) as usize
}

fn page(addr: usize) -> u64 {
    addr as u64 >> PAGE_SHIFT
}

fn bytes(pages: &[u64]) -> Vec<usize> {
    pages.iter().map(|&pages| addr(pages)).collect()
}

fn request(ask: &Ask) -> Request {
    let request = Request::new(addr(ask.pages)).align(addr(ask.align));
    match ask.within {
        Some(within) => request.within(addr(within.start()), addr(within.end())),
        None => request,
    }
}

impl Design for Ours {
    fn name(&self) -> &'static str {
        match self.reuse {
            Reuse::AfterFlush => super::Name::Vmalloc.as_str(),
            Reuse::AsItIs => super::Name::VmallocCached.as_str(),
        }
    }

    fn span(&self) -> PageRange {
        self.space.platform().geometry().span
    }

    #[inline]
    fn alloc(&self, ask: &Ask) -> Result<u64, Refusal> {
        match self.space.raw().alloc(&request(ask)) {
            Ok(addr) => Ok(page(addr)),
            Err(AllocError::Request(_)) => Err(Refusal::Bad),
            Err(_) => Err(Refusal::NoSpace),
        }
    }

    #[inline]
    fn free(&self, start: u64) -> Result<(), Refusal> {
        // SAFETY: no memory is behind the area, so nothing can be using it.
        unsafe { self.space.raw().free(addr(start)) }.map_err(|_| Refusal::NotAnArea)
    }

    fn alloc_congruent(&self, offsets: &[u64], sizes: &[u64], align: u64) -> Result<u64, Refusal> {
        match vmalloc_percpu::alloc(&self.space, &bytes(offsets), &bytes(sizes), addr(align)) {
            Ok(base) => Ok(page(base)),
            Err(CongruentError::NoSpace(_) | CongruentError::Metadata) => Err(Refusal::NoSpace),
            Err(_) => Err(Refusal::Bad),
        }
    }

    fn free_congruent(&self, base: u64, offsets: &[u64], sizes: &[u64]) -> Result<(), Refusal> {
        // SAFETY: nothing uses the addresses any more.
        match unsafe { vmalloc_percpu::free(&self.space, addr(base), &bytes(offsets), &bytes(sizes)) } {
            Ok(()) => Ok(()),
            // Parts that overlap are no group that is there.
            Err(CongruentFreeError::Request(CongruentError::Overlap { .. })) => Err(Refusal::NotAnArea),
            Err(CongruentFreeError::Request(_)) => Err(Refusal::Bad),
            Err(_) => Err(Refusal::NotAnArea),
        }
    }

    fn purge(&self) {
        // The next purge frees the rest.
        let _ = self.space.drain().expect("this platform refuses nothing");
    }

    fn relieve(&self) {
        self.space.shrink(u64::MAX).expect("this platform refuses nothing");
    }

    fn settle(&self) {
        self.space.purge().expect("this platform refuses nothing");
    }

    fn counts(&self) -> Counts {
        let stats = self.space.stats();
        Counts {
            busy_areas: stats.busy_areas,
            busy_pages: stats.busy_pages,
            lazy_pages: stats.lazy_pages,
            pooled_pages: stats.pooled_pages + stats.cached_pages,
            free_pages: stats.free_pages,
            largest_free_pages: stats.largest_free_pages,
            purges: stats.purges,
            longest_hold_areas: stats.longest_hold_areas,
            missed_fits: 0,
            looked: 0,
            metadata_bytes: stats.metadata_bytes,
        }
    }

    fn lazy_pages(&self) -> u64 {
        self.space.stats().lazy_pages
    }

    fn free_pages(&self) -> Option<u64> {
        Some(self.space.stats().free_pages)
    }

    fn segments(&self) -> Vec<Segment> {
        let kept: HashSet<u64> = self.space.cached().map(|(area, _)| area.start()).collect();
        let state = |segment: &vmalloc::area_map::Segment| match segment.state {
            MapState::Free => State::Free,
            MapState::Busy => State::Busy,
            MapState::Retired if kept.contains(&segment.range.start()) => State::Pooled,
            MapState::Retired => State::Lazy,
        };
        self.space
            .segments()
            .map(|segment| Segment { range: segment.range, state: state(&segment) })
            .collect()
    }

    fn verify(&self) -> Result<(), String> {
        self.space.verify().map_err(|violation| violation.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_tell_busy_lazy_pooled_and_free() {
        for (reuse, freed, after) in
            [(Reuse::AfterFlush, State::Lazy, State::Pooled), (Reuse::AsItIs, State::Pooled, State::Pooled)]
        {
            let span = PageRange::new(1, 100_001).expect("a span");
            let ours = Ours::new(&Setup::with_cpus(1).span(span), reuse);
            let [kept, gone] = [3, 5].map(|pages| ours.alloc(&Ask::new(pages)).expect("space"));
            ours.free(gone).expect("an area");
            assert_eq!(ours.free(gone), Err(Refusal::NotAnArea));
            let state_at =
                |page| ours.segments().into_iter().find(|it| it.range.start() == page).map(|it| it.state);
            assert_eq!((state_at(kept), state_at(gone)), (Some(State::Busy), Some(freed)));
            ours.purge();
            assert_eq!(state_at(gone), Some(after));
            assert_eq!(ours.segments().iter().map(|it| it.range.len()).sum::<u64>(), 100_000);
            let base = ours.alloc_congruent(&[0, 16], &[2, 3], 4).expect("space");
            assert_eq!(ours.free_congruent(base, &[0, 16], &[2, 3]), Ok(()));
            ours.free(kept).expect("an area");
            ours.settle();
            assert_eq!(ours.segments(), [Segment { range: span, state: State::Free }]);
            ours.verify().expect("whole");
        }
    }
}
