//! Plain areas, windows, protections and moves at random in the same chunks, against a naive model:
//! a value for each page.

use crate::common::*;
use vmalloc::{
    Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformFault, Protect, Protection, ReadNofault,
    Relocate,
};
use vmalloc_linux::{CHUNK_PAGES, Linux};

const SPAN: usize = 1 << 30;
const STEPS: u32 = 3000;
const FRAMES: usize = 64;

for_all_strategies!(here; any_mixture_agrees_with_the_model);

/// The state of a page.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Page {
    Trap,
    Plain(u8, Protection),
    Window(Frame, Protection),
}

struct Model<'a> {
    linux: &'a Linux,
    pages: Vec<Page>,
    frames: Vec<Frame>,
    values: Vec<u8>,
    random: u64,
}

impl Model<'_> {
    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// A range about the borders of a few chunks, so that ranges meet; sometimes of many chunks.
    fn range(&mut self) -> (usize, usize) {
        let chunk = self.random(4) * 3 * CHUNK_PAGES;
        let start = (chunk + self.random(60)).saturating_sub(30);
        let len = match self.random(40) {
            0 => 9 * CHUNK_PAGES + self.random(50),
            _ => 1 + self.random(20),
        };
        let end = (start + len).min(self.pages.len() as u64);
        (start.min(end - 1) as usize, end as usize)
    }

    fn on(&self, (start, end): (usize, usize)) -> PageRange {
        pages(self.linux, start as u64, (end - start) as u64)
    }

    fn protection(&mut self) -> Protection {
        [Protection::ReadWrite, Protection::ReadWrite, Protection::Read, Protection::ReadExecute]
            [self.random(4) as usize]
    }

    fn step(&mut self) {
        let range = self.range();
        match self.random(8) {
            0 | 1 => self.map(range),
            2 | 3 => self.map_frames(range),
            4 => self.unmap_some(range),
            5 => self.protect(range),
            6 => self.relocate(range),
            _ => self.write(range),
        }
        self.check(range);
    }

    fn unmap(&mut self, ranges: &[(usize, usize)]) {
        let on: Vec<_> = ranges.iter().map(|range| self.on(*range)).collect();
        self.linux.do_unmap(&on).unwrap();
        self.linux.do_flush(&on).unwrap();
        ranges.iter().for_each(|&(start, end)| self.pages[start..end].fill(Page::Trap));
    }

    fn free(&mut self, range: (usize, usize)) {
        if self.pages[range.0..range.1].iter().any(|page| *page != Page::Trap) {
            self.unmap(&[range]);
        }
    }

    fn map(&mut self, range: (usize, usize)) {
        self.free(range);
        let (protection, huge) = (self.protection(), self.random(4) == 0);
        // SAFETY: the test owns the whole span.
        let mapped = unsafe {
            match huge {
                true => self.linux.map_huge(self.on(range), protection),
                false => self.linux.map(self.on(range), protection),
            }
        };
        mapped.unwrap();
        self.pages[range.0..range.1].fill(Page::Plain(0, protection));
    }

    fn map_frames(&mut self, (start, end): (usize, usize)) {
        let range = (start, end.min(start + 20));
        // Windows may be replaced, anything else not.
        if self.pages[range.0..range.1].iter().any(|page| matches!(page, Page::Plain(..))) {
            self.free(range);
        }
        let (first, stride) = (self.random(FRAMES as u64), 1 + self.random(2));
        let frames: Vec<_> = (0..(range.1 - range.0) as u64)
            .map(|index| self.frames[((first + index * stride) % FRAMES as u64) as usize])
            .collect();
        let protection = self.protection();
        // SAFETY: the test owns the whole span, and took the frames.
        unsafe { self.linux.map_frames(self.on(range), &frames, protection) }.unwrap();
        for (page, frame) in self.pages[range.0..range.1].iter_mut().zip(frames) {
            *page = Page::Window(frame, protection);
        }
    }

    fn unmap_some(&mut self, (start, end): (usize, usize)) {
        let middle = start + (end - start) / 2;
        match self.random(3) {
            0 if middle > start => self.unmap(&[(start, middle), (middle, end)]),
            1 if middle > start => self.unmap(&[(start, middle)]),
            _ => self.unmap(&[(start, end)]),
        }
    }

    /// The mapped pages at the begin of the range.
    fn mapped(&self, (start, end): (usize, usize), is: impl Fn(&Page) -> bool) -> Option<(usize, usize)> {
        let len = self.pages[start..end].iter().take_while(|page| is(page)).count();
        (len > 0).then_some((start, start + len))
    }

    fn protect(&mut self, range: (usize, usize)) {
        let Some(range) = self.mapped(range, |page| *page != Page::Trap) else { return };
        let new = self.protection();
        // SAFETY: the test owns the whole span.
        unsafe { self.linux.protect(self.on(range), new) }.unwrap();
        for page in &mut self.pages[range.0..range.1] {
            match page {
                Page::Plain(_, protection) | Page::Window(_, protection) => *protection = new,
                Page::Trap => {}
            }
        }
    }

    fn relocate(&mut self, range: (usize, usize)) {
        let Some(from) = self.mapped(range, |page| matches!(page, Page::Plain(..))) else { return };
        let (start, _) = self.range();
        let to = (start, start + from.1 - from.0);
        if to.1 > self.pages.len() || to.0 < from.1 && from.0 < to.1 {
            return;
        }
        self.free(to);
        // SAFETY: the test owns the whole span.
        match unsafe { self.linux.relocate(self.on(from), self.on(to)) } {
            Ok(()) => {
                self.pages.copy_within(from.0..from.1, to.0);
                self.pages[from.0..from.1].fill(Page::Trap);
                self.check(to);
                self.check(from);
                self.unmap(&[from]);
            }
            Err(refused) => assert_eq!(refused.fault, PlatformFault::Unsupported),
        }
        self.check(to);
    }

    fn write(&mut self, (start, end): (usize, usize)) {
        let value = self.random(256) as u8;
        for index in start..end.min(start + 20) {
            match &mut self.pages[index] {
                Page::Plain(old, Protection::ReadWrite) => *old = value,
                Page::Window(frame, Protection::ReadWrite) => {
                    let at = self.frames.iter().position(|other| other == frame).unwrap();
                    self.values[at] = value;
                }
                _ => continue,
            }
            fill(self.linux, self.on((index, index + 1)), value);
        }
    }

    /// The ends of a range with what is about them.
    fn check(&self, (start, end): (usize, usize)) {
        for middle in [start, end] {
            for index in middle.saturating_sub(25)..(middle + 25).min(self.pages.len()) {
                self.check_page(index);
            }
        }
    }

    fn check_page(&self, index: usize) {
        let page = self.linux.geometry().span.start() + index as u64;
        let mut byte = [0];
        let read = self.linux.read_nofault((page << self.linux.geometry().page_shift) as usize, &mut byte);
        let (expected, frame) = match self.pages[index] {
            Page::Trap => (None, None),
            Page::Plain(value, _) => (Some(value), None),
            Page::Window(frame, _) => {
                let at = self.frames.iter().position(|other| *other == frame).unwrap();
                (Some(self.values[at]), Some(frame))
            }
        };
        assert_eq!((read == 1).then_some(byte[0]), expected, "page {index}: {:?}", self.pages[index]);
        assert_eq!(self.linux.frame_at(page), frame, "page {index}");
    }
}

fn any_mixture_agrees_with_the_model(linux: &Linux) {
    let seed = vmalloc_harness::env::seed(20_261_125);
    eprintln!("VMALLOC_SEED={seed}");
    let mut frames = vec![Frame(0); FRAMES];
    linux.take_frames(&mut frames).unwrap();
    let pages = vec![Page::Trap; 14 * CHUNK_PAGES as usize];
    let mut model = Model { linux, pages, values: vec![0; FRAMES], frames, random: seed };
    let before = mappings(linux);
    for _ in 0..STEPS {
        model.step();
    }
    (0..model.pages.len()).for_each(|index| model.check_page(index));
    let all = (0, model.pages.len());
    model.unmap(&[all]);
    (0..model.pages.len()).step_by(7).for_each(|index| model.check_page(index));
    // Everything has merged again, but for chunks that stayed open, and what came from elsewhere in
    // them.
    assert!(mappings(linux) <= before + 28, "{} mappings, there were {before}", mappings(linux));
}
