//! The whole family on real memory: what every kind of mapping shows, where it traps, and what it
//! gives back.

mod limits;
mod read;
mod realloc;
mod rlimits;
mod root;
mod user;

use crate::common::{StopAtEnd, assert_whole, byte, free, is_trap, opened, scattered_frames};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{AllocError, Frame, FrameSupply, Platform, PlatformFault, Space, SpaceOptions, Unbacked};
use vmalloc_harness::env;
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};
use vmalloc_short::ShortMaps;

const PAGE: usize = 4096;
const SPAN: usize = 1 << 30;
/// The supply, in frames: few enough to be taken all in the end.
const FRAMES: usize = 1 << 14;

/// Mappings that chunks which stay open may cost, however many areas there were in them.
const OPEN_CHUNKS: usize = 32;

fn options(guards: GuardMeans) -> LinuxOptions {
    LinuxOptions::new().max_bytes(SPAN).frame_bytes(FRAMES * PAGE).guard_means(guards).drain_thread(false)
}

/// A space guarded in this way; `None` where the kernel lacks it.
fn space_with(options: LinuxOptions, space_options: SpaceOptions) -> Option<Arc<Space<Linux>>> {
    opened(open(options, space_options))
}

/// Runs the scenario for each way to guard, and asserts that everything is as it was afterwards.
fn in_both_modes(space_options: SpaceOptions, scenario: impl Fn(&Space<Linux>)) {
    for guards in GuardMeans::all() {
        if let Some(space) = space_with(options(guards), space_options) {
            eprintln!("with {guards:?}");
            scenario(&space);
            assert_all_whole(&space);
        }
    }
}

/// Everything freed and purged: the span is one free range in which nothing is mapped, and all
/// frames are in the supply.
#[track_caller]
fn assert_all_whole(space: &Space<Linux>) {
    assert_whole(space);
    let linux = space.platform();
    if let Some(linear) = linux.geometry().linear_map.filter(|linear| linear.len() <= FRAMES as u64) {
        let mut all = vec![Frame(0); linear.len() as usize];
        linux.take_frames(&mut all).expect("all frames came back");
        give(space, &all);
    }
}

fn take(space: &Space<Linux>, count: usize) -> Vec<Frame> {
    let mut frames = vec![Frame(0); count];
    space.platform().take_frames(&mut frames).unwrap();
    frames
}

/// `count` frames of which no two are neighbours.
fn take_scattered(space: &Space<Linux>, count: usize) -> Vec<Frame> {
    scattered_frames(space.platform(), count)
}

fn give(space: &Space<Linux>, frames: &[Frame]) {
    // SAFETY: the tests give back what they took and no longer use.
    unsafe { space.platform().give_frames(frames) }
}

/// The byte at `addr`, which is mapped; read by this thread itself.
fn get(addr: usize) -> u8 {
    // SAFETY: the tests have mapped the page.
    unsafe { byte(addr).read_volatile() }
}

fn set(addr: usize, value: u8) {
    // SAFETY: the tests have mapped the page, and may write to it.
    unsafe { byte(addr).write_volatile(value) }
}

/// Writes `value` to the first byte of each of `pages` pages, plus the number of the page.
fn fill_from(addr: usize, pages: usize, value: u8) {
    (0..pages).for_each(|page| set(addr + page * PAGE, value.wrapping_add(page as u8)));
}

#[track_caller]
fn assert_filled(addr: usize, pages: usize, value: u8) {
    for page in 0..pages {
        assert_eq!(get(addr + page * PAGE), value.wrapping_add(page as u8), "page {page} of {addr:#x}");
    }
}

/// The address of `frame` in the linear map.
fn linear_addr(space: &Space<Linux>, frame: Frame) -> usize {
    (space.platform().geometry().linear_map.unwrap().start() + frame.0) as usize * PAGE
}

fn vunmap(space: &Space<Linux>, addr: usize) {
    // SAFETY: the tests own what they unmap, and use it no more but by system calls that may fail.
    unsafe { space.raw().unmap(addr) }.unwrap();
}

/// Returns the short mappings of a space.
fn short<P: Platform>(space: &Space<P>) -> ShortMaps<&Space<P>> {
    ShortMaps::of(space).unwrap()
}

fn unmap_ram(space: &Space<Linux>, addr: usize, count: usize) {
    // SAFETY: as above.
    unsafe { short(space).unmap(addr, count) }.unwrap();
}

/// The refusal for want of what the platform needs, with its fault.
#[track_caller]
fn unbacked<T: std::fmt::Debug>(refused: Result<T, AllocError>, fault: PlatformFault) -> Unbacked {
    match refused {
        Err(AllocError::Unbacked(error)) if error.cause.fault == fault => error,
        other => panic!("not refused with {fault:?}: {other:?}"),
    }
}
