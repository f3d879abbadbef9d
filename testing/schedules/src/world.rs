//! A small space on a small machine, and how the threads of a scenario use it.

use crate::explore::{end_alone, leave_others_behind};
use crate::lock::Lock;
use crate::machine::{MEMORY_PAGES, Machine, PAGE, memory_start};
use shuttle::thread::{self, JoinHandle};
use std::ops::Deref;
use std::sync::Arc;
use vmalloc::{
    AllocError, DrainStatus, Frame, FrameSupply, FreeError, PageRange, Request, Space, SpaceOptions,
};
use vmalloc_short::ShortMaps;
use vmalloc_sim::{Options, Sim};

/// Returns the CPU that the calling thread is on: one for each thread, in the order in which they
/// were spawned.
pub fn here() -> usize {
    usize::from(shuttle::current::me())
}

/// A space that the threads of one schedule share.
#[derive(Clone)]
pub struct World(Arc<Space<Machine>>);

impl Deref for World {
    type Target = Space<Machine>;
    fn deref(&self) -> &Space<Machine> {
        &self.0
    }
}

impl World {
    /// Bytes of a page.
    pub const PAGE: usize = PAGE;

    /// Returns a space of `pages` pages, one CPU for each of up to four threads.
    pub fn new(pages: u64, space_options: SpaceOptions) -> Self {
        Self::on(Self::options(pages), space_options)
    }

    /// Returns the first page.
    pub fn start() -> u64 {
        memory_start()
    }

    /// Returns the simulator's settings for so many pages.
    pub fn options(pages: u64) -> Options {
        let span = PageRange::from_len(Self::start(), pages).filter(|span| span.len() <= MEMORY_PAGES);
        let span = span.expect("as many pages as there are");
        Options::new(span).cpus(4).current_cpu(here)
    }

    /// Returns a space on a machine with these settings.
    pub fn on(options: Options, space_options: SpaceOptions) -> Self {
        Self(Arc::new(Space::new(Self::machine(options), space_options).expect("an empty space")))
    }

    /// Returns the machine alone, for scenarios that divide it.
    pub fn machine(options: Options) -> Machine {
        Machine::new(options.build_with())
    }

    /// Returns the settings of most scenarios: nothing is cached, no guards, and little is lazy.
    pub fn tight() -> SpaceOptions {
        SpaceOptions::default().unmap_on_free().guard(false).lazy_max_pages(4)
    }

