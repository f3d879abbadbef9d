//! A machine that is made of this program's memory.

use crate::format::{Format, X86Levels4};
use crate::machine::{Interrupts, Machine, Reach};
use core::fmt;
use core::marker::PhantomData;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::boxed::Box;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::vec::Vec;
use vmalloc::{Frame, Origin, PageRange, PlatformFault};

const CPUS: usize = 2;

std::thread_local! {
    /// The CPU that this thread runs on.
    pub(crate) static CPU: Cell<usize> = const { Cell::new(0) };
    /// The moves of this thread, a bit for each time that it may: when it was told its CPU with
    /// interrupts on, and when they are on again. Where the lowest bit is set, it moves to the
    /// other CPU.
    pub(crate) static MOVES: Cell<u64> = const { Cell::new(0) };
    /// How often interrupts are off, for each CPU that this thread has run on.
    static OFF: Cell<[usize; CPUS]> = const { Cell::new([0; CPUS]) };
}

/// Returns true if the CPU that runs this has interrupts on.
pub(crate) fn is_interruptible() -> bool {
    OFF.get()[CPU.get()] == 0
}

/// Moves this thread to the other CPU, if it is to move and may.
fn move_on() {
    if is_interruptible() && MOVES.replace(MOVES.get() >> 1) & 1 != 0 {
        CPU.set(CPUS - 1 - CPU.get());
    }
}

/// A thing that a CPU was told to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forgot {
    Page(u64),
    All,
}

/// A look at what a CPU forgets.
pub(crate) type OnForget = Box<dyn FnMut(&[PageRange]) + Send>;
/// The handler of an interrupt, for the CPU of a number.
pub(crate) type Handler = Box<dyn FnMut(usize) + Send>;
/// An act of another CPU at a step of a walk.
pub(crate) type Act = Box<dyn FnOnce() + Send>;

/// A machine whose tables have the format `F`.
pub(crate) struct Fake<F = X86Levels4> {
    format: PhantomData<F>,
    /// Its answers.
    pub(crate) translation: u64,
    pub(crate) reach: Reach,
    pub(crate) root: Frame,
    pub(crate) memory: *mut u8,
    pub(crate) frames: u64,
    layout: Layout,
    pub(crate) free: Mutex<BTreeSet<u64>>,
    /// Frames that were taken so far.
    pub(crate) taken: Arc<AtomicU64>,
    /// Frames that may still be taken; then the supply refuses.
    pub(crate) left: AtomicU64,
    /// Runs, on other CPUs, when frames come back.
    pub(crate) on_return: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// Runs when a CPU is interrupted, with its number.
    pub(crate) on_interrupt: Mutex<Option<Handler>>,
    /// Runs at a step of a walk: with the number of steps that are left until then, 0 for never.
    pub(crate) on_step: Mutex<(usize, Option<Act>)>,
    /// Runs when a CPU forgets pages.
    pub(crate) on_forget: Mutex<Option<OnForget>>,
    pub(crate) forgot: [Mutex<Vec<Forgot>>; CPUS],
    pub(crate) interrupted: [AtomicBool; CPUS],
    pub(crate) online: [AtomicBool; CPUS],
    /// True if every CPU answers sooner or later, however busy the machine of the test is.
    pub(crate) answers: AtomicBool,
}

// SAFETY: the memory is only used through the platform and by its owner.
unsafe impl<F> Send for Fake<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for Fake<F> {}

const ROOT: u64 = 1;

impl Fake {
    /// Returns a machine of x86-64.
    pub(crate) fn new(frames: u64) -> Self {
        // `CR4` with entries of 64 bits.
        Self::with(frames, 1 << 5, Reach::This)
    }
}

impl<F: Format> Fake<F> {
    pub(crate) fn with(frames: u64, translation: u64, reach: Reach) -> Self {
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(Self::layout(frames)) };
        Self {
            format: PhantomData,
            translation,
            reach,
            root: Frame(ROOT),
            memory,
            frames,
            layout: Self::layout(frames),
            free: Mutex::new((2..frames).collect()),
            taken: Arc::default(),
            left: AtomicU64::new(u64::MAX),
            on_return: Mutex::new(None),
            on_interrupt: Mutex::new(None),
            on_step: Mutex::default(),
            on_forget: Mutex::new(None),
            forgot: Default::default(),
            interrupted: Default::default(),
            online: [AtomicBool::new(true), AtomicBool::new(false)],
            answers: AtomicBool::new(false),
        }
    }

    /// Counts a step of a walk.
    fn step(&self) {
        let mut on_step = self.on_step.lock().expect("no panic");
        let (left, act) = &mut *on_step;
        *left = left.saturating_sub(1);
        let act = if *left == 0 { act.take() } else { None };
        drop(on_step);
        if let Some(act) = act {
            act();
        }
    }

    /// Fills frames that come back with what reads as present entries that lead to frame 0, which
    /// the supply never hands out.
    fn scribble(&self, frames: &[Frame]) {
        for frame in frames {
            let words = self.memory.wrapping_add((frame.0 << F::PAGE_SHIFT) as usize).cast::<u64>();
            for nth in 0..1 << (F::PAGE_SHIFT - 3) {
                // SAFETY: a frame of this memory, which nothing uses. Volatile, as others may read
                // it against the rules.
                unsafe { words.wrapping_add(nth).write_volatile(F::PRESENT) };
            }
        }
    }

    fn layout(frames: u64) -> Layout {
        Layout::from_size_align((frames << F::PAGE_SHIFT) as usize, 1 << F::PAGE_SHIFT).expect("a layout")
    }

    pub(crate) fn forgotten(&self, cpu: usize) -> Vec<Forgot> {
        std::mem::take(&mut self.forgot[cpu].lock().expect("no panic"))
    }

    pub(crate) fn free(&self) -> usize {
        self.free.lock().expect("no panic").len()
    }

    pub(crate) fn may_take(&self, count: u64) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count)).is_ok()
    }
}

