//! The player: a space, the oracle, and the choices.

use crate::look::Seen;
use crate::oracle::{Area, Oracle, Shown, What};
use crate::play::Program;
use crate::wish::Place;
use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::sync::Arc;
use vmalloc::{AreaInfo, Kind, PageRange, Platform, PlatformError, Protection, Space, Unbacked};
use vmalloc_model::Source;
use vmalloc_short::ShortMaps;
use vmalloc_sim::{Due, Point};

/// Steps that a failure tells of.
const TOLD: usize = 16;

/// Returns the short mappings of the space that is played on.
pub(crate) fn short<P: Platform>(space: &Space<P>) -> ShortMaps<&Space<P>> {
    ShortMaps::of(space).expect("they were made before")
}

/// Returns whether an area is a block, or was made because blocks do not serve so many pages.
pub(crate) fn is_short(area: &AreaInfo) -> bool {
    area.kind == Kind::Tenant || area.tag.as_deref() == Some(vmalloc_short::TAG)
}

/// A program in play.
pub struct Player<'a, P: Platform> {
    pub(crate) space: Arc<Space<P>>,
    pub(crate) program: &'a Program<P>,
    pub(crate) source: Box<dyn Source + 'a>,
    pub(crate) oracle: Oracle,
    pub(crate) place: Place,
    pub(crate) cpu: usize,
    /// Calls may be made to fail.
    pub(crate) fails: bool,
    /// Others use the space as well: what its counts are, and why it refuses, is not known then.
    pub(crate) is_shared: bool,
    /// The process in which it began.
    process: u32,
    /// A call may have failed, and no purge has set everything right since.
    pub(crate) is_shaky: bool,
    /// Calls that had failed before the program.
    failed_before: u64,
    /// The acts in which calls have failed.
    failures: Vec<&'static str>,
    steps: usize,
    told: VecDeque<String>,
}

impl<'a, P: Platform> Player<'a, P> {
    pub(crate) fn new(space: Arc<Space<P>>, program: &'a Program<P>, source: Box<dyn Source + 'a>) -> Self {
        let (geometry, space_options) = (*space.geometry(), *space.options());
        let place = Place {
            span: geometry.span,
            shift: geometry.page_shift,
            guards: space_options.guard,
            nodes: space.node_stats().len(),
            most: program.most.min(geometry.span.len() / 4).max(1),
            largest: 2 * geometry.span.len(),
        };
        let mut player = Self {
            failed_before: program.look.failed(space.platform()),
            space,
            program,
            source,
            oracle: Oracle::new(geometry.span, geometry.page_shift),
            place,
            cpu: 0,
            fails: false,
            is_shared: false,
            process: std::process::id(),
            is_shaky: false,
            failures: Vec::new(),
            steps: 0,
            told: VecDeque::new(),
        };
        player.run_on(0);
        player
    }

