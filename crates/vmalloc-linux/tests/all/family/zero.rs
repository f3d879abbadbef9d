//! Zero means zero: whatever an address showed before, and with whatever guards and mode.

use super::PAGE;
use crate::common::opened;
use std::sync::Arc;
use vmalloc::{
    Buffer, CodeBuffer, Config, Frames, Mapping, PagedArea, Protection, Request, Space, SparseArea, Zeroed,
};
use vmalloc_linux::{Guards, Linux, Options, open};

/// A kind of area, by how it comes to read as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Zeroed,
    Grown,
    Shared,
    Code,
    Committed,
    Discarded,
    Reset,
    /// Frames hold anything: these only leave something behind.
    Frames,
    Sparse,
}

const KINDS: [Kind; 9] = [
    Kind::Zeroed,
    Kind::Grown,
    Kind::Shared,
    Kind::Code,
    Kind::Committed,
    Kind::Discarded,
    Kind::Reset,
    Kind::Frames,
    Kind::Sparse,
];

/// Checks `bytes` bytes for zeros, and leaves others.
///
/// # Safety
/// They are the caller's, readable and writable.
unsafe fn check_and_soil(addr: usize, bytes: usize, what: &str) {
    let start = std::ptr::with_exposed_provenance_mut::<u8>(addr);
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
    let stale = all.iter().position(|byte| *byte != 0);
    assert_eq!(stale, None, "{what}: byte {stale:?} of {bytes} is {:#x}", all[stale.unwrap_or(0)]);
    all.fill(0x5a);
}

/// Leaves bytes in frames that are mapped somewhere.
fn soil(mapping: &[std::sync::atomic::AtomicU8]) {
    mapping.iter().for_each(|byte| byte.store(0x5a, std::sync::atomic::Ordering::Relaxed));
}

/// Has an area of that kind for a while, all of which has to read as zero.
fn live(space: &Arc<Space<Linux>>, kind: Kind, bytes: usize, what: &str) {
    let (request, pages) = (Request::new(bytes), bytes.div_ceil(PAGE));
    match kind {
        Kind::Zeroed => {
            let buffer = Buffer::<_, Zeroed>::new(space.clone(), &request).unwrap();
            // SAFETY: the buffer is this function's.
            unsafe { check_and_soil(buffer.addr(), bytes, what) };
        }
        Kind::Grown => {
            let mut buffer = Buffer::<_, Zeroed>::new(space.clone(), &Request::new(bytes / 3)).unwrap();
            buffer.resize(bytes).unwrap();
            // SAFETY: as above.
            unsafe { check_and_soil(buffer.addr(), bytes, what) };
        }
        Kind::Shared => {
            let addr = space.raw().alloc_shared(&request).unwrap();
            // SAFETY: the area is this function's.
            unsafe {
                check_and_soil(addr, bytes, what);
                space.raw().free(addr).unwrap();
            }
        }
        Kind::Code => {
            let code = CodeBuffer::new(space.clone(), &request).unwrap();
            // SAFETY: the buffer is this function's.
            unsafe { check_and_soil(code.addr(), bytes, what) };
            drop(code.seal().map_err(|(_, error)| error).unwrap());
        }
        Kind::Committed | Kind::Discarded | Kind::Reset => {
            let mut area = PagedArea::new(space.clone(), &request).unwrap();
            let all = 0..pages * PAGE;
            area.commit(all.clone()).unwrap();
            for round in 0..3 {
                // SAFETY: the area is this function's, and committed.
                unsafe { check_and_soil(area.addr(), pages * PAGE, what) };
                match kind {
                    Kind::Committed if round < 2 => {
                        area.decommit(all.clone()).unwrap();
                        area.commit(all.clone()).unwrap();
                    }
                    Kind::Discarded => area.discard(all.clone()).unwrap(),
                    Kind::Reset => area.reset(all.clone()).unwrap(),
                    _ => {}
                }
            }
        }
        Kind::Frames => {
            let frames = Frames::new(space.clone(), pages).unwrap();
            soil(Mapping::new(&frames).unwrap().bytes());
        }
        Kind::Sparse => {
            let frames = Frames::new(space.clone(), pages).unwrap();
            let mut area = SparseArea::new(space.clone(), &request).unwrap();
            area.map(0, &frames, Protection::ReadWrite).unwrap();
            soil(Mapping::new(&frames).unwrap().bytes());
        }
    }
}

#[test]
fn memory_that_is_to_read_as_zero_does_whatever_was_there_before() {
    let modes = [
        ("cached", Config::default()),
        ("unmapped on free", Config::default().unmap_on_free()),
        ("trapping on free", Config::default().trap_on_free(true)),
        ("zeroed on free", Config::default().zero_on_free(true)),
    ];
    for (guards, (mode, config)) in Guards::all().flat_map(|guards| modes.map(|mode| (guards, mode))) {
        let options = Options::new().exactly(1 << 32).guards(guards).without_drain_thread();
        let Some(space) = opened(open(options, config)) else { continue };
        for (before, after) in KINDS.into_iter().flat_map(|before| KINDS.map(|after| (before, after))) {
            for bytes in [5000, 70 * PAGE, 1100 * PAGE + 1] {
                for purged in [false, true] {
                    let what = format!("{guards:?}, {mode}: {after:?} of {bytes} bytes after {before:?}");
                    // Large areas of one kind after another tell no more.
                    if bytes > 1 << 20 && before != after && after != Kind::Shared {
                        continue;
                    }
                    for kind in [before, after] {
                        live(&space, kind, bytes, &what);
                        if purged {
                            space.purge().unwrap();
                        }
                    }
                }
            }
        }
        space.purge().unwrap();
        space.verify().unwrap();
    }
}
