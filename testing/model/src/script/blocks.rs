//! Blocks of short mappings against a list of those that are there.

use crate::source::{Bytes, Source};
use crate::space::{Call, NullPlatform};
use std::collections::BTreeMap;
use vmalloc::{AllocError, Config, FreeError, PageRange, Request, Space};

const PAGE: usize = 1 << NullPlatform::PAGE_SHIFT;

/// One byte chooses the machine and the policy, the rest is the program: mappings made and ended on
/// several CPUs, of addresses alone or of frames, with ordinary areas, purges and failures of the
/// platform between them.
pub fn blocks(input: &[u8]) {
    let [choice, program @ ..] = input else { return };
    let mut player = Player::new(*choice, Bytes::new(program));
    while !player.source.is_exhausted() {
        player.step();
    }
    player.finish();
}

/// A live mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mapped {
    Addresses,
    Frames,
}

struct Player<'a> {
    space: Space<NullPlatform>,
    source: Bytes<'a>,
    mapped: Mapped,
    /// Pages of each mapping, by its first page.
    live: BTreeMap<u64, u64>,
    areas: Vec<usize>,
    /// The mapping ended last.
    last: Option<(u64, u64)>,
    steps: usize,
}

impl<'a> Player<'a> {
    fn new(choice: u8, source: Bytes<'a>) -> Self {
        let span = PageRange::from_len(0x1003, 1 << (10 + choice % 5)).expect("not empty");
        let slots = [0, 64, 256, 1024][usize::from(choice / 15 % 4)];
        let mapped = if choice >= 128 { Mapped::Frames } else { Mapped::Addresses };
        let config = Config::default().block_slots(slots).lazy_max_pages(u64::from(choice % 7) * 100);
        let space = Space::new(NullPlatform::new(span, 3), config).expect("an empty space");
        let (live, areas, last) = Default::default();
        Self { space, source, mapped, live, areas, last, steps: 0 }
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.source.below(16) {
            0..6 => self.map(),
            6..10 => self.unmap(),
            10 => self.space.platform().move_to(self.source.below(3) as usize),
            11 => self.misuse(),
            12 => self.area(),
            13 => self.purge(),
            14 => self.fail(),
            _ => self.unmap_many(),
        }
        if self.steps.is_multiple_of(32) {
            self.verify();
        }
    }

    fn map(&mut self) {
        let pages =
            if self.source.chance(24) { self.source.between(1, 90) } else { self.source.magnitude(0, 4) };
        let made = match self.mapped {
            Mapped::Addresses => self.space.raw().reserve_short(pages),
            Mapped::Frames => {
                let frames: Vec<_> = (0..pages).map(|nth| vmalloc::Frame(7 * nth)).collect();
                self.space.raw().map_short(&frames)
            }
        };
        match made {
            Ok(addr) => self.enter(addr, pages),
            Err(AllocError::NoSpace(_) | AllocError::Unbacked(_)) => {}
            Err(error) => panic!("{pages} pages: {error}"),
        }
    }

    fn enter(&mut self, addr: usize, pages: u64) {
        let page = (addr / PAGE) as u64;
        let range = PageRange::from_len(page, pages).expect("not empty");
        assert!(addr.is_multiple_of(PAGE) && self.space.geometry().span.covers(&range));
        let before = self.live.range(..range.end()).next_back();
        assert!(before.is_none_or(|(start, pages)| start + pages <= page), "{range:?} is mapped twice");
        if self.mapped == Mapped::Frames {
            assert!(self.space.platform().is_mapped(range), "{range:?} is not mapped");
        }
        assert!(self.space.find(addr).is_some(), "{range:?} is in no area");
        self.live.insert(page, pages);
    }

    /// Returns a live mapping, if there is any.
    fn some(&mut self) -> Option<(u64, u64)> {
        let nth = self.source.below(self.live.len().max(1) as u64) as usize;
        self.live.iter().nth(nth).map(|(page, pages)| (*page, *pages))
    }

