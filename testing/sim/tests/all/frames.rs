//! Right use of frames, at random: no fault, and every page shows what its frame holds. On every
//! kind of machine.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose another program and its length.

use std::collections::BTreeMap;
use vmalloc::{Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformError, Protect, Protection};
use vmalloc_model::{Seeded, Source, env};
use vmalloc_sim::{Access, Discard, Fault, OnViolation, Options, Point, Sim};

const START: u64 = 0x100;
const PAGES: u64 = 96;
const LINEAR: u64 = 0x1000;
const FRAMES: u64 = 48;
const DEVICES: u64 = 4;
const CPUS: usize = 3;

/// The state of a page, to its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Memory,
    Leads(Frame),
    Discarded,
    Unmapped,
}

/// An owner of all pages, which uses them at random and knows the state of each.
struct User {
    sim: Sim,
    source: Seeded,
    pages: BTreeMap<u64, (State, Protection)>,
    taken: Vec<Frame>,
    /// The words of frames, where they are known.
    words: BTreeMap<Frame, u64>,
    /// The words of pages that have memory of their own.
    own_words: BTreeMap<u64, u64>,
}

fn page(nth: u64) -> PageRange {
    PageRange::from_len(nth, 1).expect("not empty")
}

impl User {
    fn new(options: Options, seed: u64) -> Self {
        let free = (State::Free, Protection::ReadWrite);
        let pages = (START..START + PAGES).map(|page| (page, free)).collect();
        let (sim, source) = (options.seed(seed).build(), Seeded::new(seed));
        let taken = Vec::new();
        Self { sim, source, pages, taken, words: BTreeMap::new(), own_words: BTreeMap::new() }
    }

    fn state(&self, page: u64) -> State {
        self.pages.get(&page).map_or(State::Free, |page| page.0)
    }

    fn set(&mut self, range: PageRange, state: State, protection: Protection) {
        for page in range.start()..range.end() {
            self.pages.insert(page, (state, protection));
            self.own_words.remove(&page);
        }
    }

    /// Returns a range of pages that are all of this kind, if chance finds one.
    fn range_of(&mut self, is: impl Fn(State) -> bool) -> Option<PageRange> {
        let start = START + self.source.below(PAGES);
        let wanted = 1 + self.source.below(9);
        let len = (start..start + wanted)
            .take_while(|&page| self.pages.contains_key(&page) && is(self.state(page)));
        PageRange::from_len(start, len.count() as u64)
    }

    fn protection(&mut self) -> Protection {
        [Protection::ReadWrite, Protection::ReadWrite, Protection::Read, Protection::ReadExecute]
            [self.source.below(4) as usize]
    }

    fn take(&mut self) {
        let mut frames = [Frame(0); 4];
        if self.source.chance(128) {
            if self.sim.take_frames(&mut frames).is_ok() {
                self.taken.extend(frames);
            }
        } else if let Ok(first) = self.sim.take_run(4, 4) {
            assert_eq!(first.0 % 4, 0);
            self.taken.extend((0..4).map(|nth| first.plus(nth)));
        }
    }

    /// Gives a frame back, if no page leads to it.
    fn give(&mut self) {
        let Some(nth) = (self.source.below(FRAMES) as usize).checked_rem(self.taken.len()) else { return };
        let frame = self.taken[nth];
        if self.pages.values().all(|&(state, _)| state != State::Leads(frame)) {
            self.taken.swap_remove(nth);
            self.words.remove(&frame);
            // SAFETY: it was taken, and no page that is in use leads to it.
            unsafe { self.sim.give_frames(&[frame]) };
        }
    }

    fn map(&mut self) {
        let Some(range) = self.range_of(|state| state == State::Free) else { return };
        let protection = self.protection();
        let is_huge = self.source.chance(128);
        // SAFETY: the pages are this user's, and free.
        let mapped = unsafe {
            if is_huge { self.sim.map_huge(range, protection) } else { self.sim.map(range, protection) }
        };
        if mapped.is_ok() {
            self.set(range, State::Memory, protection);
            self.own_words.extend((range.start()..range.end()).map(|page| (page, 0)));
        }
    }

