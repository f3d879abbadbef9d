//! Players of a script, which check each step.

use super::Choices;
use super::model::{Area, Cell, What, Words};
use super::settings::{CPUS, PAGES, START, config_of, machine_of};
use crate::{Point, Sim};
use vmalloc::{AllocError, AreaError, Frame, FrameSupply, Kind, Protection, Request, Space};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;
const RW: Protection = Protection::ReadWrite;
/// Frames that the player keeps from beginning to end.
const KEPT: usize = 24;
const MOST_AREAS: usize = 24;
/// Where the units of a per-CPU group lie, and how large they are.
const OFFSETS: [usize; 2] = [0, 40 * PAGE];
const UNIT: usize = 4;

/// The share of each operation among 64 choices; the rest is writing and reading.
pub(super) struct Weights {
    make: usize,
    free: usize,
    vread: usize,
}

impl Weights {
    pub(super) const FAMILY: Self = Self { make: 20, free: 12, vread: 2 };
    pub(super) const VREAD: Self = Self { make: 14, free: 8, vread: 24 };
}

pub(super) struct Player<'a> {
    space: Space<Sim>,
    choices: Choices<'a>,
    weights: Weights,
    frames: Vec<Frame>,
    areas: Vec<Area>,
    words: Words,
    steps: usize,
}

impl<'a> Player<'a> {
    pub(super) fn play(input: &'a [u8], weights: Weights) {
        let [machine, settings, program @ ..] = input else { return };
        Sim::run_on(0);
        let space = Space::new(machine_of(*machine), config_of(*settings)).expect("an empty space");
        let mut frames = vec![Frame(0); KEPT];
        space.platform().take_frames(&mut frames).expect("frames enough");
        let (areas, words) = Default::default();
        let mut player = Self { space, choices: Choices(program), weights, frames, areas, words, steps: 0 };
        while !player.choices.is_empty() {
            player.step();
        }
        player.finish();
    }

    fn step(&mut self) {
        self.steps += 1;
        let Weights { make, free, vread } = self.weights;
        let choice = self.choices.below(64);
        match choice {
            _ if choice < make => self.make(),
            _ if choice < make + free => self.free(),
            _ if choice < make + free + vread => self.vread(),
            56 => Sim::run_on(self.choices.below(CPUS)),
            57 => self.fail(),
            58 => self.purge(),
            59 | 60 => self.map_pages(),
            61 => self.unmap_pages(),
            _ if choice.is_multiple_of(2) => self.write(),
            _ => self.read(),
        }
        if self.steps.is_multiple_of(16) {
            self.verify();
        }
    }

    fn make(&mut self) {
        if self.areas.len() == MOST_AREAS {
            return;
        }
        let made = match self.choices.below(10) {
            0 | 1 => self.plain(),
            2 | 3 => self.vmap(),
            4..7 => self.ram(),
            7 => self.user(),
            8 => self.show(),
            _ if self.choices.below(2) == 0 => self.sparse(),
            _ => self.percpu(),
        };
        match made {
            Ok(area) => self.areas.extend(area),
            Err(AllocError::NoSpace(_) | AllocError::Unbacked(_)) => {}
            Err(error) => panic!("step {}: {error}", self.steps),
        }
    }

    fn plain(&mut self) -> Result<Option<Area>, AllocError> {
        let pages = 1 + self.choices.below(9);
        let addr = self.space.raw().alloc(&Request::new(pages * PAGE).zeroed())?;
        Ok(Some(area(What::Plain, addr, self.words.fresh(pages))))
    }

    /// Returns frames to map: some that are kept, or fresh ones.
    fn some_frames(&mut self, most: usize) -> (Vec<Frame>, Vec<Frame>) {
        let count = 1 + self.choices.below(most);
        if self.choices.below(2) == 0 {
            let (first, step) = (self.choices.below(KEPT), 1 + self.choices.below(3));
            return ((0..count).map(|nth| self.frames[(first + nth * step) % KEPT]).collect(), Vec::new());
        }
        let mut fresh = vec![Frame(0); count];
        match self.space.platform().take_frames(&mut fresh) {
            Ok(()) => {
                fresh.iter().for_each(|frame| self.words.forget(*frame));
                (fresh.clone(), fresh)
            }
            Err(_) => (self.frames[..1].to_vec(), Vec::new()),
        }
    }

