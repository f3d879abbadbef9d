//! A model that uses a space in every way, and knows what each of its pages shows.

mod make;

use crate::mappings::support::{
    PAGE, finish, free, free_sparse, give, page, pages, unchanged, unmap_ram, vunmap,
};
use std::collections::{BTreeMap, BTreeSet};
use vmalloc::{AreaError, Frame, FrameSupply, Protection, Space};
use vmalloc_model::{Seeded, Source};
use vmalloc_sim::harness::check;
use vmalloc_sim::{Point, Sim};

const RW: Protection = Protection::ReadWrite;
/// Frames that the user has at most, and areas.
const MOST_FRAMES: usize = 200;
const MOST_AREAS: usize = 40;

/// A holder of a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cell {
    Frame(Frame),
    /// A page of memory that no other address shows, by a number of its own.
    Own(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Memory,
    User,
    Exec,
    Vmap,
    Device,
    /// Of the area of user memory with this number.
    Shown(u64),
    Ram,
    Sparse,
    Percpu,
    Reserved,
}

#[derive(Clone, Debug)]
struct Area {
    id: u64,
    addr: usize,
    what: What,
    protection: Protection,
    /// The cell that each page shows.
    cells: Vec<Option<Cell>>,
}

impl Area {
    fn page(&self, nth: usize) -> u64 {
        page(self.addr) + nth as u64
    }
}

pub(crate) struct User {
    space: Space<Sim>,
    source: Seeded,
    areas: Vec<Area>,
    taken: Vec<Frame>,
    /// Frames that something may lead to until the next purge.
    lingering: BTreeSet<Frame>,
    words: BTreeMap<Cell, u64>,
    next: u64,
    done: BTreeMap<&'static str, u64>,
}

impl User {
    pub(crate) fn new(space: Space<Sim>, seed: u64) -> Self {
        let names =
            ["made", "refused", "freed", "written", "read", "mapped", "unmapped", "given", "protected"];
        let done = names.into_iter().map(|name| (name, 0)).collect();
        let (areas, taken, lingering, words) = Default::default();
        Self { space, source: Seeded::new(seed), areas, taken, lingering, words, next: 1, done }
    }

    /// Returns how often each operation was done.
    pub(crate) fn done(&self) -> Vec<(&'static str, u64)> {
        self.done.iter().map(|(&name, &times)| (name, times)).collect()
    }

    fn count(&mut self, name: &'static str) {
        *self.done.entry(name).or_default() += 1;
    }

