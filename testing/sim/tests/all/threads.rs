//! A thread on each CPU, areas that change hands, and purges in between: no CPU ever sees another's
//! past.

use crate::PAGE;
use parking_lot::{Mutex, RawFairMutex};
use vmalloc::{AllocError, PageRange, Request, Space, SpaceOptions};
use vmalloc_model::{Seeded, Source, env};
use vmalloc_sim::{Options, Sim};

const CPUS: usize = 4;
/// Areas that wait for a thread to take and free them.
const HANDED_ON: usize = 64;

/// The space's lock is another than the default.
type Shared = Space<Sim<RawFairMutex>>;

struct Crew {
    space: Shared,
    /// Start and pages of areas that no thread has.
    pool: Mutex<Vec<(usize, u64)>>,
}

impl Crew {
    fn new(options: SpaceOptions) -> Self {
        let span = PageRange::new(0x1000, 0x1400).expect("not empty");
        let sim = Options::new(span).cpus(CPUS).frames(700).build_with();
        Self { space: Space::new(sim, options).expect("an empty space"), pool: Mutex::default() }
    }

    fn work(&self, cpu: usize, ops: usize) {
        Sim::run_on(cpu);
        let mut source = Seeded::new(env::seed(1) + cpu as u64);
        for _ in 0..ops {
            match source.below(64) {
                0 => self.space.purge().expect("no fault was asked for"),
                1..30 => self.take(cpu, 1 + source.below(8)),
                _ => self.give(cpu, source.below(HANDED_ON as u64) as usize),
            }
        }
    }

    /// Takes an area, writes to each page, and leaves it to the next thread that comes.
    fn take(&self, cpu: usize, pages: u64) {
        if self.pool.lock().len() >= HANDED_ON {
            return;
        }
        let request = Request::new(pages as usize * PAGE).zeroed();
        let addr = match self.space.raw().alloc(&request) {
            Ok(addr) => addr,
            // Others hold too much, or are about to give it back.
            Err(AllocError::NoSpace(_) | AllocError::Unbacked(_)) => return,
            Err(error) => panic!("{error}"),
        };
        let (sim, first) = (self.space.platform(), (addr / PAGE) as u64);
        for page in first..first + pages {
            assert_eq!(sim.read(cpu, page), Ok(0));
            sim.write(cpu, page, page).expect("it is mapped");
        }
        assert!(sim.read(cpu, first + pages).is_err(), "the guard is reached");
        self.pool.lock().push((addr, pages));
    }

    /// Takes one of the areas that are waiting, looks at it from here, and frees it.
    fn give(&self, cpu: usize, nth: usize) {
        let Some((addr, pages)) = self.pick(nth) else { return };
        let (sim, first) = (self.space.platform(), (addr / PAGE) as u64);
        for page in first..first + pages {
            assert_eq!(sim.read(cpu, page), Ok(page));
        }
        // SAFETY: the area was this thread's alone since it left the pool, and it is forgotten
        // here.
        unsafe { self.space.raw().free(addr) }.expect("it was allocated");
    }

    fn pick(&self, nth: usize) -> Option<(usize, u64)> {
        let mut pool = self.pool.lock();
        let nth = nth.checked_rem(pool.len())?;
        Some(pool.swap_remove(nth))
    }

    fn run(self, ops: usize) {
        let crew = &self;
        std::thread::scope(|scope| {
            for cpu in 0..CPUS {
                scope.spawn(move || crew.work(cpu, ops));
            }
        });
        while !self.pool.lock().is_empty() {
            self.give(0, 0);
        }
        self.space.purge().expect("no fault was asked for");
        self.space.verify().expect("every invariant holds");
        let sim = self.space.platform();
        sim.check_end();
        assert!(sim.counts().interrupts > 0, "no CPU ever held what another purged");
    }
}

#[test]
fn areas_change_hands_between_cpus() {
    let unmapping = SpaceOptions::default().unmap_on_free();
    for options in [unmapping, unmapping.lazy_max_pages(1), SpaceOptions::default().cache_bytes(64 * PAGE)] {
        Crew::new(options).run(env::ops(5_000));
    }
}