    fn vmap(&mut self) -> Result<Option<Area>, AllocError> {
        let (frames, owned) = self.some_frames(12);
        let protection = if self.choices.below(4) == 0 { Protection::Read } else { RW };
        let mapped = self.space.raw().map(&frames, protection, None);
        self.entered(mapped, What::Vmap, &frames, owned, protection)
    }

    fn ram(&mut self) -> Result<Option<Area>, AllocError> {
        let most = if self.choices.below(16) == 0 { 80 } else { 9 };
        let (frames, owned) = self.some_frames(most);
        let mapped = self.space.raw().map_short(&frames);
        self.entered(mapped, What::Ram, &frames, owned, RW)
    }

    fn entered(
        &mut self,
        mapped: Result<usize, AllocError>,
        what: What,
        frames: &[Frame],
        owned: Vec<Frame>,
        protection: Protection,
    ) -> Result<Option<Area>, AllocError> {
        let addr = mapped.inspect_err(|_| self.give(&owned))?;
        let cells = frames.iter().map(|frame| Some(Cell::Frame(*frame))).collect();
        Ok(Some(Area { protection, owned, ..area(what, addr, cells) }))
    }

    fn user(&mut self) -> Result<Option<Area>, AllocError> {
        let pages = 1 + self.choices.below(6);
        let addr = self.space.raw().alloc_shared(&Request::new(pages * PAGE))?;
        Ok(Some(area(What::User, addr, self.words.fresh(pages))))
    }

    fn show(&mut self) -> Result<Option<Area>, AllocError> {
        let Some(nth) = self.any(|area| area.what == What::User) else { return Ok(None) };
        let (addr, all) = (self.areas[nth].addr, self.areas[nth].cells.clone());
        let first = self.choices.below(all.len());
        let count = 1 + self.choices.below(all.len() - first);
        match self.space.raw().map_shared(addr + first * PAGE, count * PAGE, RW, None) {
            Ok(addr) => Ok(Some(area(What::Shown, addr, all[first..first + count].to_vec()))),
            Err(AreaError::Platform(_)) => Ok(None),
            Err(AreaError::Alloc(error)) => Err(error),
            Err(error) => panic!("step {}: {error}", self.steps),
        }
    }

    fn sparse(&mut self) -> Result<Option<Area>, AllocError> {
        let pages = 1 + self.choices.below(20);
        let addr = self.space.raw().alloc_sparse(&Request::new(pages * PAGE))?;
        Ok(Some(area(What::Sparse, addr, vec![None; pages])))
    }

    /// Makes a group of two units, which are one area here; what lies between them has no owner,
    /// and shows nothing.
    fn percpu(&mut self) -> Result<Option<Area>, AllocError> {
        let base = self.space.raw().alloc_congruent(&OFFSETS, &[UNIT * PAGE; 2], PAGE);
        Ok(base.ok().map(|base| area(What::Percpu, base, vec![None; OFFSETS[1] / PAGE + UNIT])))
    }

    fn any(&mut self, is: impl Fn(&Area) -> bool) -> Option<usize> {
        let fit: Vec<_> = (0..self.areas.len()).filter(|nth| is(&self.areas[*nth])).collect();
        (!fit.is_empty()).then(|| fit[self.choices.below(fit.len())])
    }

    /// Returns a place for frames, or with some, and how many follow it there in its area, or unit.
    fn place(&mut self) -> Option<(usize, usize, usize)> {
        let nth = self.any(|area| matches!(area.what, What::Sparse | What::Percpu))?;
        let pages = self.areas[nth].cells.len();
        if self.areas[nth].what == What::Sparse {
            let page = self.choices.below(pages);
            return Some((nth, page, pages - page));
        }
        let (unit, page) = (self.choices.below(2), self.choices.below(UNIT));
        Some((nth, OFFSETS[unit] / PAGE + page, UNIT - page))
    }