impl<F> Drop for Fake<F> {
    fn drop(&mut self) {
        // SAFETY: allocated so in `new`.
        unsafe { dealloc(self.memory, self.layout) };
    }
}

// SAFETY: no handler of a test runs on a CPU that has interrupts off, and no thread moves there.
unsafe impl<F: Format> Interrupts for Fake<F> {
    fn off() {
        let mut off = OFF.get();
        off[CPU.get()] += 1;
        OFF.set(off);
    }
    fn on() {
        let mut off = OFF.get();
        off[CPU.get()] -= 1;
        OFF.set(off);
        move_on();
    }
}

// SAFETY: the memory is one piece, frames are kept in a set, and there is no processor whose
// translations matter.
unsafe impl<F: Format> Machine for Fake<F> {
    type Format = F;
    type Context = ();
    fn cpu(&self) -> usize {
        let cpu = CPU.get();
        move_on();
        cpu
    }
    fn cpus(&self) -> usize {
        CPUS
    }
    fn is_online(&self, cpu: usize) -> bool {
        self.online[cpu].load(Ordering::SeqCst)
    }
    fn root(&self) -> Frame {
        self.root
    }
    fn direct_map(&self) -> usize {
        // A walk asks for it at each table that it comes to, before it reads there.
        self.step();
        self.memory.expose_provenance()
    }
    fn frames(&self) -> u64 {
        self.frames
    }
    fn take_frames(&self, frames: &mut [Frame], (): ()) -> Result<(), PlatformFault> {
        let mut free = self.free.lock().expect("no panic");
        if free.len() < frames.len() || !self.may_take(frames.len() as u64) {
            return Err(PlatformFault::OutOfMemory);
        }
        self.taken.fetch_add(frames.len() as u64, Ordering::Relaxed);
        frames.fill_with(|| Frame(free.pop_first().expect("counted")));
        Ok(())
    }
    fn take_run(&self, count: u64, align: u64, (): ()) -> Option<Frame> {
        let mut free = self.free.lock().expect("no panic");
        let mut starts = (align..self.frames.saturating_sub(count)).step_by(align as usize);
        let first = starts.find(|&first| (first..first + count).all(|frame| free.contains(&frame)))?;
        if !self.may_take(count) {
            return None;
        }
        (first..first + count).for_each(|frame| assert!(free.remove(&frame)));
        Some(Frame(first))
    }
    unsafe fn give_frames(&self, frames: &[Frame]) {
        self.scribble(frames);
        let mut free = self.free.lock().expect("no panic");
        frames.iter().for_each(|frame| assert!(free.insert(frame.0), "given twice: {frame:?}"));
        drop(free);
        if let Some(act) = &mut *self.on_return.lock().expect("no panic")
            && !frames.is_empty()
        {
            act();
        }
    }
    fn origin(&self, frame: Frame) -> Origin {
        if frame.0 < self.frames { Origin::Supply } else { Origin::Device }
    }
    fn translation(&self) -> u64 {
        self.translation
    }
    fn forget(&self, ranges: &[PageRange]) {
        if let Some(act) = &mut *self.on_forget.lock().expect("no panic") {
            act(ranges);
        }
        let pages = ranges.iter().flat_map(|range| range.start()..range.end());
        self.forgot[CPU.get()].lock().expect("no panic").extend(pages.map(Forgot::Page));
    }
    fn forget_all(&self) {
        self.forgot[CPU.get()].lock().expect("no panic").push(Forgot::All);
    }
    fn reach(&self) -> Reach {
        self.reach
    }
    fn interrupt(&self, cpu: usize) {
        self.interrupted[cpu].store(true, Ordering::SeqCst);
        if let Some(act) = &mut *self.on_interrupt.lock().expect("no panic") {
            act(cpu);
        }
    }
    fn blocking(&self) -> u64 {
        if self.answers.load(Ordering::SeqCst) { u64::MAX } else { 1 << 20 }
    }
    fn entropy(&self) -> u64 {
        7
    }
    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}