    /// Runs the threads, to their end. Returns what each returned.
    pub fn run<T: Send + 'static, const N: usize>(&self, threads: [fn(&World) -> T; N]) -> [T; N] {
        threads.map(|body| self.beside(body)).map(ended)
    }

    /// Begins a thread.
    pub fn beside<T: Send + 'static>(
        &self,
        body: impl FnOnce(&World) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let world = self.clone();
        thread::spawn(move || body(&world))
    }

    fn sim(&self) -> &Sim<Lock> {
        self.platform().sim()
    }

    /// Allocates `pages` pages and writes to each.
    pub fn try_take(&self, pages: u64) -> Result<usize, AllocError> {
        let addr = self.raw().alloc(&Request::new(pages as usize * Self::PAGE))?;
        self.mark(addr, pages);
        Ok(addr)
    }

    /// Allocates an area; it must succeed.
    pub fn take(&self, pages: u64) -> usize {
        self.try_take(pages).unwrap_or_else(|error| panic!("no area of {pages} pages: {error}"))
    }

    /// Reads each of `pages` pages from here, and frees them.
    pub fn give(&self, addr: usize, pages: u64) {
        self.check_mark(addr, pages);
        // SAFETY: nothing is behind the addresses of a simulated machine.
        unsafe { self.raw().free(addr) }.expect("it was allocated");
    }

    /// Frees an area as from an interrupt, if that works.
    pub fn give_atomic(&self, addr: usize, pages: u64) {
        self.check_mark(addr, pages);
        // SAFETY: as in `give`; nothing else uses the memory behind the area.
        match unsafe { self.raw().free_atomic(addr) } {
            Err(FreeError::Contended { .. }) => self.give(addr, pages),
            result => result.expect("it was allocated"),
        }
    }

    /// Frees an area without a look at its content.
    pub fn free(&self, addr: usize) -> bool {
        // SAFETY: as in `give`.
        unsafe { self.raw().free(addr) }.is_ok()
    }

    /// Returns the short mappings.
    pub fn short(&self) -> ShortMaps<&Space<Machine>> {
        ShortMaps::of(&*self.0).expect("memory for their records")
    }

    /// Maps `pages` frames of its own for a short while, and writes to each.
    pub fn map_ram(&self, pages: u64) -> Mapping {
        let mut frames = vec![Frame(0); pages as usize];
        self.platform().take_frames(&mut frames).expect("there are many");
        let addr = self.short().map(&frames).unwrap_or_else(|error| panic!("no {pages} slots: {error}"));
        self.mark(addr, pages);
        Mapping { addr, frames }
    }

    /// Writes to each page of an area, from here.
    fn mark(&self, addr: usize, pages: u64) {
        for page in page_of(addr)..page_of(addr) + pages {
            self.sim().write(here(), page, tag(page, pages)).expect("it is mapped");
        }
    }

    /// Reads what was written there.
    fn check_mark(&self, addr: usize, pages: u64) {
        for page in page_of(addr)..page_of(addr) + pages {
            assert_eq!(self.sim().read(here(), page), Ok(tag(page, pages)), "page {page:#x}");
        }
    }

    /// Reads a short mapping from here, ends it, and gives its frames back at once.
    pub fn unmap_ram(&self, mapping: Mapping) {
        self.check_mark(mapping.addr, mapping.frames.len() as u64);
        assert!(self.try_unmap_ram(&mapping), "it is mapped");
        // SAFETY: nothing uses them any more.
        unsafe { self.platform().give_frames(&mapping.frames) };
    }

    /// Ends a short mapping, if it is one.
    pub fn try_unmap_ram(&self, mapping: &Mapping) -> bool {
        // SAFETY: nothing is behind the addresses of a simulated machine.
        unsafe { self.short().unmap(mapping.addr, mapping.frames.len()) }.is_ok()
    }

    /// Goes on as the child of a fork: of all threads only this one is left, with everything as the
    /// others had it at that moment. What `child` leaves must be whole, but for what others have;
    /// then the schedule ends.
    pub fn fork(&self, child: impl FnOnce(&World)) {
        self.become_child();
        child(self);
        self.end_child();
    }

    /// Checks that what the child leaves is whole, but for what others have, and ends the schedule.
    pub fn end_child(&self) {
        self.purge().expect("no fault was asked for");
        self.verify().expect("every invariant holds at the end");
        let stats = self.stats();
        assert_eq!((stats.lazy_pages, stats.lazy_areas), (0, 0), "the counts return to zero");
        assert_eq!(self.sim().audit(), []);
        end_alone();
    }

    /// Makes the calling thread the only one: the child of a fork, which finds everything whole.
    pub fn become_child(&self) {
        self.quiesce();
        // The locks of a platform are held over forks as well.
        self.sim().at_rest(leave_others_behind);
        // SAFETY: this thread has just called `quiesce`, and there is no other any more.
        unsafe { self.resume_in_child() };
        self.verify().expect("every invariant holds in the child");
    }

    /// Purges, which no fault keeps from it.
    pub fn purge_all(&self) {
        self.purge().expect("no fault was asked for");
    }

    /// Flushes, which no fault keeps from it.
    pub fn flush_all(&self) {
        self.flush().expect("no fault was asked for");
    }

    /// Drains once, which no fault keeps from it.
    pub fn drain_once(&self) -> DrainStatus {
        self.drain().expect("no fault was asked for")
    }

    /// Checks the end, when everything was freed: nothing is kept, counted or leaked, and the span
    /// is one free range.
    pub fn finish(&self) {
        self.purge().expect("no fault was asked for");
        self.verify().expect("every invariant holds");
        let stats = self.stats();
        let pages = stats.span_pages;
        assert_eq!((stats.free_pages, stats.largest_free_pages), (pages, pages), "one free range");
        assert_eq!((stats.lazy_pages, stats.lazy_areas), (0, 0), "the counts return to zero");
        assert_eq!(self.shrinkable(), 0);
        assert_eq!(stats.tenant_areas, 0, "every block is given back");
        assert_eq!((self.sim().check_end(), self.sim().taken_frames()), (vec![], vec![]));
    }
}

/// Waits for a thread, and returns what it returned.
pub(crate) fn ended<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread ends")
}

/// A short mapping.
pub struct Mapping {
    /// Where it begins.
    pub addr: usize,
    /// The frames that it shows.
    pub frames: Vec<Frame>,
}

/// Returns the page that begins at an address.
pub(crate) fn page_of(addr: usize) -> u64 {
    (addr / PAGE) as u64
}

/// Returns the word that is written to a page.
fn tag(page: u64, pages: u64) -> u64 {
    page << 8 | pages
}
