//! Two threads on simulated memory that can be touched: for Miri, which sees data races.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use vmalloc::{Space, SpaceOptions};
use vmalloc_sim::Direct;
use vmalloc_slots::{Dirty, Slot, Slots, SlotsOptions};

const PAGE: usize = 4096;
const ROUNDS: usize = if cfg!(miri) { 24 } else { 5000 };

type Pool = Slots<Arc<Space<Direct>>>;

/// Checks that some bytes of a slot are zero, and writes others to them.
fn use_it(slot: &mut Slot<Arc<Pool>>) {
    for offset in [0, 2 * PAGE - 1, slot.committed_bytes() - 1] {
        // SAFETY: the slot is this thread's, and committed so far.
        unsafe {
            assert_eq!(slot.as_ptr().add(offset).read(), 0, "byte {offset}");
            slot.as_ptr().add(offset).write(7);
        }
    }
}

/// Frees a slot, with what was written told in one way or another.
fn free(slot: Slot<Arc<Pool>>, nth: usize) {
    let ranges = [0..1, 2 * PAGE - 1..2 * PAGE, slot.committed_bytes() - 1..slot.committed_bytes()];
    let dirty = match nth % 3 {
        0 => Dirty::Unknown,
        1 => Dirty::Below(slot.committed_bytes()),
        _ => Dirty::Ranges(&ranges),
    };
    // SAFETY: the slot is gone, and `use_it` writes no other bytes.
    unsafe { slot.free(dirty) };
}

#[test]
fn slots_go_from_thread_to_thread() {
    let space =
        Arc::new(Space::new(Direct::new(1 << 10, |machine| machine), SpaceOptions::default()).unwrap());
    let options = SlotsOptions::new(8 * PAGE).head_bytes(3 * PAGE).keep_bytes(2 * PAGE).max_slots(12);
    let pool = Arc::new(Slots::new(space.clone(), options).unwrap());
    let (to, from) = sync_channel::<Slot<Arc<Pool>>>(2);
    let theirs = pool.clone();
    let other = std::thread::spawn(move || {
        for (nth, slot) in from.into_iter().enumerate() {
            free(slot, nth);
            let mut own = Slot::new_for(theirs.clone(), 2).unwrap();
            use_it(&mut own);
            free(own, nth + 1);
        }
    });
    for nth in 0..ROUNDS {
        let mut slot = Slot::new_for(pool.clone(), nth as u64 % 3).unwrap();
        if nth % 4 == 0 {
            slot.grow(5 * PAGE).unwrap();
        }
        use_it(&mut slot);
        to.send(slot).unwrap();
    }
    drop(to);
    other.join().unwrap();
    pool.trim(0).unwrap();
    assert_eq!((pool.stats().reserved, pool.stats().kept_bytes, pool.stats().waiting_bytes), (0, 0, 0));
    drop(pool);
    space.purge().unwrap();
    assert_eq!(space.platform().sim().check_end(), []);
}
