//! Core dumps: a debugger writes every address of a mapping that is not left out (`dd` among its
//! flags), with memory or without.

use crate::common::trapping::{fill_stash, with_userfault};
use crate::common::*;
use vmalloc::{Request, SpaceOptions};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, LinuxOptions, open};

/// Returns the bytes of all mappings that are in dumps, by their lines of that name.
fn dumped(name: &str) -> usize {
    smaps().iter().filter(|(_, lines)| is_dumped(lines)).map(|(_, lines)| told_bytes(lines, name)).sum()
}

/// The default span, whose tables alone are 64 GiB of addresses and more.
#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc")]
fn dumps_have_what_is_in_use_with_every_kind_of_guards() {
    in_own_process(|| {
        let mut open_spaces = Vec::new();
        for guards in GuardMeans::all() {
            let before = dumped("Size:");
            let options = LinuxOptions::new().guard_means(guards).drain_thread(false);
            let Some(space) = opened(open(options, SpaceOptions::default())) else { continue };
            let areas =
                [5_000, 100_000, 20 << 20].map(|bytes| space.raw().alloc(&Request::new(bytes)).unwrap());
            let frames = take(space.platform(), 1);
            let after = dumped("Size:");
            // Opened chunks of areas and frames, and the space's own records.
            let chunk = CHUNK_PAGES as usize * page_bytes();
            let most = (20 << 20) + 6 * chunk + (40 << 20);
            assert!(after - before >= 20 << 20, "{guards:?}: what is in use is in dumps");
            assert!(after - before <= most, "{guards:?}: {before} and {after}");
            open_spaces.push((space, areas, frames));
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc")]
fn a_space_may_leave_its_areas_out_of_dumps() {
    in_own_process(|| {
        let options = LinuxOptions::new().frame_bytes(0).dump(false).drain_thread(false);
        for space in spaces(options, SpaceOptions::default()) {
            let before = dumped("Size:");
            let area = space.raw().alloc(&Request::new(20 << 20)).unwrap();
            assert!(dumped("Size:") < before + (20 << 20), "{area:#x}");
        }
    });
}

#[test]
fn freed_memory_that_is_kept_stays_out_of_dumps_as_the_span_does() {
    in_own_process(|| {
        let Some(space) = with_userfault(LinuxOptions::new().drain_thread(false).dump(false)) else {
            return;
        };
        let assert_hidden = || {
            let (before, resident) = (dumped("Anonymous:"), status_bytes("RssAnon"));
            fill_stash(&space, 500, 32);
            assert!(status_bytes("RssAnon") > resident + (40 << 20), "the stash keeps it");
            assert!(dumped("Anonymous:") < before + (8 << 20), "{before} became {}", dumped("Anonymous:"));
        };
        in_forked_child(|| {
            assert_hidden();
            true
        });
        assert_hidden();
    });
}

#[test]
fn a_span_has_a_name_and_stays_out_of_dumps() {
    let space = open(LinuxOptions::new().dump(false).name(c"vault"), SpaceOptions::default()).unwrap();
    let lines = smaps_at(space.raw().alloc(&Request::new(1)).unwrap());
    assert!(!is_dumped(&lines), "{lines:?}");
    if lines[0].contains("[anon:") {
        assert!(lines[0].ends_with("[anon:vault]"), "{}", lines[0]);
    } else {
        not_run("the name of a span", "this kernel has none");
    }
}
