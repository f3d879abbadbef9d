//! Core dumps: a debugger writes every address of a mapping that is not left out (`dd` among its
//! flags), with memory or without.

use crate::common::{in_own_process, opened};
use std::fs;
use vmalloc::{Frame, FrameSupply, Request, SpaceOptions};
use vmalloc_linux::{GuardMeans, LinuxOptions, open};

/// Returns the bytes of all mappings that are in dumps; `None` where /proc does not tell.
fn dumped() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps").ok()?;
    let (mut size, mut sum) = (0, 0);
    for line in text.lines() {
        if let Some(kib) = line.strip_prefix("Size:") {
            size = kib.split_whitespace().next()?.parse::<u64>().ok()? << 10;
        } else if line.strip_prefix("VmFlags:").is_some_and(|flags| !flags.contains(" dd")) {
            sum += size;
        }
    }
    Some(sum)
}

/// The default span, whose tables alone are 64 GiB of addresses and more.
#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc")]
fn dumps_have_what_is_in_use_with_every_kind_of_guards() {
    in_own_process(|| {
        let mut spaces = Vec::new();
        for guards in [GuardMeans::PteMarkers, GuardMeans::Mprotect, GuardMeans::Userfault] {
            let before = dumped().expect("/proc tells");
            let options = LinuxOptions::new().guard_means(guards).drain_thread(false);
            let Some(space) = opened(open(options, SpaceOptions::default())) else { continue };
            let areas =
                [5_000, 100_000, 20 << 20].map(|bytes| space.raw().alloc(&Request::new(bytes)).unwrap());
            let mut frames = [Frame(0)];
            space.platform().take_frames(&mut frames).expect("a frame");
            let after = dumped().expect("/proc tells");
            // Opened chunks of areas and frames, of 8 MiB, and the space's own records.
            let most = (20 << 20) + 6 * (8 << 20) + (40 << 20);
            assert!(after - before >= 20 << 20, "{guards:?}: what is in use is in dumps");
            assert!(after - before <= most, "{guards:?}: {before} and {after}");
            spaces.push((space, areas, frames));
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc")]
fn a_space_may_leave_its_areas_out_of_dumps() {
    in_own_process(|| {
        for guards in [GuardMeans::PteMarkers, GuardMeans::Mprotect, GuardMeans::Userfault] {
            let options =
                LinuxOptions::new().guard_means(guards).frame_bytes(0).dump(false).drain_thread(false);
            let Some(space) = opened(open(options, SpaceOptions::default())) else { continue };
            let before = dumped().expect("/proc tells");
            let area = space.raw().alloc(&Request::new(100 << 20)).unwrap();
            assert!(dumped().expect("/proc tells") < before + (100 << 20), "{guards:?}: {area:#x}");
        }
    });
}
