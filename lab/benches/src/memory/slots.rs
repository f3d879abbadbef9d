//! Slots with a small head in use: allocated, touched, freed.
//!
//! Peers are the two ways that programs have by hand: a mapping for each slot, and slots that stay
//! mapped, whose memory is dropped (madvise(2)) or cleared when they are freed.

use super::Row;
use crate::by_hand::{Mapped, PAGE, clear, drop_range, flush_interrupts, touch};
use crate::rounds::{Limits, medians};
use rustix::mm::{MprotectFlags, ProtFlags};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{Discard, PageRange, Platform, SpaceOptions};
use vmalloc_linux::{SharedSpace, open};
use vmalloc_slots::{Dirty, Slots, SlotsOptions};

/// Guards on either side: 4 GiB, as an index of 32 bits with an offset of 32 bits may reach.
const GUARD: usize = 1 << 32;
/// Slots whose interrupts are counted.
const COUNTED: usize = 64 * 200;

type Pool = Slots<SharedSpace>;
/// A design, and what plays it a number of times.
type Player<'a> = (&'static str, Box<dyn FnMut(usize) + 'a>);

/// A size of slots, and how much of one is used.
struct Load {
    name: &'static str,
    slot: usize,
    guard: usize,
    head: usize,
    used: usize,
}

const LOADS: [Load; 2] = [
    Load { name: "4 GiB, 64 KiB touched", slot: 1 << 32, guard: GUARD, head: 64 << 10, used: 64 << 10 },
    Load { name: "16 MiB, 256 KiB touched", slot: 16 << 20, guard: PAGE, head: 16 << 20, used: 256 << 10 },
];

/// Measures the group.
///
/// # Panics
/// Where there are no addresses for the slots.
pub fn run(limits: &Limits) -> Vec<Row> {
    let mut rows: Vec<Row> = LOADS.iter().flat_map(|load| load.measure(limits)).collect();
    rows.extend(LOADS[..1].iter().flat_map(Load::interrupts));
    rows.extend(clearing(limits));
    rows
}

impl Load {
    fn options(&self) -> SlotsOptions {
        SlotsOptions::new(self.slot)
            .head_bytes(self.head)
            .guard_before_bytes(self.guard)
            .guard_after_bytes(self.guard)
    }

    fn pool(&self, keep: usize) -> Pool {
        let space =
            open(vmalloc_linux::LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
        Slots::new(space, self.options().keep_bytes(keep)).expect("addresses for a slot")
    }

    fn measure(&self, limits: &Limits) -> Vec<Row> {
        let [kept, dropped] = [1 << 20, 0].map(|keep| self.pool(keep));
        let mapped = self.mapped();
        let head = mapped.addr() + self.guard..mapped.addr() + self.guard + self.used;
        let players: [Player<'_>; 7] = [
            (
                "vmalloc-slots, extent told",
                Box::new(|count| self.cycle(&kept, Dirty::Below(self.used), count)),
            ),
            ("vmalloc-slots, extent not told", Box::new(|count| self.cycle(&kept, Dirty::Unknown, count))),
            ("vmalloc-slots, nothing kept", Box::new(|count| self.cycle(&dropped, Dirty::Unknown, count))),
            ("mmap and munmap", repeat(|| self.map_and_touch())),
            // SAFETY: the head is the bench's, and of no more use: here and below.
            ("mapped once, madvise each", cycles(&head, |used| unsafe { drop_range(used) })),
            // SAFETY: as above.
            ("mapped once, cleared each", cycles(&head, |used| unsafe { clear(used) })),
            ("touch alone", cycles(&head, |_| ())),
        ];
        let (names, mut players): (Vec<_>, Vec<_>) = players.into_iter().unzip();
        let all = medians(&mut players, limits);
        names.iter().zip(all).map(|(name, ns)| Row::new(self.name, *name, ns / 1e3, "µs a slot")).collect()
    }

    /// Allocates, touches and frees a slot `count` times.
    fn cycle(&self, pool: &Pool, dirty: Dirty<'_>, count: usize) {
        for _ in 0..count {
            let slot = pool.alloc().expect("memory for a head");
            // SAFETY: the head is committed and this loop's; no more of it is written.
            unsafe {
                touch(slot.addr()..slot.addr() + self.used);
                slot.free(dirty);
            }
        }
    }

    /// Maps a slot with its guards, none of it accessible but the head.
    fn mapped(&self) -> Mapped {
        let mapped =
            Mapped::new(self.slot + 2 * self.guard, ProtFlags::empty()).expect("addresses for a slot");
        let (start, access) = (mapped.addr() + self.guard, MprotectFlags::READ | MprotectFlags::WRITE);
        mapped.protect(start..start + self.head, access).expect("a mapping more");
        mapped
    }

    fn map_and_touch(&self) {
        let mapped = self.mapped();
        let start = mapped.addr() + self.guard;
        // SAFETY: the head is accessible, and this function's.
        unsafe { touch(start..start + self.used) };
    }

    /// Counts the interrupts of the other CPU, which runs a thread of this program all the time.
    fn interrupts(&self) -> Vec<Row> {
        let [kept, dropped] = [1 << 20, 0].map(|keep| self.pool(keep));
        let mapped = self.mapped();
        let head = mapped.addr() + self.guard..mapped.addr() + self.guard + self.used;
        let row = |name, work: &dyn Fn()| {
            let count = beside_a_thread(work) as f64 / COUNTED as f64 * 64.0;
            Row::new(self.name, name, count, "interrupts for 64 slots")
        };
        vec![
            row("vmalloc-slots, extent told", &|| self.cycle(&kept, Dirty::Below(self.used), COUNTED)),
            row("vmalloc-slots, nothing kept", &|| self.cycle(&dropped, Dirty::Unknown, COUNTED)),
            row("mapped once, madvise each", &|| {
                cycle(&head, COUNTED, |used| {
                    // SAFETY: the head is the bench's, and of no more use.
                    unsafe { drop_range(used) };
                });
            }),
            row("nothing but the other programs of this machine", &|| {
                cycle(&head, COUNTED, |_| {
                    std::thread::yield_now();
                });
            }),
        ]
    }
}

/// Returns a player that calls `act` a number of times.
fn repeat<'a>(act: impl Fn() + 'a) -> Box<dyn FnMut(usize) + 'a> {
    Box::new(move |count| (0..count).for_each(|_| act()))
}