    #[allow(unsafe_code)]
    fn map_pages(&mut self) {
        let Some((nth, page, left)) = self.place() else { return };
        let count = 1 + self.choices.below(left);
        let frames: Vec<_> = (0..count).map(|nth| self.frames[(nth * 5 + page) % KEPT]).collect();
        let (addr, is_free) = {
            let area = &self.areas[nth];
            (area.addr + page * PAGE, area.cells[page..page + count].iter().all(Option::is_none))
        };
        // SAFETY: the pages are the player's.
        match unsafe { self.space.raw().map_pages(addr, &frames, RW) } {
            Ok(()) => {
                assert!(is_free, "step {}: mapped over what is mapped", self.steps);
                let cells = frames.into_iter().map(|frame| Some(Cell::Frame(frame)));
                self.areas[nth].cells.splice(page..page + count, cells);
            }
            Err(AreaError::Mapped { .. }) => assert!(!is_free, "step {}: nothing is mapped", self.steps),
            Err(AreaError::Platform(_)) => {}
            Err(error) => panic!("step {}: {error}", self.steps),
        }
    }

    #[allow(unsafe_code)]
    fn unmap_pages(&mut self) {
        let Some((nth, page, left)) = self.place() else { return };
        let count = 1 + self.choices.below(left);
        let area = &self.areas[nth];
        let is_mapped = area.cells[page..page + count].iter().all(Option::is_some);
        // SAFETY: the pages are the player's, and nothing uses them.
        match unsafe { self.space.raw().unmap_pages(area.addr + page * PAGE, count as u64) } {
            Ok(()) => {
                assert!(is_mapped, "step {}: unmapped what is not mapped", self.steps);
                self.areas[nth].cells[page..page + count].fill(None);
            }
            Err(AreaError::NotMapped { .. }) => assert!(!is_mapped, "step {}: it is mapped", self.steps),
            // What of it is unmapped is not known: the area goes.
            Err(AreaError::Platform(_)) => {
                let area = self.areas.swap_remove(nth);
                self.end(area);
            }
            Err(error) => panic!("step {}: {error}", self.steps),
        }
    }

    fn free(&mut self) {
        let Some(nth) = self.any(|_| true) else { return };
        let area = self.areas.swap_remove(nth);
        self.end(area);
    }

    #[allow(unsafe_code)]
    fn end(&mut self, area: Area) {
        let (space, addr) = (&self.space, area.addr);
        if area.what == What::Percpu {
            // SAFETY: nothing uses the addresses any more.
            unsafe { space.raw().free_congruent(addr, &OFFSETS, &[UNIT * PAGE; 2]) }.expect("it is there");
            return;
        }
        // SAFETY: the area is the player's, which does not use it any more.
        let ended = unsafe {
            match area.what {
                What::Plain | What::User => space.raw().free(addr),
                What::Vmap | What::Shown => space.raw().unmap(addr),
                What::Ram => space.raw().unmap_short(addr, area.cells.len()),
                _ => space.raw().free_sparse(addr),
            }
        };
        ended.unwrap_or_else(|error| panic!("step {}: {error}", self.steps));
        self.give(&area.owned);
    }

    #[allow(unsafe_code)]
    fn give(&self, frames: &[Frame]) {
        // SAFETY: the player took them, and what led to them is ended.
        unsafe { self.space.platform().give_frames(frames) };
    }

    /// Returns a page of an area, its address as a page number, and what it shows.
    fn page(&mut self) -> Option<(usize, u64, Option<Cell>)> {
        let nth = self.any(|_| true)?;
        let page = self.choices.below(self.areas[nth].cells.len());
        let area = &self.areas[nth];
        Some((nth, (area.addr / PAGE + page) as u64, area.cells[page]))
    }

    fn write(&mut self) {
        let Some((nth, page, Some(cell))) = self.page() else { return };
        let (cpu, word) = (self.choices.below(CPUS), self.words.number());
        let written = self.space.platform().write(cpu, page, word);
        if self.areas[nth].protection == RW {
            written.unwrap_or_else(|fault| panic!("step {}: {fault}", self.steps));
            self.words.set(cell, word);
        } else {
            assert!(written.is_err(), "step {}: page {page:#x} was written", self.steps);
        }
    }

