//! Sub-spaces of real memory.

use crate::common::lacks;
use vmalloc::{AllocError, Area, Policy, Protection, Request, SpaceOptions};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions};
use vmalloc_subspaces::{LIMIT_BYTES, Root, SubspaceError};

const MIB: usize = 1 << 20;

fn root() -> Root<Linux> {
    Root::new(Linux::reserve(LinuxOptions::new().max_bytes(256 * MIB), &SpaceOptions::default()).unwrap())
        .unwrap()
}

#[test]
fn buffers_of_children_are_memory_and_count() {
    let root = root();
    let down = SpaceOptions::default().policy(Policy::Highest);
    let caches = root.subspace("caches", &Request::new(64 * MIB), None, SpaceOptions::default()).unwrap();
    let modules = root
        .subspace("modules", &Request::new(32 * MIB).policy(Policy::Highest), Some(8 * MIB), down)
        .unwrap();
    for _ in 0..20 {
        let mut low = caches.zeroed_buffer(MIB / 2).unwrap();
        let mut high = modules.zeroed_buffer(MIB / 2 + 5).unwrap();
        assert!(low.iter().chain(high.iter()).all(|&byte| byte == 0));
        low.fill(1);
        high.fill(2);
        assert!(low.as_ptr() < high.as_ptr() && low.iter().all(|&byte| byte == 1));
    }
    let used: usize = root.subspaces().map(|part| part.used_bytes).sum();
    assert!((MIB..2 * MIB).contains(&used), "one buffer of each is kept, not {used} bytes");
    let Err(AllocError::Unbacked(refusal)) = modules.zeroed_buffer(9 * MIB) else {
        panic!("beyond the limit")
    };
    assert_eq!(refusal.cause.call, LIMIT_BYTES);
    let taken = root.subspace("other", &Request::new(200 * MIB), None, SpaceOptions::default()).err();
    assert!(matches!(taken, Some(SubspaceError::NoSpace(_))), "{taken:?}");
}

/// A call that clears such memory would end this process.
#[test]
fn memory_that_is_mapped_for_reading_is_never_written() {
    let root = root();
    for trap in [false, true] {
        let options = SpaceOptions::default().zero_on_free(true).trap_on_free(trap);
        let read = root
            .protected_subspace("read", &Request::new(64 * MIB), None, Protection::Read, options)
            .unwrap();
        for _ in 0..50 {
            let area = Area::new(&read, &Request::new(3 * 4096).zeroed()).unwrap();
            let mut bytes = [1; 5000];
            assert_eq!((read.read(area.addr() + 4096, &mut bytes), bytes), (5000, [0; 5000]));
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