/// Returns a player that touches the head and resets it, a number of times.
fn cycles<'a>(head: &'a Range<usize>, reset: impl Fn(&Range<usize>) + 'a) -> Box<dyn FnMut(usize) + 'a> {
    Box::new(move |count| cycle(head, count, &reset))
}

fn cycle(head: &Range<usize>, count: usize, reset: impl Fn(&Range<usize>)) {
    for _ in 0..count {
        // SAFETY: the head is accessible, and the bench's.
        unsafe { touch(head.clone()) };
        reset(head);
    }
}

/// Returns the interrupts that there are during `work`, beside a thread that never waits.
fn beside_a_thread(work: &dyn Fn()) -> u64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let before = flush_interrupts();
        work();
        let count = flush_interrupts() - before;
        stop.store(true, Ordering::Relaxed);
        count
    })
}

/// Measures clearing, dropping and looking, for pages that are used again: the figures behind the
/// bound from which on a slot is looked at before it is cleared.
fn clearing(limits: &Limits) -> Vec<Row> {
    let space =
        open(vmalloc_linux::LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
    let addr = space.raw().alloc(&vmalloc::Request::new(64 << 20)).expect("memory");
    let mut rows = Vec::new();
    for pages in [1, 16, 32, 64, 256, 1024, 4096] {
        let range = addr..addr + pages * PAGE;
        let numbers = PageRange::from_len((addr / PAGE) as u64, pages as u64).expect("some pages");
        let platform = space.platform();
        // SAFETY: here and below, the area is the bench's, and no content is needed.
        let touched = || unsafe { touch(range.clone()) };
        let mut players = [
            repeat(|| {
                touched();
                // SAFETY: as above.
                unsafe { platform.zero(numbers) };
            }),
            repeat(|| {
                touched();
                // SAFETY: as above.
                unsafe { platform.discard(&[numbers]) }.expect("plain memory");
            }),
            repeat(|| {
                touched();
                // SAFETY: as above.
                unsafe { platform.touched(numbers, &mut |run| _ = std::hint::black_box(run)) };
            }),
        ];
        let all = medians(&mut players, limits);
        let names = ["cleared and used again", "dropped and used again", "used again and looked at"];
        let load = format!("{pages} pages");
        rows.extend(names.iter().zip(all).map(|(name, ns)| Row::new(&load, *name, ns / 1e3, "µs")));
    }
    rows
}