    #[allow(unsafe_code)]
    fn end(&self, page: u64, pages: u64) -> Result<(), FreeError> {
        let addr = page as usize * PAGE;
        match self.mapped {
            // SAFETY: nothing uses the addresses any more.
            Mapped::Addresses => unsafe { self.space.raw().unreserve_short(addr, pages) },
            // SAFETY: nothing stands behind this platform's addresses.
            Mapped::Frames => unsafe { self.space.raw().unmap_short(addr, pages as usize) },
        }
    }

    fn unmap(&mut self) {
        let Some((page, pages)) = self.some() else { return };
        self.unmap_this(page, pages);
    }

    fn unmap_this(&mut self, page: u64, pages: u64) {
        self.end(page, pages).unwrap_or_else(|error| panic!("{pages} pages at {page:#x}: {error}"));
        self.live.remove(&page);
        self.last = Some((page, pages));
    }

    /// Unmaps a stretch of them.
    fn unmap_many(&mut self) {
        let Some((first, _)) = self.some() else { return };
        let count = self.source.below(64) as usize;
        let gone: Vec<_> =
            self.live.range(first..).take(count).map(|(page, pages)| (*page, *pages)).collect();
        gone.iter().for_each(|(page, pages)| self.unmap_this(*page, *pages));
    }

    /// Makes calls that have to be refused.
    fn misuse(&mut self) {
        let Some((page, pages)) = self.some() else { return };
        let given = self.source.between(1, 70);
        let wrong = Err(FreeError::WrongCount { page, mapped: pages, given });
        if given != pages {
            let ended = self.end(page, given);
            // The longest of a block have 64 pages: what is longer is looked for among areas.
            assert!(ended == wrong || given > 64 && ended.is_err(), "{given} pages at {page:#x}: {ended:?}");
        }
        if !self.live.contains_key(&(page + 1)) {
            assert!(self.end(page + 1, given).is_err(), "nothing begins at {:#x}", page + 1);
        }
        if let Some((page, pages)) = self.last.filter(|(page, _)| !self.live.contains_key(page)) {
            assert!(self.end(page, pages).is_err(), "ended twice: {pages} pages at {page:#x}");
        }
    }

    /// An ordinary area comes, or all go: they take addresses that blocks might have.
    fn area(&mut self) {
        if self.areas.len() < 8 {
            let pages = self.source.magnitude(0, 9) as usize;
            self.areas.extend(self.space.raw().reserve(&Request::new(pages * PAGE)));
            return;
        }
        self.free_areas();
    }

    #[allow(unsafe_code)]
    fn free_areas(&mut self) {
        for addr in self.areas.drain(..) {
            // SAFETY: nothing uses the addresses any more.
            unsafe { self.space.raw().unreserve(addr) }.expect("it is there");
        }
    }

    fn purge(&mut self) {
        // An error is the platform's, on request.
        let _ = match self.source.below(4) {
            0 => self.space.purge(),
            1 => self.space.decay(),
            2 => self.space.flush(),
            _ => self.space.drain().map(|_| ()),
        };
    }

    fn fail(&mut self) {
        let call = [Call::Map, Call::Unmap, Call::Flush][self.source.below(3) as usize];
        self.space.platform().fail_nth(call, self.source.between(1, 3));
    }

    fn verify(&self) {
        self.space.verify().unwrap_or_else(|violation| panic!("step {}: {violation:?}", self.steps));
    }

    fn finish(mut self) {
        self.space.platform().heal();
        while let Some((&page, &pages)) = self.live.first_key_value() {
            self.unmap_this(page, pages);
        }
        self.free_areas();
        self.space.purge().expect("nothing fails any more");
        self.verify();
        let stats = self.space.stats();
        assert_eq!((stats.blocks, stats.busy_areas, stats.lazy_pages), (0, 0, 0));
        assert_eq!(stats.largest_free_pages, stats.span_pages);
        let platform = self.space.platform();
        assert_eq!((platform.mapped_pages(), platform.lingering_pages()), (0, 0));
    }
}