    fn map_frames(&mut self) -> Option<()> {
        let replaces = self.sim.geometry().remaps_atomically;
        let may_replace = move |state| matches!(state, State::Leads(_) | State::Discarded) && replaces;
        let range = self.range_of(|state| state == State::Free || may_replace(state))?;
        let devices = (FRAMES..FRAMES + DEVICES).map(Frame);
        let choice: Vec<Frame> = self.taken.iter().copied().chain(devices).collect();
        let count = range.len() as usize;
        let frames: Vec<Frame> =
            (0..count).map(|_| choice[self.source.below(choice.len() as u64) as usize]).collect();
        let protection = self.protection();
        // SAFETY: the pages are this user's, free or to be replaced, and the frames were taken.
        let mapped = unsafe { self.sim.map_frames(range, &frames, protection) };
        for (page, frame) in (range.start()..).zip(frames) {
            match mapped {
                Ok(()) => self.set(self::page(page), State::Leads(frame), protection),
                // Some of what was there may be gone.
                Err(_) if self.sim.frame_at(page).is_none() && self.state(page) != State::Free => {
                    self.set(self::page(page), State::Discarded, protection);
                }
                Err(_) => (),
            }
        }
        Some(())
    }

    fn discard(&mut self) -> Option<()> {
        let range = self.range_of(|state| matches!(state, State::Leads(_)))?;
        // SAFETY: nothing uses the pages any more.
        unsafe { self.sim.discard_hint(range) };
        self.set(range, State::Discarded, Protection::ReadWrite);
        Some(())
    }

    /// Unmaps anything, guards among it, and flushes it now or some time later.
    fn unmap(&mut self) -> Option<()> {
        let range = self.range_of(|_| true)?;
        let leading =
            (range.start()..range.end()).filter(|&page| matches!(self.state(page), State::Leads(_)));
        for page in leading.filter_map(|page| PageRange::from_len(page, 1)) {
            // Should unmapping fail, this makes it right to give the frames back all the same.
            // SAFETY: nothing uses the page any more.
            unsafe { self.sim.discard_hint(page) };
        }
        // SAFETY: nothing uses the pages any more.
        let unmapped = unsafe { self.sim.unmap(&[range]) };
        self.set(range, State::Unmapped, Protection::ReadWrite);
        if unmapped.is_ok() && self.source.chance(128) {
            self.flush(range);
        }
        Some(())
    }

    fn flush_some(&mut self) -> Option<()> {
        let range = self.range_of(|state| state == State::Unmapped)?;
        // SAFETY: they were unmapped, if perhaps by a call that failed half-way.
        unsafe { self.sim.unmap(&[range]) }.ok()?;
        self.flush(range);
        Some(())
    }

    fn flush(&mut self, range: PageRange) {
        // SAFETY: the range was unmapped.
        if unsafe { self.sim.flush(&[range]) }.is_ok() {
            self.set(range, State::Free, Protection::ReadWrite);
        }
    }

    fn protect(&mut self) -> Option<()> {
        let range = self.range_of(|state| matches!(state, State::Memory | State::Leads(_)))?;
        let protection = self.protection();
        // SAFETY: the pages are this user's.
        let mut result: Result<(), PlatformError> = unsafe { self.sim.protect(range, protection) };
        while result.is_err() {
            // SAFETY: as before.
            result = unsafe { self.sim.protect(range, protection) };
        }
        for page in range.start()..range.end() {
            self.pages.entry(page).and_modify(|page| page.1 = protection);
        }
        Some(())
    }

    /// Reads, writes or fetches somewhere on some CPU, and finds what must be there.
    fn access(&mut self) {
        let (page, cpu) = (START + self.source.below(PAGES), self.source.below(CPUS as u64) as usize);
        let (state, protection) = self.pages[&page];
        match state {
            State::Memory => self.access_mapped(cpu, page, protection, None),
            State::Leads(frame) => self.access_mapped(cpu, page, protection, Some(frame)),
            // Others may still get somewhere; the test does not look.
            State::Discarded | State::Unmapped => _ = self.sim.look(cpu, page),
            State::Free => assert_eq!(self.sim.read(cpu, page), Err(Fault::NotMapped { cpu, page })),
        }
    }