    /// Plays `ops` steps, or as many as there are choices for, and frees everything. Returns
    /// the acts in which calls have failed.
    pub(crate) fn play(mut self, ops: usize) -> Vec<&'static str> {
        while self.steps < ops && !self.source.is_exhausted() {
            self.step();
        }
        let failures = std::mem::take(&mut self.failures);
        self.finish();
        failures
    }

    /// Does one of the things that the program may do.
    ///
    /// # Panics
    /// When anything is wrong. The last steps are printed then.
    pub fn step(&mut self) {
        self.notice_fork();
        self.steps += 1;
        // Every so often a long ebb, so that everything is freed, purged and used again.
        let (program, live) = (self.program, self.program.live);
        let ebbs = self.steps % (8 * live) > 6 * live;
        let all: u64 = program.acts.iter().map(|act| act.share).sum();
        let mut nth = self.source.below(all);
        let act = program.acts.iter().find(|act| {
            let is_it = nth < act.share;
            nth = nth.saturating_sub(act.share);
            is_it
        });
        let act = act.expect("a number below the sum of all shares");
        if act.makes && (self.oracle.areas.len() >= live || ebbs && self.source.chance(160)) {
            self.tell("one too many");
            self.free_any();
        } else {
            let before = self.program.look.failed_on_request(self.space.platform());
            self.tell(act.name);
            (act.run)(self);
            let failed = self.program.look.failed_on_request(self.space.platform()) - before;
            self.failures.extend((failed > 0).then_some(act.name));
        }
        self.check_counts();
        if self.steps.is_multiple_of(32) && !self.is_shared {
            self.check_all();
        }
    }

    /// Looks at all that it has.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    pub fn check(&mut self) {
        self.notice_fork();
        (0..self.oracle.areas.len()).for_each(|nth| self.check_area(nth));
    }

    /// Returns the freed ranges that it remembers, and forgets them.
    pub fn take_freed(&mut self) -> impl Iterator<Item = PageRange> + use<P> {
        std::mem::take(&mut self.oracle.freed).into_iter()
    }

    /// Frees all that it has.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    pub fn free_all(&mut self) {
        self.notice_fork();
        self.tell("the end");
        self.heal();
        while let Some(last) = self.oracle.areas.len().checked_sub(1) {
            self.check_area(last);
            self.free_area(last);
        }
        let mine = std::mem::take(&mut self.oracle.mine);
        if !self.is_shared || !mine.is_empty() {
            assert_eq!(self.space.purge(), Ok(()), "nothing fails any more");
            (self.program.end.give)(&self.space, &mine);
        }
    }

    /// Goes on in the child of a fork. The frames of before are the parent's: their areas are
    /// looked at and freed, and no frame is given back.
    fn notice_fork(&mut self) {
        if self.process == std::process::id() {
            return;
        }
        self.process = std::process::id();
        self.oracle.mine.clear();
        while let Some(nth) = self.any(|area| area.pages.iter().any(|shown| shown.is_frame())) {
            self.check_area(nth);
            self.free_area(nth);
        }
    }

    /// Frees everything: nothing is left.
    fn finish(mut self) {
        self.free_all();
        self.check_all();
        let stats = self.space.stats();
        let waiting = (stats.lazy_areas, stats.cached_areas, stats.pooled_areas, stats.tenant_areas);
        assert_eq!(waiting, (0, 0, 0, 0), "{stats:?}");
        assert_eq!((stats.refused_areas, stats.pending_ranges), (0, 0), "{stats:?}");
        assert_eq!((stats.busy_areas, stats.largest_free_pages), (0, stats.span_pages), "{stats:?}");
        let leaks = self.program.look.leaks(self.space.platform());
        assert!(leaks.is_empty(), "{leaks:?}");
    }

    /// Notes what is done, for the report of a failure.
    pub(crate) fn tell(&mut self, what: impl Display) {
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        self.told.push_back(format!("{} on CPU {}: {what}", self.steps, self.cpu));
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.source.below(bound as u64) as usize
    }

    pub(crate) fn page_bytes(&self) -> usize {
        1 << self.place.shift
    }

    pub(crate) fn run_on(&mut self, cpu: usize) {
        self.cpu = cpu % self.space.geometry().cpus;
        self.program.look.run_on(self.space.platform(), self.cpu);
    }

    /// Returns a CPU to look from.
    pub(crate) fn any_cpu(&mut self) -> usize {
        self.below(self.space.geometry().cpus.min(4))
    }

    pub(crate) fn fail(&mut self, call: Point, due: Due) {
        self.is_shaky = true;
        self.program.look.fail(self.space.platform(), call, due);
    }

    pub(crate) fn heal(&mut self) {
        self.program.look.heal(self.space.platform());
    }

    /// Returns how many calls have failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.program.look.failed(self.space.platform()) - self.failed_before
    }

    /// Makes a call of the space, whose requests for memory may fail.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&Space<P>) -> R) -> R {
        let (mut call, mut result) = (Some(call), None);
        self.program.look.on_heap(&mut || result = call.take().map(|call| call(&self.space)));
        result.expect("it is called once")
    }

    /// Asserts that a refusal has a reason: a call or a request for memory has failed meanwhile.
    pub(crate) fn excuse_any(&self, before: u64) {
        assert!(self.is_shared || self.failed() > before, "nothing has failed");
    }

    /// Asserts that an error of the platform has a reason: a call has failed meanwhile.
    pub(crate) fn excuse(&self, before: u64, error: &PlatformError) {
        assert!(self.is_shared || self.failed() > before, "no call has failed, and yet: {error}");
    }

    /// Asserts that memory was refused twice: after the first time everything freed goes back.
    pub(crate) fn excuse_twice(&self, before: u64, unbacked: &Unbacked) {
        self.excuse_unbacked(before, 2, unbacked);
    }

    /// Asserts that memory was refused so many times. More frames than there are at all are refused
    /// at once.
    pub(crate) fn excuse_unbacked(&self, before: u64, times: u64, unbacked: &Unbacked) {
        let geometry = self.space.geometry();
        let is_beyond = |map: PageRange| unbacked.size >> geometry.page_shift > map.len();
        let is_shared = self.is_shared || geometry.linear_map.is_some_and(is_beyond);
        assert!(is_shared || self.failed() >= before + times, "not refused {times} times: {unbacked}");
    }

    /// Returns the number of an area that is such a one.
    pub(crate) fn any(&mut self, is: impl Fn(&Area) -> bool) -> Option<usize> {
        let areas = &self.oracle.areas;
        let fit: Vec<usize> = (0..areas.len()).filter(|nth| is(&areas[*nth])).collect();
        (!fit.is_empty()).then(|| fit[self.below(fit.len())])
    }

    /// Returns some pages of an area: all of a small one.
    fn sample(&mut self, pages: usize) -> Vec<usize> {
        if pages <= 5 {
            return (0..pages).collect();
        }
        let mut some = vec![0, 1, pages - 2, pages - 1];
        some.extend((0..3).map(|_| self.below(pages)));
        some
    }

    /// Looks at some pages of an area, and at its guard.
    pub(crate) fn check_area(&mut self, nth: usize) {
        for page in self.sample(self.oracle.areas[nth].pages.len()) {
            self.check_page(nth, page);
        }
        let area = &self.oracle.areas[nth];
        if area.guard {
            let guard = self.oracle.payload(area).end();
            self.check_trap(guard);
        }
    }

    /// Looks at the pages around a range of an area, and at its ends.
    pub(crate) fn check_around(&mut self, nth: usize, start: usize, end: usize) {
        let pages = self.oracle.areas[nth].pages.len();
        let around = |page: usize| page.saturating_sub(2)..(page + 2).min(pages);
        around(start).chain(around(end)).for_each(|page| self.check_page(nth, page));
    }

    /// Looks at one page of an area.
    pub(crate) fn check_page(&mut self, nth: usize, page: usize) {
        let (cpu, area) = (self.any_cpu(), &self.oracle.areas[nth]);
        let (shown, number) = (area.pages[page], self.oracle.first_page(area) + page as u64);
        if area.what == What::Slots {
            return;
        }
        if shown.is_nothing() {
            return self.check_trap(number);
        }
        // All of a linear map is one kind of memory.
        if self.oracle.is_inside(area) {
            let can_fetch = self.program.look.can_fetch(self.space.platform(), cpu, number);
            let is_right = can_fetch.is_none_or(|can| can == (area.protection == Protection::ReadExecute));
            assert!(is_right, "page {page} of {}: {can_fetch:?}", self.outline(nth));
        }
        let linear = self.linear_page(shown);
        let number = linear.filter(|_| self.source.chance(64)).unwrap_or(number);
        let seen = self.program.look.read(self.space.platform(), cpu, number);
        match (seen, self.oracle.word(shown)) {
            (Seen::Unknown, _) | (Seen::Mixed, None) => {}
            (Seen::Word(found), None) => self.oracle.set_word(nth, page, found),
            (Seen::Word(found), Some(word)) if found == word => {}
            (seen, want) => {
                let area = self.outline(nth);
                panic!("page {page} of {area}, {number:#x}, shows {seen:x?} on CPU {cpu}, not {want:x?}")
            }
        }
    }

    /// Returns the page at which the linear map shows a frame.
    fn linear_page(&self, shown: Shown) -> Option<u64> {
        let (linear, Shown::Frame(frame)) = (self.space.geometry().linear_map?, shown) else { return None };
        (frame < linear.len()).then(|| linear.start() + frame)
    }

    /// Looks at a page that leads nowhere.
    pub(crate) fn check_trap(&mut self, page: u64) {
        let cpu = self.any_cpu();
        let leads = self.program.look.leads(self.space.platform(), cpu, page) == Some(true);
        // Refused pages may lead somewhere until a purge has unmapped them.
        let is_excused = leads && self.is_shaky && self.waits_for_unmap();
        assert!(
            !leads || is_excused,
            "page {page:#x} can be read on CPU {cpu}: {:x?}",
            self.space.find((page as usize) << self.place.shift)
        );
    }

    /// Returns whether the platform has refused something.
    pub(crate) fn waits_for_unmap(&self) -> bool {
        let stats = self.space.stats();
        stats.pending_ranges + stats.refused_areas + stats.refused_parts > 0
    }

    fn outline(&self, nth: usize) -> String {
        let Area { what, addr, guard, protection, pages, .. } = &self.oracle.areas[nth];
        format!("{what:?} {addr:#x} ({} pages, guard {guard}, {protection:?})", pages.len())
    }

    /// Fills a page with a word that is nowhere else, or sees that this can't be done.
    pub(crate) fn write_page(&mut self, nth: usize, page: usize) {
        let (cpu, area) = (self.any_cpu(), &self.oracle.areas[nth]);
        let number = self.oracle.first_page(area) + page as u64;
        let (shown, protection) = (area.pages[page], area.protection);
        if shown.is_nothing() {
            return self.check_trap(number);
        }
        let linear = self.linear_page(shown).filter(|_| self.source.chance(64));
        let (platform, look) = (self.space.platform(), &self.program.look);
        if protection != Protection::ReadWrite && linear.is_none() {
            let is_written = look.can_write(platform, cpu, number);
            assert!(is_written != Some(true), "page {page} of {} can be written", self.outline(nth));
            return;
        }
        let word = self.oracle.fresh_word();
        look.fill(platform, cpu, linear.unwrap_or(number), word);
        self.oracle.set_word(nth, page, word);
    }

    /// Writes to some pages of an area.
    pub(crate) fn write_some(&mut self, nth: usize) {
        for page in self.sample(self.oracle.areas[nth].pages.len()) {
            self.write_page(nth, page);
        }
    }

    /// Looks at a freed range, all of which has to trap now.
    pub(crate) fn check_freed(&mut self, range: PageRange) {
        let is_known = !self.is_shared;
        for page in self.sample(range.len() as usize).into_iter().filter(|_| is_known) {
            let page = range.start() + page as u64;
            // Another area may be there, or a block.
            if self.space.find((page as usize) << self.place.shift).is_none() {
                self.check_trap(page);
            }
        }
    }
}

impl<P: Platform> fmt::Debug for Player<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.told).finish()
    }
}

impl<P: Platform> Drop for Player<'_, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last steps, with {:?}:", self.space.options());
            self.told.iter().for_each(|told| eprintln!("  {told}"));
        }
    }
}

/// Returns an area without guard and tag.
pub(crate) fn area(what: What, addr: usize, pages: Vec<Shown>) -> Area {
    Area {
        what,
        addr,
        guard: false,
        tag: None,
        record: 0,
        within: None,
        protection: Protection::ReadWrite,
        pages,
    }
}
