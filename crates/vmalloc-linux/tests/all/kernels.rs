//! Older kernels and sandboxes, played by a seccomp filter: what they refuse is done by other
//! means.

use crate::common::filter::{Lacks, take_away};
use crate::common::*;
use vmalloc::ReadNofault;
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, SpaceOptions};

const SPAN: usize = 1 << 30;

/// Maps, fills and purges many scattered ranges.
fn purge_scattered(linux: &Linux) {
    let ranges: Vec<_> = (0..40).map(|index| pages(linux, index * 8, 3)).collect();
    for range in &ranges {
        map(linux, *range);
        assert_reads(linux, *range, 0);
        fill(linux, *range, 1);
    }
    linux.do_unmap(&ranges).unwrap();
    ranges.iter().for_each(|range| assert_traps(linux, *range));
}

#[test]
fn without_process_madvise_ranges_are_purged_one_by_one() {
    in_own_process(|| {
        take_away(Lacks::ProcessMadvise);
        let linux = Linux::reserve(LinuxOptions::new(), &SpaceOptions::default()).unwrap();
        assert!(!linux.purges_in_batches());
        purge_scattered(&linux);
    });
}

#[test]
fn without_guard_marks_guards_are_by_mprotect() {
    in_own_process(|| {
        take_away(Lacks::GuardMarks);
        let linux = Linux::reserve(LinuxOptions::new(), &SpaceOptions::default()).unwrap();
        assert_eq!(linux.guard_means(), GuardMeans::Mprotect);
        purge_scattered(&linux);

        let insisting =
            Linux::reserve(LinuxOptions::new().guard_means(GuardMeans::PteMarkers), &SpaceOptions::default())
                .unwrap_err();
        assert_eq!(insisting.to_string(), "this kernel refuses madvise(MADV_GUARD_INSTALL) (errno 22)");
    });
}

/// It found a panic on Linux 6.1 without /proc: the size of pages was read from there.
#[test]
fn a_space_opens_where_no_file_tells_the_auxiliary_vector() {
    in_own_process(|| {
        take_away(Lacks::AuxiliaryVector);
        purge_scattered(&Linux::reserve(LinuxOptions::new(), &SpaceOptions::default()).unwrap());
    });
}

/// A sandbox that is entered after the span was reserved.
#[test]
fn what_is_refused_later_is_done_by_other_means() {
    in_own_process(|| {
        let platforms: Vec<_> = GuardMeans::all()
            .flat_map(|guards| Batches::ALL.map(|batches| (guards, batches)))
            .filter_map(|(guards, batches)| reserve(SPAN, guards, batches))
            .collect();
        take_away(Lacks::ProcessMadvise);
        platforms.iter().for_each(purge_scattered);
    });
}

/// As daemons do.
#[test]
fn a_program_may_close_all_descriptors() {
    in_own_process(|| {
        let Some(linux) = reserve(SPAN, GuardMeans::PteMarkers, Batches::Taken) else { return };
        purge_scattered(&linux);
        // SAFETY: this process was made for it.
        unsafe { process::close_from(3) };
        purge_scattered(&linux);
        in_forked_child(|| {
            purge_scattered(&linux);
            true
        });
    });
}

#[test]
fn without_process_vm_readv_peeking_goes_through_a_pipe() {
    in_own_process(|| {
        let linux = Linux::reserve(LinuxOptions::new(), &SpaceOptions::default()).unwrap();
        let area = pages(&linux, 3, 2);
        map(&linux, area);
        fill(&linux, area, 1);
        take_away(Lacks::ProcessVmReadv);
        let mut to = [9; 3 * 4096];
        assert_eq!(linux.read_nofault(page_ptr(&linux, area.start()).addr() + 5, &mut to), 2 * 4096 - 5);
        assert_eq!((to[0], to[4096 - 5], to[2 * 4096 - 5]), (0, 1, 9));
        assert_eq!(linux.read_nofault(page_ptr(&linux, area.end()).addr(), &mut to), 0);
    });
}
