//! Limits on the resources of a process, set before a space is opened and after.

use super::exercise::{Owed, exercise};
use super::{all_options, everywhere, finish, for_both_guards};
use crate::common::process::limited;
use crate::common::{in_own_process, opened, status_bytes};
use rustix::process::Resource;
use vmalloc::{PlatformFault, SpaceOptions};
use vmalloc_linux::{Error, GuardMeans, LinuxOptions, ReserveError, open};

#[test]
fn without_descriptors_there_are_areas_and_no_frames() {
    in_own_process(|| {
        for_both_guards(|space| {
            let done = limited(Resource::Nofile, 0, || exercise(space));
            assert!(done.worked > 20);
            done.refused_by(|cause| cause.code == libc::EMFILE);
            finish(space, done.owed);
        });
    });
}

/// A space that was opened with descriptors, and goes on without new ones; and one that is opened
/// without.
#[test]
fn without_descriptors_a_space_is_opened_and_purged() {
    in_own_process(|| {
        everywhere(|space| {
            exercise(space).owed.give(space);
            let done = limited(Resource::Nofile, 0, || exercise(space));
            assert!(done.refusals.is_empty(), "{:?}", done.refusals);
            finish(space, done.owed);
        });
        for (guards, space_options) in
            GuardMeans::all().flat_map(|guards| all_options().map(|space_options| (guards, space_options)))
        {
            match limited(Resource::Nofile, 0, || {
                open(LinuxOptions::new().guard_means(guards), space_options)
            }) {
                Ok(space) => finish(&space, Owed::default()),
                // A means that is a descriptor itself.
                Err(Error::Reserve(ReserveError::Unsupported { code: libc::EMFILE, .. })) => {}
                refused => _ = opened(refused),
            }
        }
    });
}

#[test]
#[cfg_attr(
    target_env = "musl",
    ignore = "its heap keeps nothing in reserve, so the test's own memory is refused"
)]
fn where_addresses_are_short_everything_works_or_says_so() {
    in_own_process(|| {
        let used = status_bytes("VmSize:");
        // Not even the smallest span; a small one without frames; enough.
        let refused = limited(Resource::As, used + (10 << 20), || {
            open(LinuxOptions::new(), SpaceOptions::default()).err()
        });
        assert!(refused.unwrap().to_string().contains("RLIMIT_AS"));
        for more in [160 << 20, 512 << 20] {
            limited(Resource::As, used + more, || {
                for space_options in all_options() {
                    let space = open(LinuxOptions::new(), space_options).unwrap();
                    let done = exercise(&space);
                    assert!(done.worked > 20);
                    let faults = [PlatformFault::OutOfMemory, PlatformFault::Unsupported];
                    done.refused_by(|cause| faults.contains(&cause.fault));
                    finish_small(&space, done.owed);
                }
            });
        }
        for_both_guards(|space| {
            let done = limited(Resource::As, status_bytes("VmSize:"), || exercise(space));
            assert!(done.worked > 20);
            finish(space, done.owed);
        });
    });
}

/// Does the work of `finish` in a space that may have no frames.
fn finish_small(space: &vmalloc::Space<vmalloc_linux::Linux>, owed: Owed) {
    space.purge().unwrap();
    owed.give(space);
    super::check(space);
    let stats = space.stats();
    assert_eq!((stats.free_pages, stats.refused_areas), (stats.span_pages, 0));
}

#[test]
#[cfg_attr(
    target_env = "musl",
    ignore = "its heap keeps nothing in reserve, so the test's own memory is refused"
)]
fn where_data_is_short_everything_works_or_says_so() {
    in_own_process(|| {
        for more in [0, 4 << 20, 16 << 20, 64 << 20] {
            for_both_guards(|space| {
                let done = limited(Resource::Data, status_bytes("VmData:") + more, || exercise(space));
                done.refused_by(|cause| cause.fault == PlatformFault::OutOfMemory);
                assert!(more > 0 || !done.refusals.is_empty());
                assert!(more < 64 << 20 || done.refusals.is_empty(), "{:?}", done.refusals);
                finish(space, done.owed);
            });
        }
    });
}
