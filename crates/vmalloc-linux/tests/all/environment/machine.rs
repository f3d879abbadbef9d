//! What else a machine may lack: `/proc`, mappings, memory for a group of processes.

use super::exercise::{Owed, exercise, exercise_for};
use super::locked::lock;
use super::{all_options, check, everywhere, finish, for_both_guards, for_both_guards_in, plain_options};
use crate::common::crowd::Crowd;
use crate::common::*;
use std::fs;
use std::path::PathBuf;
use vmalloc::{
    AllocError, PageRange, PlatformError, PlatformFault, Protect, Protection, Request, Space, SpaceOptions,
};
use vmalloc_harness::{kernel_map_limit, map_limit, without_proc};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

#[test]
fn without_proc_everything_works() {
    in_own_process(|| {
        let before: Vec<_> =
            all_options().into_iter().flat_map(|options| spaces(plain_options(), options)).collect();
        if !without_proc() {
            return;
        }
        everywhere(|space| finish(space, Owed::default()));
        let space = open(LinuxOptions::new(), SpaceOptions::default()).unwrap();
        finish(&space, Owed::default());
        before.iter().for_each(|space| finish(space, Owed::default()));
    });
}

/// The kernel says `ENOMEM` for want of memory as well, and without /proc no program can count its
/// mappings.
#[test]
fn without_proc_the_limit_on_mappings_is_an_error() {
    in_own_process(|| {
        let Some(max) = kernel_map_limit() else { return };
        if !without_proc() {
            return;
        }
        let options = plain_options().guard_means(GuardMeans::Mprotect);
        let space = open(options, SpaceOptions::default().unmap_on_free()).unwrap();
        let mut areas = Vec::with_capacity(max as usize);
        let refused = loop {
            match space.raw().alloc(&Request::new(page_bytes())) {
                Ok(addr) => areas.push(addr),
                Err(error) => break error,
            }
        };
        let AllocError::Unbacked(refused) = refused else { panic!("{refused}") };
        assert_eq!(refused.cause.fault, PlatformFault::MapLimit, "{refused}");
        assert!(areas.len() as u64 > max / 4, "{} areas", areas.len());
        check(&space);
        areas.iter().for_each(|addr| free(&space, *addr));
        finish(&space, Owed::default());
    });
}

#[test]
fn at_the_limit_on_mappings_a_space_loses_nothing() {
    in_own_process(|| {
        let Some(max) = kernel_map_limit() else { return };
        for_both_guards_in(SpaceOptions::default().unmap_on_free(), |space| {
            let before = exercise(space);
            let crowd = Crowd::gather(max);
            // Each refusal counts the mappings of the program, which takes long where there are so
            // many.
            let done = exercise_for(space, 1);
            drop(crowd);
            done.refused_by(|cause| cause.fault == PlatformFault::MapLimit);
            assert!(space.platform().guard_means() == GuardMeans::PteMarkers || !done.refusals.is_empty());
            before.owed.give(space);
            finish(space, done.owed);
        });
    });
}

/// Unlocking a part of what is locked splits a mapping: where there is none left the area stays
/// back, and its memory goes.
#[test]
fn a_locked_area_waits_for_a_mapping() {
    in_own_process(|| {
        let Some(max) = map_limit() else { return };
        for_both_guards_in(SpaceOptions::default().unmap_on_free(), |space| {
            let areas = [300; 3].map(|pages| alloc(space, pages));
            areas.iter().for_each(|addr| fill_words(*addr, 300));
            areas.iter().for_each(|addr| lock(*addr, 300));
            let drawing = alloc(space, 1);
            draw(space, drawing).unwrap();
            let full = status_bytes("RssAnon:");
            let crowd = Crowd::gather(max);
            while draw(space, drawing).is_ok() {}
            free(space, areas[1]);
            let purged = space.purge();
            let stats = space.stats();
            drop(crowd);
            if space.platform().guard_means() == GuardMeans::PteMarkers {
                assert_eq!(cause(purged.unwrap_err()).fault, PlatformFault::MapLimit);
                assert_eq!((stats.refused_areas, stats.refused_pages), (1, 301));
                assert!(status_bytes("RssAnon:") + 250 * page_bytes() < full);
            }
            space.purge().unwrap();
            assert!(is_trap(areas[1]));
            for addr in [areas[0], areas[2], drawing] {
                assert!(!is_trap(addr));
                free(space, addr);
            }
            finish(space, Owed::default());
        });
    });
}

/// Draws mappings for a page, which stays as accessible as it is.
fn draw(space: &Space<Linux>, addr: usize) -> Result<(), PlatformError> {
    let page = PageRange::from_len((addr / page_bytes()) as u64, 1).unwrap();
    // SAFETY: the area is the test's.
    unsafe { space.platform().protect(page, Protection::ReadWrite) }
}

/// A group of processes with this much memory, in which the caller is; `None` where none can be
/// made.
struct Group {
    path: PathBuf,
    parent: PathBuf,
}

impl Group {
    fn enter(bytes: usize) -> Option<Self> {
        let name = format!("vmalloc-test-{}", std::process::id());
        let [old, new] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(PathBuf::from);
        let (parent, limit) = if old.is_dir() { (old, "memory.limit_in_bytes") } else { (new, "memory.max") };
        let group = Self { path: parent.join(name), parent };
        fs::create_dir(&group.path).ok()?;
        fs::write(group.path.join(limit), bytes.to_string()).ok()?;
        fs::write(group.path.join("cgroup.procs"), std::process::id().to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Back to where everybody may be; an empty group can be removed.
        let _ = fs::write(self.parent.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.path);
    }
}

/// The kernel kills a process that touches more than its group may have. So freed memory has to go
/// in time.
#[test]
fn a_group_with_little_memory_is_enough_for_much_that_is_freed() {
    in_own_process(|| {
        let Some(group) = Group::enter(160 << 20) else {
            let why = "no group of processes with a limit on memory can be made here";
            return not_run("a_group_with_little_memory_is_enough_for_much_that_is_freed", why);
        };
        for_both_guards(|space| {
            for nth in 0..200 {
                let pages = [256, 2560, 17][nth % 3];
                let addr = alloc(space, pages);
                fill_words(addr, pages);
                free(space, addr);
            }
            finish(space, Owed::default());
        });
        drop(group);
    });
}
