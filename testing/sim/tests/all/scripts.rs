//! The scripts that the fuzz targets play: on the seeds that are kept, and on random bytes.

use std::path::Path;
use vmalloc::{Config, Frame, FrameSupply, PageRange, Protection, Request, Space};
use vmalloc_model::env;
use vmalloc_model::script::{Script, play_random, replay};
use vmalloc_sim::{Direct, Options, Point, Sim, script};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;

fn play(name: &str, script: Script) {
    replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name), script);
    play_random(script, 2000, env::seed(1));
}

#[test]
fn mappings_of_every_kind_match_the_model() {
    play("family", script::family);
}

#[test]
fn read_matches_the_mapped_memory() {
    play("vread", script::vread);
}

#[test]
fn resized_areas_keep_their_content() {
    play("direct", script::direct);
}

/// The shortest program that shows it: a short mapping outlives a purge, is ended, and its block is
/// given up to make room.
#[test]
fn evicted_blocks_are_unmapped() {
    script::family(&[
        0x6d, 0x91, 0x00, 0x5d, 0xa2, 0x0b, 0x00, 0x00, 0x52, 0xd2, 0x55, 0x00, 0x00, 0xd1, 0x00, 0xf6, 0x00,
        0x3f, 0x00, 0xd5, 0x00, 0x00, 0xb8, 0x00, 0xce, 0x00, 0x00, 0x00, 0x00, 0x59, 0x00, 0xc7, 0x00, 0x95,
        0x00, 0x0b, 0xfa, 0x00, 0x00, 0xac, 0x34,
    ]);
}

#[test]
#[allow(unsafe_code)]
fn unmapping_pages_can_be_repeated_after_a_refusal() {
    let sim = Options::new(PageRange::new(0x100, 0x200).unwrap()).build();
    let space = Space::new(sim, Config::default()).unwrap();
    let mut frames = [Frame(0); 4];
    space.platform().take_frames(&mut frames).unwrap();
    let addr = space.raw().alloc_sparse(&Request::new(4 * PAGE)).unwrap();
    // SAFETY: the pages are the test's, and the simulator has no memory behind them.
    unsafe {
        space.raw().map_pages(addr, &frames, Protection::ReadWrite).unwrap();
        space.platform().fail_nth(Point::Unmap, 1);
        assert!(space.raw().unmap_pages(addr, 4).is_err());
        space.raw().unmap_pages(addr, 4).unwrap();
        // Nothing of it is left: it can be mapped again.
        space.raw().map_pages(addr, &frames, Protection::ReadWrite).unwrap();
    }
}

#[test]
#[allow(unsafe_code)]
fn area_grows_again_after_a_refused_shrink() {
    for point in [Point::Unmap, Point::Flush] {
        let space = Space::new(Direct::new(64, |options| options), Config::default()).unwrap();
        let addr = space.raw().alloc(&Request::new(8 * PAGE)).unwrap();
        space.purge().unwrap();
        space.platform().sim().fail_nth(point, 1);
        // SAFETY: the area is the test's, throughout.
        unsafe {
            assert_eq!(space.raw().realloc(addr, &vmalloc::Request::new(4 * PAGE)), Ok(addr));
            space.purge().unwrap();
            assert_eq!(space.raw().realloc(addr, &vmalloc::Request::new(8 * PAGE)), Ok(addr));
            space.raw().free(addr).unwrap();
        }
        space.purge().unwrap();
        assert_eq!(space.platform().sim().check_end(), []);
    }
}
