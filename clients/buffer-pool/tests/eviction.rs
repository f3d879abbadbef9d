//! Pages hold what was written to them, on every way, while two threads evict.

use buffer_pool::pool::Limits;
use buffer_pool::ways::Evicted;
use buffer_pool::workload::{self, accesses, play};
use buffer_pool::{ByMadvise, ByMmap, OnVmalloc, PAGE, Pool, PoolError, Way, page};

const PAGES: u64 = 1 << 13;
const LIMITS: Limits = Limits { budget: 1 << 10, batch: 64 };
const COUNT: usize = 60_000;

fn seed() -> u64 {
    let seed = std::env::var("VMALLOC_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(16);
    println!("VMALLOC_SEED={seed}");
    seed
}

/// Lets two threads read and update, then checks every page, and the sum of all changes.
fn evict_under_load<W: Way>(way: W) {
    let pool = workload::pool(way, PAGES, LIMITS).unwrap();
    let seed = seed();
    let play = |nth| play(&pool, &accesses(seed + nth, PAGES, COUNT, 50)).unwrap();
    let updates = std::thread::scope(|scope| {
        let threads = [0, 1].map(|nth| scope.spawn(move || play(nth)));
        threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
    });
    let (evictions, loads) = (pool.evictions(), pool.loads());
    println!("{updates} updates, {loads} loads, {evictions} evictions");
    assert!(evictions > 10_000, "{evictions} evictions");
    assert!(pool.resident() <= LIMITS.budget, "{} pages", pool.resident());
    // The last pages come from the storage, too: all others were read meanwhile.
    let changes: u64 = (0..PAGES).map(|nth| page::check(&pool.fix(nth).unwrap(), nth).unwrap()).sum();
    assert_eq!(changes, updates, "no update is lost and none is made twice");
}

#[test]
fn vmalloc_keeps_contents_under_eviction() {
    evict_under_load(OnVmalloc::new(PAGES as usize, Evicted::ReadAsZero).unwrap());
}

#[test]
fn vmalloc_with_traps_keeps_contents_under_eviction() {
    evict_under_load(OnVmalloc::new(PAGES as usize, Evicted::Trap).unwrap());
}

#[test]
fn madvise_keeps_contents_under_eviction() {
    evict_under_load(ByMadvise::new(PAGES as usize).unwrap());
}

#[test]
fn mmap_keeps_contents_under_eviction() {
    evict_under_load(ByMmap::new(PAGES as usize).unwrap());
}

/// Returns how many of the pool's pages have memory, as the kernel counts.
fn in_memory<W: Way>(pool: &Pool<W>) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (start, end) = (pool.range(0).start, pool.range(PAGES - 1).end);
    let mut inside = false;
    let mut kib = 0;
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((from, _)) = first.split_once('-') {
            inside = usize::from_str_radix(from, 16).is_ok_and(|from| (start..end).contains(&from));
        } else if inside && first == "Rss:" {
            kib += line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap();
        }
    }
    kib / (PAGE >> 10)
}

#[test]
fn memory_of_evicted_pages_goes_back_to_the_machine() {
    let way = OnVmalloc::new(PAGES as usize, Evicted::Trap).unwrap();
    let pool = workload::pool(way, PAGES, LIMITS).unwrap();
    (0..LIMITS.budget as u64).for_each(|nth| drop(pool.fix(nth).unwrap()));
    assert_eq!(in_memory(&pool), LIMITS.budget);
    assert_eq!(pool.evict_batch().unwrap(), LIMITS.batch);
    assert_eq!(in_memory(&pool), LIMITS.budget - LIMITS.batch);
}

#[test]
fn an_unknown_page_is_refused() {
    let pool = workload::pool(ByMadvise::new(8).unwrap(), 8, LIMITS).unwrap();
    assert!(matches!(pool.fix(8), Err(PoolError::NoSuchPage { page: 8, pages: 8 })));
}

#[test]
fn pages_that_cannot_be_written_back_stay() {
    let limits = Limits { budget: 64, batch: 16 };
    let storage = workload::storage(128).unwrap();
    // Readable, and not writable.
    let read_only =
        std::fs::File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&storage))).unwrap();
    let pool = Pool::new(OnVmalloc::new(128, Evicted::Trap).unwrap(), read_only, 128, limits);
    for nth in 0..64 {
        page::write(&mut pool.fix(nth).unwrap(), nth, 9);
    }
    assert!(matches!(pool.fix(100), Err(PoolError::Storage(_))));
    for nth in 0..64 {
        assert_eq!(page::check(&pool.fix(nth).unwrap(), nth), Ok(9), "page {nth} is as it was");
    }
}
