//! Damaged memory ends in an error or an answer, and never in a panic or a walk without end.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use vmalloc_inspect::{InspectError, KernelMapping, Process, Residency, Source, Target};
use vmalloc_linux::{Linux, LinuxOptions, Request, Space, SpaceOptions, beacon::Beacon, open, page_bytes};

/// This process, some bytes of which read as others.
struct Damaged {
    process: Process,
    seed: u64,
    /// One byte of so many is another.
    one_of: u64,
    /// Bits that are flipped in it.
    mask: u8,
}

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53) ^ value >> 29
}

impl Source for Damaged {
    fn read_at(&self, addr: u64, buffer: &mut [u8]) -> Result<usize, InspectError> {
        let read = self.process.read_at(addr, buffer)?;
        let is_beacon = buffer.starts_with(&Beacon::MAGIC);
        for (byte, addr) in buffer[..read].iter_mut().zip(addr..) {
            // The beacon is found all the same: its magic and its own address stay.
            let stays = is_beacon && addr % 4096 < 32;
            if !stays && mix(addr ^ self.seed) % self.one_of == 0 {
                *byte ^= self.mask;
            }
        }
        Ok(read)
    }

    fn mappings(&self) -> Result<Vec<KernelMapping>, InspectError> {
        self.process.mappings()
    }

    fn residency(&self, addrs: Range<u64>, page_bytes: u64) -> Option<Residency> {
        self.process.residency(addrs, page_bytes)
    }

    fn clock(&self) -> Option<u64> {
        self.process.clock()
    }
}

/// A space of areas with and without tags, some of them freed.
fn space() -> &'static Arc<Space<Linux>> {
    static SPACE: OnceLock<Arc<Space<Linux>>> = OnceLock::new();
    SPACE.get_or_init(|| {
        let space = open(LinuxOptions::new().drain_thread(false), SpaceOptions::default()).expect("a space");
        let make = |nth: usize| {
            let request = Request::new(1 + nth * 700);
            let request = if nth % 3 == 0 { request.tag("some tag") } else { request };
            space.raw().alloc(&request).expect("an area")
        };
        let areas: Vec<_> = (0..300).map(make).collect();
        for addr in areas.into_iter().step_by(2) {
            // SAFETY: the area is this test's own, and not used.
            unsafe { space.raw().free(addr) }.expect("it is freed");
        }
        space
    })
}

fn look(damaged: &Damaged, addr: u64) -> Result<(), InspectError> {
    let target = Target::find(damaged)?;
    for space in target.spaces()? {
        let snapshot = space.snapshot()?;
        let tally = snapshot.tally();
        assert!(tally.busy.areas <= tally.busy.bytes);
        let _ = snapshot.place(addr);
    }
    target.explain(addr).map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400 * vmalloc_harness::env::effort() as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(vmalloc_harness::env::seed(1)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_memory_is_survived(seed: u64, rate in 0_u32..20, mask in 1_u8.., page in 0_u64..1 << 14) {
        let start = space().geometry().span.start();
        let process = Process::open(std::process::id() as i32).expect("this process");
        let damaged = Damaged { process, seed, one_of: 3 << rate, mask };
        let _ = look(&damaged, (start + page) * page_bytes() as u64);
    }
}

#[test]
fn memory_that_is_whole_is_read_by_the_same_way() {
    let start = space().geometry().span.start();
    let process = Process::open(std::process::id() as i32).expect("this process");
    let whole = Damaged { process, seed: 0, one_of: u64::MAX, mask: 0 };
    assert_eq!(look(&whole, start * page_bytes() as u64), Ok(()));
}