    fn read(&mut self) {
        let Some((nth, page, Some(cell))) = self.page() else { return };
        let read = self.space.platform().read(self.choices.below(CPUS), page);
        let read = read.unwrap_or_else(|fault| panic!("step {}: {:?}: {fault}", self.steps, self.areas[nth]));
        if let Some(word) = self.words.get(cell) {
            assert_eq!(read, word, "step {}: page {page:#x} of {:?}", self.steps, self.areas[nth]);
        }
    }

    /// Reads a part of the span: it is what the model has there, and zeros elsewhere.
    fn vread(&mut self) {
        let start = START as usize * PAGE + self.choices.below(PAGES as usize) * PAGE - 100;
        // Around an area, more often than not.
        let near = !self.steps.is_multiple_of(4);
        let start = match self.any(|_| near) {
            Some(nth) => self.areas[nth].addr - 2 * PAGE + self.choices.below(PAGE),
            None => start,
        };
        let mut to = vec![0xaa; self.choices.below(12 * PAGE)];
        let pages = (start..start + to.len() + PAGE).step_by(PAGE);
        // Returned pages are read as long as they are mapped, though frames may be given back.
        if pages.filter_map(|addr| self.space.find(addr)).any(|area| area.kind == Kind::Block) {
            return;
        }
        let read = self.space.read(start, &mut to);
        let mut known = 0;
        let mut at = start;
        while at < start + to.len() {
            let end = (at / PAGE + 1) * PAGE;
            let bytes = &to[at - start..end.min(start + to.len()) - start];
            known += self.check_page(at, bytes);
            at = end;
        }
        assert!(read >= known && read <= to.len(), "step {}: {read} bytes, {known} are known", self.steps);
    }

    /// Checks what was read from `at` on, inside one page; how many bytes are mapped there for
    /// certain.
    fn check_page(&self, at: usize, bytes: &[u8]) -> usize {
        let in_span = self.space.contains(at);
        let page = at / PAGE;
        let shown =
            self.areas.iter().find_map(|area| area.cells.get(page.checked_sub(area.addr / PAGE)?)?.as_ref());
        let Some(cell) = shown.filter(|_| in_span) else {
            assert!(bytes.iter().all(|byte| *byte == 0), "step {}: page {page:#x} shows nothing", self.steps);
            return 0;
        };
        if let Some(word) = self.words.get(*cell) {
            let expected = (at..).map(|at| word.to_le_bytes()[at % 8]);
            let same = bytes.iter().zip(expected).all(|(byte, expected)| *byte == expected);
            assert!(same, "step {}: page {page:#x} does not read as {word:#x}", self.steps);
        }
        bytes.len()
    }

    fn fail(&mut self) {
        let point = Point::ALL[self.choices.below(Point::ALL.len())];
        self.space.platform().fail_nth(point, 1 + self.choices.below(4) as u64);
    }

    fn purge(&mut self) {
        // An error is the machine's, on request.
        let _ = match self.choices.below(4) {
            0 => self.space.purge(),
            1 => self.space.decay(),
            2 => self.space.flush(),
            _ => self.space.drain().map(|_| ()),
        };
    }

    fn verify(&self) {
        self.space.verify().unwrap_or_else(|violation| panic!("step {}: {violation:?}", self.steps));
        self.space.platform().audit();
    }

    fn finish(mut self) {
        self.space.platform().heal();
        while let Some(area) = self.areas.pop() {
            self.end(area);
        }
        self.space.purge().expect("nothing fails any more");
        self.verify();
        let stats = self.space.stats();
        assert_eq!((stats.busy_areas, stats.blocks), (0, 0));
        assert_eq!(stats.largest_free_pages, stats.span_pages);
        self.give(&self.frames);
        assert_eq!(self.space.platform().check_end(), []);
        assert_eq!(self.space.platform().taken_frames(), []);
    }
}

fn area(what: What, addr: usize, cells: Vec<Option<Cell>>) -> Area {
    Area { what, addr, cells, protection: RW, owned: Vec::new() }
}
