//! Pools where addresses are few.

use vmalloc_harness::{in_own_process, limit_addresses, narrow_addresses};
use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
use vmalloc_slots::{SlotError, Slots, SlotsOptions};

const GIB: usize = 1 << 30;

/// Makes as many slots of 1 GiB as a space of these addresses has room for: each takes 8 MiB more
/// in front, and a page behind, up to the next 8 MiB.
fn makes_all_slots(options: LinuxOptions, gib: usize) {
    // A drain under way would keep the addresses of the space for a moment after its end.
    let space = open(options.drain_thread(false), SpaceOptions::default()).expect("few addresses do");
    assert_eq!(space.platform().reserved_bytes(), gib * GIB);
    let slots = Slots::new(&*space, SlotsOptions::new(GIB)).expect("a slot fits");
    let wanted = gib * GIB / (GIB + (16 << 20));
    let mut all: Vec<_> =
        (0..wanted).map(|nth| slots.alloc().unwrap_or_else(|why| panic!("{nth}: {why}"))).collect();
    let refused = slots.alloc().map(drop);
    assert!(matches!(refused, Err(SlotError::Area(_))), "{refused:?}");
    all[wanted - 1].grow(1 << 20).expect("there is memory");
}

#[test]
fn slots_fill_the_usual_space_in_39_bits_of_addresses() {
    in_own_process(|| {
        assert!(narrow_addresses(39) > 500 * GIB);
        makes_all_slots(LinuxOptions::new(), 8);
        makes_all_slots(LinuxOptions::new().max_bytes(128 * GIB).min_bytes(128 * GIB), 128);
    });
}

#[test]
fn slots_fill_a_space_under_a_limit_on_addresses() {
    in_own_process(|| {
        limit_addresses(256 * GIB as u64);
        makes_all_slots(LinuxOptions::new().max_bytes(100 * GIB).min_bytes(100 * GIB), 100);
        makes_all_slots(LinuxOptions::new().max_bytes(64 << 40), 64);
    });
}
