//! Machines of every kind, and programs of bytes on them: what a fuzzer drives, and tests replay.

use crate::look::{self, Blind};
use crate::play::Program;
use crate::settings::random_options;
use crate::sim::SimLook;
use vmalloc::{
    Frame, FrameSupply, MapFrames, MemoryCost, Origin, PageRange, Platform, Protect, ReadNofault, Space,
    Translate,
};
use vmalloc_model::{Bytes, Source};
use vmalloc_sim::harness::Simulated;
use vmalloc_sim::{Direct, Discard, Options, Sim};

const START: u64 = 0x10_0003;
/// Frames of a machine, those of one that has few, and those of devices behind them.
const FRAMES: u64 = 0x2000;
const FEW: u64 = 200;
const DEVICES: u64 = 8;

/// Returns one of 128 combinations of what a simulated machine can do, with one to three CPUs. It
/// unmaps discarded pages, replaces what is mapped, has a linear map, leaves zeroing to the space,
/// advises to reuse larger areas, has small TLBs, or few frames.
pub fn machine(pages: u64, powers: u64) -> Options {
    let span = PageRange::from_len(START, pages).expect("not empty");
    let power = |nth: u64| powers >> nth & 1 != 0;
    let mut options = Options::new(span).cpus(1 + powers as usize % 3).frames(FRAMES).huge_order(3);
    options = options.devices(DEVICES).seed(1);
    if power(0) {
        options = options.discard(Discard::Keeps);
    }
    if power(1) {
        options = options.remaps_atomically();
    }
    if power(2) {
        options = options.linear(START + 2 * pages);
    }
    if power(3) {
        options = options.dirty();
    }
    if power(4) {
        options = options.memory_cost(MemoryCost::Dear).max_slack_percent(25);
    }
    if power(5) {
        options = options.tlb_entries(8);
    }
    if power(6) { options.frames(FEW) } else { options }
}

/// Returns a simulated machine with memory at its addresses, which can relocate pages or has two
/// CPUs. Not both: another CPU's translation of a relocated page leads to its memory until the old
/// address is flushed, and the memory may be given back through the new one before that.
pub fn direct(pages: u64, powers: u64) -> Direct {
    Direct::new(pages, |options| {
        let options = options.huge_order(3);
        let options = if powers & 1 == 0 { options.cpus(2) } else { options.cpus(1).relocates() };
        if powers & 2 == 0 { options } else { options.dirty() }
    })
}

/// Returns programs on a simulated machine, or on a part of one.
pub fn on_machine<P>(devices: impl IntoIterator<Item = Frame>) -> Program<P>
where
    P: Simulated + MapFrames + Protect + vmalloc::Discard + ReadNofault + Translate,
{
    let program = Program::new(SimLook(Blind)).frames().devices(devices).protect().discard();
    program.read_nofault().translate()
}

/// Returns the frames of devices of a [`machine`].
pub fn devices(sim: &Sim) -> impl Iterator<Item = Frame> {
    let is_device = |frame: &Frame| sim.origin(*frame) == Origin::Device;
    let all: Vec<_> = (0..FRAMES + DEVICES).map(Frame).filter(is_device).collect();
    all.into_iter()
}

/// Returns programs on a simulated machine with memory.
pub fn on_direct() -> Program<Direct> {
    Program::new(SimLook(look::Direct))
        .protect()
        .memory()
        .resize()
        .code()
        .discard()
        .read_nofault()
        .translate()
}

/// Plays a program of bytes on a [`machine`], which the first choose.
pub fn play_sim(input: &[u8]) {
    let mut source = Bytes::new(input);
    let sim = machine(1 << 11, source.below(128)).build();
    let space_options = random_options(&mut source, sim.geometry().page_bytes());
    let program = on_machine(devices(&sim));
    program.play(Space::new(sim, space_options).expect("an empty space"), &mut source, usize::MAX);
}

/// Plays a program of bytes on a [`direct`] machine, which the first choose.
pub fn play_direct(input: &[u8]) {
    let mut source = Bytes::new(input);
    let direct = direct(1 << 10, source.below(4));
    let space_options = random_options(&mut source, direct.geometry().page_bytes());
    let space = Space::new(direct, space_options).expect("an empty space");
    on_direct().play(space, &mut source, usize::MAX);
}
