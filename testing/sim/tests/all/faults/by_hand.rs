//! A mapping of frames made of the platform's calls alone: what the steps of such calls are, and
//! how they are undone.

use super::scene::{PAGE, Scene, configs};
use super::table;
use std::sync::Arc;
use vmalloc::{
    Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformError, Protect, Protection, Relocate,
    Request, Space,
};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::{Direct, Point, Sim};

/// Pages of a mapping.
const PAGES: usize = 6;

/// A mapping, when it is made.
type Mapping = Option<(usize, [Frame; PAGES])>;

fn range(addr: usize) -> PageRange {
    PageRange::from_len((addr / PAGE) as u64, PAGES as u64).expect("not empty")
}

/// The call that failed.
type Failed = &'static str;

fn failed<E>(call: Failed) -> impl FnOnce(E) -> Failed {
    move |_| call
}

/// Addresses, frames, translations, and their protection, in this order; undone in the other.
fn map(space: &Space<Sim>, mapping: &mut Mapping) -> Result<(), Failed> {
    let addr = space.raw().reserve(&Request::new(PAGES * PAGE)).map_err(failed("reserve"))?;
    let mut frames = [Frame(0); PAGES];
    let sim = space.platform();
    if let Err(error) = sim.take_frames(&mut frames) {
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().unreserve(addr) }.expect("it is reserved");
        return Err(error.call);
    }
    // SAFETY: the range was just reserved, and the frames were taken.
    let mapped = unsafe { sim.map_frames(range(addr), &frames, Protection::ReadWrite) };
    // SAFETY: the range is the caller's.
    let mapped = mapped.and_then(|()| unsafe { sim.protect(range(addr), Protection::Read) });
    if let Err(error) = mapped {
        give_up(space, addr, &frames);
        return Err(error.call);
    }
    *mapping = Some((addr, frames));
    Ok(())
}

fn give_up(space: &Space<Sim>, addr: usize, frames: &[Frame]) {
    let sim = space.platform();
    // SAFETY: nothing was told of the mapping, or uses it any more.
    unsafe {
        if sim.frame_at(range(addr).start()).is_some() {
            sim.discard_hint(range(addr));
        }
        sim.give_frames(frames);
    }
    // SAFETY: nothing uses the addresses any more.
    unsafe { space.raw().unreserve(addr) }.expect("it is reserved");
}

/// Undoes a mapping, if there is one.
fn unmap(space: &Space<Sim>, mapping: &mut Mapping) {
    if let Some((addr, frames)) = mapping.take() {
        give_up(space, addr, &frames);
    }
}

fn release(space: &Space<Sim>, mut mapping: Mapping) {
    unmap(space, &mut mapping);
    free_all(space);
}

#[test]
fn frames_by_hand() {
    for (config, settings) in configs().into_iter().filter(|(_, settings)| settings.lazy_max_pages != 1) {
        let empty = move || (Scene::empty(settings).build().0, None);
        let unmapped = move || {
            let (space, mut mapping) = empty();
            map(&space, &mut mapping).expect("nothing fails");
            (0..3).for_each(|cpu| space.platform().prefetch(cpu, space.geometry().span));
            unmap(&space, &mut mapping);
            (space, mapping)
        };
        let steps = [Point::TakeFrames, Point::MapFrames, Point::Protect].map(Step::Machine);
        table(
            config,
            [
                Case::new("map by hand", empty, map, release).meets(steps).meets([Step::Heap]),
                Case::new("purge after unmap by hand", unmapped, |space, _| space.purge(), release)
                    .meets([Point::Unmap, Point::Flush].map(Step::Machine)),
            ],
        );
    }
}

/// The first of a run of frames.
type Run = Option<Frame>;

/// Huge pages behind addresses, and a run of frames.
fn map_huge(space: &Space<Sim>, run: &mut Run) -> Result<(), Failed> {
    let request = Request::new(20 * PAGE).align(8 * PAGE);
    let addr = space.raw().reserve(&request).map_err(failed("reserve"))?;
    let range = PageRange::from_len((addr / PAGE) as u64, 20).expect("not empty");
    let sim = space.platform();
    // SAFETY: the range was just reserved.
    let mapped = unsafe { sim.map_huge(range, Protection::ReadWrite) };
    match mapped.and_then(|()| sim.take_run(8, 8)) {
        Ok(first) => {
            *run = Some(first);
            Ok(())
        }
        Err(error) => {
            // SAFETY: nothing uses the addresses any more.
            unsafe { space.raw().unreserve(addr) }.expect("it is reserved");
            Err(error.call)
        }
    }
}

#[test]
fn huge_pages_and_runs_by_hand() {
    for (config, settings) in configs() {
        let empty = move || (Scene::empty(settings).build().0, None);
        let release = |space: &Space<Sim>, run: Run| {
            let frames: Vec<Frame> = run.map_or(vec![], |first| (0..8).map(|nth| first.plus(nth)).collect());
            // SAFETY: the frames were never mapped.
            unsafe { space.platform().give_frames(&frames) };
            free_all(space);
        };
        let steps = [Point::MapHuge, Point::HugePage, Point::Frame, Point::TakeRun].map(Step::Machine);
        table(config, [Case::new("map_huge by hand", empty, map_huge, release).meets(steps)]);
    }
}

/// Two areas of a space that is shared.
struct Move {
    space: Arc<Space<Direct>>,
    from: usize,
    to: usize,
}

impl Move {
    fn pages(&self) -> [PageRange; 2] {
        [self.from, self.to].map(range)
    }
}

/// Moves the memory of the first to the second.
fn relocate(space: &Space<Direct>, state: &mut Move) -> Result<(), PlatformError> {
    let [from, to] = state.pages();
    // SAFETY: both are the test's; the first is mapped.
    unsafe { space.platform().relocate(from, to) }
}

#[test]
fn relocation_by_hand() {
    for (config, settings) in configs() {
        let mapped = move || {
            let space = Arc::new(Scene::empty(settings).build_direct().0);
            let [from, to] =
                [0; 2].map(|_| space.raw().reserve(&Request::new(PAGES * PAGE)).expect("there is room"));
            let state = Move { space: space.clone(), from, to };
            // SAFETY: the range was reserved.
            unsafe { space.platform().map(state.pages()[0], Protection::ReadWrite) }.expect("nothing fails");
            (space, state)
        };
        let release = |_: &Space<Direct>, state: Move| free_all(&state.space);
        table(
            config,
            [Case::new("relocate by hand", mapped, relocate, release)
                .meets([Step::Machine(Point::Relocate)])],
        );
    }
}