    fn access_mapped(&mut self, cpu: usize, page: u64, protection: Protection, frame: Option<Frame>) {
        let word = self.source.next_u64() | 1;
        let denied = |access| Fault::Denied { cpu, page, access, protection };
        match (self.source.below(3), protection) {
            (0, Protection::ReadWrite) => {
                self.sim.write(cpu, page, word).expect("it is mapped");
                match frame {
                    Some(frame) => _ = self.words.insert(frame, word),
                    None => _ = self.own_words.insert(page, word),
                }
            }
            (0, _) => assert_eq!(self.sim.write(cpu, page, word), Err(denied(Access::Write))),
            (1, Protection::ReadWrite | Protection::Read) => {
                assert_eq!(self.sim.fetch(cpu, page), Err(denied(Access::Fetch)));
            }
            _ => {
                let found = self.sim.read(cpu, page).expect("it is mapped");
                let known = match frame {
                    Some(frame) => self.words.get(&frame),
                    None => self.own_words.get(&page),
                };
                assert!(
                    known.is_none_or(|&word| word == found),
                    "page {page:#x}: {found:#x} and not {known:x?}"
                );
            }
        }
    }

    fn access_linear(&mut self) {
        let Some(&frame) = self.taken.first() else { return };
        let Some(linear) = self.sim.geometry().linear_map else { return };
        let word = self.source.next_u64();
        self.sim.write(0, linear.start() + frame.0, word).expect("it is taken");
        self.words.insert(frame, word);
    }

    fn step(&mut self) {
        Sim::run_on(self.source.below(CPUS as u64) as usize);
        if self.source.chance(16) {
            let points = Point::ALL;
            self.sim.fail_nth(points[self.source.below(points.len() as u64) as usize], 1);
        }
        match self.source.below(20) {
            0 if self.taken.len() < FRAMES as usize / 3 => self.take(),
            0 | 1 => self.give(),
            2 | 3 => self.map(),
            4..7 => _ = self.map_frames(),
            7 => _ = self.discard(),
            8 => _ = self.unmap(),
            9 => _ = self.flush_some(),
            10 => _ = self.protect(),
            11 => self.access_linear(),
            12 => self.sim.prefetch(0, self.sim.geometry().span),
            _ => self.access(),
        }
    }

    /// Everything given back, nothing is left.
    fn end(mut self) {
        self.sim.heal();
        let all = self.sim.geometry().span;
        // SAFETY: nothing uses anything any more.
        unsafe {
            self.sim.unmap(&[all]).expect("nothing fails");
            self.sim.flush(&[all]).expect("nothing fails");
            self.sim.give_frames(&std::mem::take(&mut self.taken));
        }
        assert_eq!((self.sim.check_end(), self.sim.taken_frames()), (vec![], vec![]));
    }
}

fn machines() -> Vec<Options> {
    let span = PageRange::from_len(START, PAGES).expect("not empty");
    let plain =
        Options::new(span).cpus(CPUS).frames(FRAMES).devices(DEVICES).on_violation(OnViolation::Panic);
    let kinds = [plain.clone(), plain.remaps_atomically().linear(LINEAR).huge_order(1).tlb_entries(8)];
    kinds
        .into_iter()
        .flat_map(|kind| [Discard::Unmaps, Discard::Keeps].map(|discard| kind.clone().discard(discard)))
        .collect()
}

#[test]
fn correct_use_never_faults() {
    for (nth, options) in machines().into_iter().enumerate() {
        for seed in 0..4 {
            let mut user = User::new(options.clone(), env::seed(nth as u64 * 100 + seed));
            for op in 0..env::ops(10_000) {
                user.step();
                if op % 64 == 0 {
                    assert_eq!(user.sim.audit(), []);
                }
            }
            let counts = user.sim.counts();
            assert!(counts.frame_maps > 100 && counts.discards > 10 && counts.protects > 10, "{counts:?}");
            assert_eq!((counts.replaced_pages > 0, counts.huge_pages > 0), (nth > 1, nth > 1), "{counts:?}");
            user.end();
        }
    }
}
