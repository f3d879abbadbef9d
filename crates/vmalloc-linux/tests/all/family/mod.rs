//! The whole family on real memory: what every kind of mapping shows, where it traps, and what it
//! gives back.

mod limits;
mod read;
mod realloc;

use crate::common::*;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{AllocError, Frame, Platform, PlatformFault, Request, Resize, Space, SpaceOptions, Unbacked};
use vmalloc_harness::env;
use vmalloc_linux::{Linux, LinuxOptions};
use vmalloc_short::ShortMaps;

fn span() -> usize {
    page_bytes() << 18
}
/// The supply, in frames: few enough to be taken all in the end.
const FRAMES: usize = 1 << 14;

/// Mappings that chunks which stay open may cost, however many areas there were in them.
const OPEN_CHUNKS: usize = 32;

fn options() -> LinuxOptions {
    LinuxOptions::new().max_bytes(span()).frame_bytes(FRAMES * page_bytes()).drain_thread(false)
}

/// Runs the scenario for each way to guard, and asserts that everything is as it was afterwards.
fn in_both_modes(space_options: SpaceOptions, scenario: impl Fn(&Space<Linux>)) {
    for space in spaces(options(), space_options) {
        scenario(&space);
        assert_all_whole(&space);
    }
}

/// Everything freed and purged: the span is one free range in which nothing is mapped, and all
/// frames are in the supply.
#[track_caller]
fn assert_all_whole(space: &Space<Linux>) {
    assert_whole(space);
    let linux = space.platform();
    if let Some(linear) = linux.geometry().linear_map.filter(|linear| linear.len() <= FRAMES as u64) {
        give(linux, &take(linux, linear.len() as usize));
    }
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
