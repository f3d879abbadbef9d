//! Random programs on the simulated machine: every slot that is handed out reads as zero, what is
//! not committed traps, and nothing is lost, also while the machine refuses calls.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::ops::Range;
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_sim::{Fault, Options as Machine, Point, Sim};
use vmalloc_slots::{BeyondHead, Dirty, Slot, SlotError, Slots, SlotsOptions};

const PAGE: usize = 4096;
const CPUS: usize = 2;

type Pool<'a> = Slots<&'a Space<Sim>>;

/// A program: a pool, the slots that are out, and the pages that their owners have written.
struct Program<'p, 'a> {
    pool: &'p Pool<'a>,
    rng: Xoshiro256PlusPlus,
    busy: Vec<(Slot<&'p Pool<'a>>, BTreeSet<usize>)>,
    /// Operations that were refused.
    refused: u64,
}

impl Program<'_, '_> {
    fn below(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound as u64) as usize
    }

    fn machine(&self) -> &Sim {
        self.pool.space().platform()
    }

    fn read(&mut self, addr: usize) -> Result<u64, Fault> {
        let cpu = self.below(CPUS);
        self.machine().read(cpu, (addr / PAGE) as u64)
    }

    /// Checks a slot that was handed out: zeros, and nothing mapped around them.
    fn check(&mut self, addr: usize, committed: usize) {
        for at in (addr..addr + committed).step_by(PAGE) {
            assert_eq!(self.read(at), Ok(0), "page {} of the slot at {addr:#x}", (at - addr) / PAGE);
        }
        for outside in [addr - PAGE, addr + committed] {
            assert!(self.read(outside).is_err(), "{outside:#x} is outside of {committed} bytes at {addr:#x}");
        }
    }

    fn alloc(&mut self) {
        let user = self.below(3) as u64;
        let slot = if user == 0 { self.pool.alloc() } else { self.pool.alloc_for(user) };
        match slot {
            Ok(slot) => {
                assert!(self.busy.iter().all(|(other, _)| other.addr() != slot.addr()), "two owners");
                self.check(slot.addr(), slot.committed_bytes());
                self.busy.push((slot, BTreeSet::new()));
            }
            Err(SlotError::Exhausted { slots }) => assert_eq!(self.busy.len(), slots),
            Err(error) => {
                assert!(self.may_refuse(), "{error}");
                self.refused += 1;
            }
        }
    }

    fn may_refuse(&self) -> bool {
        [Point::Map, Point::Unmap, Point::Flush, Point::Discard, Point::Frame]
            .iter()
            .any(|point| self.machine().injected(*point) > 0)
    }

    fn grow(&mut self, nth: usize) {
        let bytes = self.below(self.pool.options().slot_bytes + PAGE);
        let before = self.busy[nth].0.committed_bytes();
        match self.busy[nth].0.grow(bytes) {
            Ok(()) => {
                let (addr, after) = (self.busy[nth].0.addr(), self.busy[nth].0.committed_bytes());
                assert_eq!(after, before.max(bytes.next_multiple_of(PAGE)));
                (before..after).step_by(PAGE).for_each(|at| assert_eq!(self.read(addr + at), Ok(0)));
            }
            Err(SlotError::Beyond { asked, slot }) => assert!(asked > slot && asked == bytes),
            Err(error) => {
                assert!(self.may_refuse(), "{error}");
                self.refused += 1;
            }
        }
    }

    fn write(&mut self, nth: usize) {
        let pages = self.busy[nth].0.committed_bytes() / PAGE;
        if pages > 0 {
            let (page, cpu) = (self.below(pages), self.below(CPUS));
            let (slot, written) = &mut self.busy[nth];
            written.insert(page);
            let at = (slot.addr() / PAGE + page) as u64;
            self.pool.space().platform().write(cpu, at, 1 + page as u64).expect("it is committed");
        }
    }

    /// Ends a slot, or resets it, with what was written told in one way or another.
    fn end(&mut self, nth: usize) {
        let (choice, way) = (self.below(4), self.below(4));
        let written = &self.busy[nth].1;
        let ranges: Vec<Range<usize>> = written.iter().map(|page| page * PAGE..(page + 1) * PAGE).collect();
        let end = written.last().map_or(0, |page| (page + 1) * PAGE);
        let dirty = match choice {
            0 => Dirty::Unknown,
            1 => Dirty::Below(end),
            _ => Dirty::Ranges(&ranges),
        };
        if way == 0 {
            // SAFETY: the slot's writes are all noted, and nothing uses it meanwhile.
            match unsafe { self.busy[nth].0.reset(dirty) } {
                Ok(()) => {
                    self.busy[nth].1.clear();
                    let (addr, committed) = (self.busy[nth].0.addr(), self.busy[nth].0.committed_bytes());
                    self.check(addr, committed);
                }
                Err(error) => {
                    assert!(self.may_refuse(), "{error}");
                    self.refused += 1;
                }
            }
        } else {
            let (slot, _) = self.busy.swap_remove(nth);
            // SAFETY: the slot's writes are all noted, and it is gone.
            unsafe { slot.free(dirty) };
        }
    }

    fn step(&mut self) {
        let choice = self.below(100);
        match (choice, self.busy.len()) {
            (0..40, 0..100) | (_, 0) => self.alloc(),
            (40..50, busy) => {
                let nth = self.below(busy);
                self.grow(nth);
            }
            (50..75, busy) => {
                let nth = self.below(busy);
                self.write(nth);
            }
            (75, _) if self.below(4) == 0 => self.refused += u64::from(self.pool.space().decay().is_err()),
            (75, _) => self.refused += u64::from(self.pool.flush().is_err()),
            (76, _) => self.refused += u64::from(self.pool.trim(1).is_err()),
            (77, busy) => {
                let nth = self.below(busy);
                drop(self.busy.swap_remove(nth));
            }
            (_, busy) => {
                let nth = self.below(busy);
                self.end(nth);
            }
        }
    }

    fn check_counts(&self) {
        let stats = self.pool.stats();
        assert_eq!(stats.reserved, stats.free + stats.waiting + self.busy.len(), "{stats:?}");
        let most = self.pool.options().resident_bytes as u64;
        assert!(stats.kept_bytes <= most, "{stats:?}");
    }
}