    pub(crate) fn check(&self) {
        check(&self.space);
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn below(&mut self, bound: usize) -> usize {
        self.source.below(bound as u64) as usize
    }

    fn any_cpu(&mut self) -> usize {
        self.below(self.space.geometry().cpus)
    }

    /// Returns an area that is one of these.
    fn any(&mut self, is: impl Fn(&Area) -> bool) -> Option<usize> {
        let fit: Vec<usize> = (0..self.areas.len()).filter(|&nth| is(&self.areas[nth])).collect();
        (!fit.is_empty()).then(|| fit[self.below(fit.len())])
    }

    pub(crate) fn step(&mut self) {
        Sim::run_on(self.any_cpu());
        match self.below(32) {
            0..6 if self.areas.len() < MOST_AREAS => self.make(),
            0..9 => _ = self.free(),
            9 => self.take(),
            10 => self.give(),
            11 | 12 => _ = self.map_pages(),
            13 => _ = self.unmap_pages(),
            14 => self.purge(),
            15 => _ = self.protect(),
            16 => _ = self.misuse(),
            17 | 18 => _ = self.vread(),
            19 => self.speculate(),
            20..25 => _ = self.write(),
            _ => _ = self.read(),
        }
    }

    /// Some of the user's frames, again and again perhaps.
    fn choose(&mut self, count: usize) -> Option<Vec<Frame>> {
        (!self.taken.is_empty()).then(|| {
            let start = self.below(self.taken.len());
            let shuffled = self.source.chance(128);
            let nth =
                |user: &mut Self, nth| if shuffled { user.below(user.taken.len()) } else { start + nth };
            (0..count)
                .map(|n| {
                    let at = nth(self, n);
                    self.taken[at % self.taken.len()]
                })
                .collect()
        })
    }

    fn pages_of(&mut self) -> usize {
        match self.below(8) {
            0 => 65 + self.below(30),
            1 => 1 + self.below(64),
            _ => 1 + self.below(9),
        }
    }

    /// Compares every page of an area, on some CPU.
    fn look(&mut self, area: &Area) {
        let cpu = self.any_cpu();
        (0..area.cells.len()).for_each(|nth| self.read_page(cpu, area, nth));
    }

    fn read_page(&mut self, cpu: usize, area: &Area, nth: usize) {
        let found = self.space.platform().read(cpu, area.page(nth));
        match area.cells[nth] {
            None => assert!(found.is_err(), "{area:?}: page {nth} is mapped"),
            Some(cell) => {
                let found = found.unwrap_or_else(|fault| panic!("{area:?}: {fault}"));
                // A frame that was never written is not known before it is read.
                let word = *self.words.entry(cell).or_insert(found);
                assert_eq!(found, word, "page {nth} of {area:?} on CPU {cpu}");
            }
        }
    }

    fn read(&mut self) -> Option<()> {
        let (which, cpu) = (self.any(|_| true)?, self.any_cpu());
        let area = self.areas[which].clone();
        let nth = self.below(area.cells.len());
        self.read_page(cpu, &area, nth);
        let has_guard = self.space.find(area.addr)?.guard;
        let behind = area.page(area.cells.len());
        assert!(!has_guard || self.space.platform().read(cpu, behind).is_err(), "the guard of {area:?}");
        self.count("read");
        Some(())
    }

    fn write(&mut self) -> Option<()> {
        let (which, cpu, word) = (self.any(|_| true)?, self.any_cpu(), self.source.next_u64());
        let area = &self.areas[which];
        let nth = self.source.below(area.cells.len() as u64) as usize;
        let written = self.space.platform().write(cpu, area.page(nth), word);
        let may = area.cells[nth].filter(|_| area.protection == RW);
        assert_eq!(written.is_ok(), may.is_some(), "page {nth} of {area:?}: {written:?}");
        self.words.insert(may?, word);
        self.count("written");
        Some(())
    }

    /// Reads across an area and what is behind it.
    fn vread(&mut self) -> Option<()> {
        let which = self.any(|area| area.what != What::Ram)?;
        let area = self.areas[which].clone();
        self.look(&area);
        let mut bytes = vec![1; area.cells.len() * PAGE];
        let copied = self.space.read(area.addr, &mut bytes);
        let readable = |cell: &Option<Cell>| cell.filter(|_| area.what != What::Device);
        assert_eq!(copied, area.cells.iter().filter_map(readable).count() * PAGE, "{area:?}");
        for (bytes, cell) in bytes.chunks(PAGE).zip(&area.cells) {
            let word = readable(cell).map_or(0, |cell| self.words[&cell]);
            assert_eq!(bytes[..8], word.to_le_bytes(), "{area:?}");
        }
        Some(())
    }

    /// A CPU remembers what is mapped somewhere.
    fn speculate(&mut self) {
        let (cpu, span) = (self.any_cpu(), self.space.geometry().span);
        self.space.platform().prefetch(cpu, span);
    }

    fn free(&mut self) -> Option<()> {
        let which = self.any(|_| true)?;
        let area = self.areas.swap_remove(which);
        self.free_area(&area);
        self.count("freed");
        Some(())
    }

    fn free_area(&mut self, area: &Area) {
        let (space, count) = (&self.space, area.cells.len());
        match area.what {
            What::Memory | What::User | What::Exec => free(space, area.addr),
            What::Vmap | What::Device | What::Shown(_) => vunmap(space, area.addr),
            What::Ram => unmap_ram(space, area.addr, count),
            What::Sparse => free_sparse(space, area.addr),
            What::Percpu => {
                // SAFETY: nothing uses the addresses any more.
                unsafe { space.raw().free_congruent(area.addr, &[0], &[count * PAGE]) }.expect("it was made");
            }
            // SAFETY: nothing uses the addresses any more.
            What::Reserved => unsafe { space.raw().unreserve(area.addr) }.expect("it was made"),
        }
        let is_discarded =
            !matches!(area.what, What::Sparse | What::Percpu) && (area.what != What::Ram || count <= 64);
        if !is_discarded {
            self.lingering.extend(area.cells.iter().flatten().filter_map(frame));
        }
    }

    fn take(&mut self) {
        let mut frames = vec![Frame(0); 1 + self.below(20)];
        if self.taken.len() < MOST_FRAMES && self.space.platform().take_frames(&mut frames).is_ok() {
            if self.source.chance(128) {
                frames.reverse();
            }
            // Their content is anything.
            frames.iter().for_each(|&frame| _ = self.words.remove(&Cell::Frame(frame)));
            self.taken.extend(frames);
        }
    }

    /// Gives the frames back that nothing shows any more, of some.
    fn give(&mut self) {
        let shown: BTreeSet<Frame> =
            self.areas.iter().flat_map(|area| area.cells.iter().flatten().filter_map(frame)).collect();
        let (lingering, from) = (&self.lingering, self.taken.len() / 2);
        let goes = |frame: &Frame| !shown.contains(frame) && !lingering.contains(frame);
        let gone: Vec<Frame> = self.taken[from..].iter().copied().filter(goes).collect();
        self.taken.retain(|frame| !gone.contains(frame));
        give(&self.space, &gone);
        gone.iter().for_each(|&frame| _ = self.words.remove(&Cell::Frame(frame)));
        if !gone.is_empty() {
            self.count("given");
        }
    }

    fn map_pages(&mut self) -> Option<()> {
        let which = self.any(|area| matches!(area.what, What::Sparse | What::Percpu))?;
        let start = self.below(self.areas[which].cells.len());
        let count = 1 + self.below((self.areas[which].cells.len() - start).min(6));
        let frames = self.choose(count)?;
        let area = &mut self.areas[which];
        let there = &mut area.cells[start..start + count];
        // SAFETY: the area is this user's, and nothing else maps there.
        let mapped = unsafe { self.space.raw().map_pages(area.addr + start * PAGE, &frames, RW) };
        if there.iter().any(Option::is_some) {
            assert!(matches!(mapped, Err(AreaError::Mapped { .. })), "{mapped:?}");
            return None;
        }
        mapped.expect("nothing is mapped there");
        there.copy_from_slice(&cells(&frames));
        self.count("mapped");
        Some(())
    }

    fn unmap_pages(&mut self) -> Option<()> {
        let which = self.any(|area| {
            matches!(area.what, What::Sparse | What::Percpu) && area.cells.iter().any(Option::is_some)
        })?;
        let area = &mut self.areas[which];
        let start = area.cells.iter().position(Option::is_some)?;
        let count = area.cells[start..].iter().take_while(|cell| cell.is_some()).count();
        // SAFETY: the area is this user's, and nothing uses the pages any more.
        unsafe { self.space.raw().unmap_pages(area.addr + start * PAGE, count as u64) }
            .expect("they are mapped");
        area.cells[start..start + count].fill(None);
        self.count("unmapped");
        Some(())
    }

    /// One kind of purge, with a step of it failing now and then.
    fn purge(&mut self) {
        let fails = self.source.chance(64);
        if fails {
            let point = if self.source.chance(128) { Point::Unmap } else { Point::Flush };
            self.space.platform().fail_nth(point, 1);
        }
        let choice = self.below(5);
        let space = &self.space;
        let purged = match choice {
            0 => space.purge(),
            1 => space.flush(),
            2 => space.decay(),
            3 => space.drain().map(|_| ()),
            _ => space.shrink(3).map(|_| ()),
        };
        space.platform().heal();
        assert!(fails || purged.is_ok(), "{purged:?}");
        if purged.is_ok() && choice < 2 {
            self.lingering.clear();
        }
    }

    fn protect(&mut self) -> Option<()> {
        let which = self.any(|area| matches!(area.what, What::Exec | What::Vmap | What::Shown(_)))?;
        let protection = [RW, Protection::Read, Protection::ReadExecute][self.below(3)];
        let area = &mut self.areas[which];
        // SAFETY: the area is this user's.
        unsafe { self.space.raw().protect(area.addr, protection) }.expect("it is such an area");
        area.protection = protection;
        self.count("protected");
        Some(())
    }

    /// Makes a call that is not for such an area: it changes nothing.
    fn misuse(&mut self) -> Option<()> {
        let which = self.any(|_| true)?;
        let (area, choice) = (self.areas[which].clone(), self.below(4));
        let space = &self.space;
        let is_linear = !space.contains(area.addr);
        let refused = unchanged(space, || match choice {
            // SAFETY: it is refused.
            0 if is_linear || !matches!(area.what, What::Memory | What::User | What::Exec) => unsafe {
                space.raw().free(area.addr).is_err()
            },
            // SAFETY: it is refused.
            1 if is_linear || !matches!(area.what, What::Vmap | What::Device | What::Shown(_)) => unsafe {
                space.raw().unmap(area.addr).is_err()
            },
            // SAFETY: it is refused.
            2 => unsafe { space.raw().unmap_short(area.addr, area.cells.len() + 1).is_err() },
            _ => space.raw().map_shared(area.addr, usize::MAX, RW, None).is_err(),
        });
        assert!(refused, "{area:?}: {choice}");
        Some(())
    }

    /// Frees everything; nothing is left.
    pub(crate) fn end(mut self) {
        for area in std::mem::take(&mut self.areas) {
            self.look(&area);
            let span = pages(area.addr, area.cells.len());
            if self.space.geometry().span.covers(&span) {
                self.space.platform().prefetch(0, span);
            }
            self.free_area(&area);
        }
        self.space.purge().expect("nothing fails");
        give(&self.space, &self.taken);
        finish(&self.space);
    }
}

fn cells(frames: &[Frame]) -> Vec<Option<Cell>> {
    frames.iter().map(|&frame| Some(Cell::Frame(frame))).collect()
}

fn frame(cell: &Cell) -> Option<Frame> {
    match cell {
        Cell::Frame(frame) => Some(*frame),
        Cell::Own(_) => None,
    }
}
