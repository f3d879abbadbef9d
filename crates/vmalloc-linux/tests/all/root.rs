//! Sub-spaces of real memory.

use crate::common::*;
use vmalloc::{AllocError, Area, Protection, Request, SpaceOptions};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions};
use vmalloc_short::ShortMaps;
use vmalloc_subspaces::{LIMIT_BYTES, Root, SubspaceError};

const MIB: usize = 1 << 20;

#[test]
fn a_limit_holds_for_every_kind() {
    for guards in GuardMeans::all() {
        let Some(linux) = reserve(256 * MIB, guards, Batches::Taken) else { continue };
        let root = Root::new(linux).unwrap();
        let small = Request::new(64 * MIB);
        let space =
            root.subspace("small", &small, Some(256 * page_bytes()), SpaceOptions::default()).unwrap();
        let frames = scattered_frames(root.platform(), 300);
        let of_limit = |error: AllocError| match error {
            AllocError::Unbacked(error) => assert_eq!(error.cause.call, LIMIT_BYTES),
            other => panic!("{other}"),
        };
        of_limit(space.raw().map(&frames, Protection::ReadWrite, None).unwrap_err());
        of_limit(ShortMaps::of(&space).unwrap().map(&frames).unwrap_err());
        of_limit(space.raw().alloc_shared(&Request::new(300 * page_bytes())).unwrap_err());
        of_limit(space.raw().alloc_exec(&Request::new(300 * page_bytes())).unwrap_err());
        let addr = space.raw().map(&frames[..200], Protection::ReadWrite, None).unwrap();
        fill_words(addr, 200);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().unmap(addr) }.unwrap();
        space.verify().unwrap();
        // Freed areas count no more when there is need.
        let exec = space.raw().alloc_exec(&Request::new(200 * page_bytes())).unwrap();
        // SAFETY: as above.
        unsafe { space.raw().free(exec) }.unwrap();
    }
}

/// A call that clears such memory would end this process.
#[test]
fn memory_that_is_mapped_for_reading_is_never_written() {
    let linux = LinuxOptions::new().max_bytes(256 * MIB);
    let root = Root::new(reserved(linux)).unwrap();
    for trap in [false, true] {
        let options = SpaceOptions::default().zero_on_free(true).trap_on_free(trap);
        let read = root
            .protected_subspace("read", &Request::new(64 * MIB), None, Protection::Read, options)
            .unwrap();
        for _ in 0..50 {
            let area = Area::new(&read, &Request::new(3 * page_bytes()).zeroed()).unwrap();
            let mut bytes = [1; 5000];
            assert_eq!((read.read(area.addr() + page_bytes(), &mut bytes), bytes), (5000, [0; 5000]));
        }
        read.purge().unwrap();
    }
    // Where pages are handed out with what they held, they would have to be cleared.
    let options = LinuxOptions::new().max_bytes(256 * MIB).guard_means(GuardMeans::Userfault);
    let linux = match Linux::reserve(options, &SpaceOptions::default().trap_on_free(true)) {
        Ok(linux) => linux,
        Err(refused) => return lacks(&refused).unwrap_or_default(),
    };
    let root = Root::new(linux).unwrap();
    let read = root.protected_subspace(
        "read",
        &Request::new(64 * MIB),
        None,
        Protection::Read,
        SpaceOptions::default(),
    );
    assert!(matches!(read.err(), Some(SubspaceError::NotZeroed)));
}