/// The machine's answers: as they are, or refusals now and then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    Obeyed,
    RefusedAtTimes,
}

/// Plays a program of `steps` steps with these options, from `seed`. Returns how much was refused.
fn play(machine: Machine, options: SlotsOptions, calls: Calls, seed: u64, steps: usize) -> u64 {
    let space = Space::new(machine.cpus(CPUS).build(), SpaceOptions::default()).unwrap();
    let pool = Slots::new(&space, options).unwrap();
    let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut program = Program { pool: &pool, rng, busy: Vec::new(), refused: 0 };
    for step in 0..steps {
        if calls == Calls::RefusedAtTimes && step % 50 == 10 {
            let points = [Point::Map, Point::Unmap, Point::Flush, Point::Discard];
            let (point, nth) = (points[program.below(points.len())], 1 + program.below(3) as u64);
            if program.below(2) == 0 {
                program.machine().fail_nth(point, nth);
            } else {
                program.machine().fail_from(point, nth);
            }
        }
        if step % 50 == 40 {
            program.machine().heal();
        }
        Sim::run_on(program.below(CPUS));
        program.step();
        program.check_counts();
    }
    program.machine().heal();
    let refused = program.refused;
    drop(program);
    pool.flush().unwrap();
    assert_eq!(pool.stats().waiting_bytes, 0);
    pool.trim(0).unwrap();
    assert_eq!((pool.stats().reserved, pool.stats().kept_bytes), (0, 0));
    drop(pool);
    space.purge().unwrap();
    assert_eq!(space.platform().check_end(), []);
    refused
}

fn machine() -> Machine {
    Machine::new(PageRange::new(0x100, 0x4100).unwrap())
}

/// Pools of each shape: budgets that are never reached and always are, batches small and large.
fn shapes() -> Vec<SlotsOptions> {
    let plain = SlotsOptions::new(40 * PAGE).head_bytes(6 * PAGE).guard_before_bytes(2 * PAGE);
    vec![
        plain,
        plain.keep_bytes(0).max_slots(12),
        plain.keep_bytes(3 * PAGE).resident_bytes(10 * PAGE).max_slots(20),
        plain.beyond_head(BeyondHead::Commit).keep_bytes(35 * PAGE).max_slots(7),
        plain.head_bytes(0).guard_before_bytes(0).resident_bytes(20 * PAGE),
        plain.max_slots(4).guard_after_bytes(0),
        SlotsOptions::new(38 * PAGE).head_bytes(38 * PAGE).resident_bytes(0).keep_bytes(0),
    ]
}

fn seed() -> u64 {
    let seed = vmalloc_harness::env::seed(20_261_125);
    println!("VMALLOC_SEED={seed}");
    seed
}

const STEPS: usize = if cfg!(miri) { 60 } else { 4000 };

#[test]
fn slots_read_as_zero_and_trap_outside() {
    let seed = seed();
    for (nth, options) in shapes().into_iter().enumerate() {
        assert_eq!(play(machine(), options, Calls::Obeyed, seed + nth as u64, STEPS), 0);
    }
}

#[test]
fn new_pages_that_are_not_zero_are_cleared() {
    let seed = seed();
    for (nth, options) in shapes().into_iter().enumerate() {
        assert_eq!(play(machine().dirty(), options, Calls::Obeyed, seed + nth as u64, STEPS), 0);
    }
}

#[test]
fn refused_calls_lose_nothing() {
    let seed = seed();
    let all = shapes().into_iter().enumerate();
    let refused: u64 = all
        .map(|(nth, options)| play(machine(), options, Calls::RefusedAtTimes, seed + nth as u64, STEPS))
        .sum();
    assert!(refused > 0 || cfg!(miri), "nothing was refused");
}

/// Addresses run out long before the most slots.
#[test]
fn a_span_that_is_too_small_lends_the_same_slots_again() {
    let seed = seed();
    let small = Machine::new(PageRange::new(0x100, 0x200).unwrap());
    let space = Space::new(small.cpus(CPUS).build(), SpaceOptions::default()).unwrap();
    let pool = Slots::new(&space, SlotsOptions::new(40 * PAGE).keep_bytes(0)).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for round in 0..50 {
        let mut all = Vec::new();
        while let Ok(slot) = pool.alloc() {
            assert!(round == 0 || pool.stats().reserved == 6, "slots were given back and reserved again");
            let page = (slot.addr() / PAGE) as u64;
            assert_eq!(space.platform().read(0, page), Ok(0));
            space.platform().write(0, page, rng.next_u64() | 1).unwrap();
            all.push(slot);
        }
        assert_eq!(all.len(), 6);
    }
}
