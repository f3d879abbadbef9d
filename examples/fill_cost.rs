//! What it costs to fill new memory, in nanoseconds a page of CPU time: by faults, and with
//! [`LinuxOptions::populate`]. `cargo run --release -p vmalloc-examples --example fill_cost`.
//!
//! In one run, alternating: 64 MiB of areas of one size, that are allocated, filled and freed
//! again, and purged after the measurement. Medians. The sizes are those of a malloc's blocks.

use std::time::Duration;
use vmalloc_linux::{
    Error, Linux, LinuxOptions, Request, SharedSpace, Space, SpaceOptions, open, page_bytes,
};

const ROUNDS: usize = 21;
const ALL_PAGES: usize = 1 << 14;

fn main() -> Result<(), Error> {
    let spaces = [space(LinuxOptions::new())?, space(LinuxOptions::new().populate(true))?];
    println!("{:>6}  {:>7}  {:>9}", "pages", "faults", "populated");
    for pages in [8, 16, 64, 256, 1000] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (space, times) in spaces.iter().zip(&mut times) {
                times.push(fill(space, pages)?);
            }
        }
        let [faults, populated] = times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2]
        });
        println!("{pages:>6}  {faults:>7}  {populated:>9}");
    }
    Ok(())
}

/// A space that caches nothing.
fn space(options: LinuxOptions) -> Result<SharedSpace, Error> {
    open(options.drain_thread(false).frame_bytes(0), SpaceOptions::default().cache_bytes(0).guard(false))
}

/// Fills new areas. Returns nanoseconds a page.
fn fill(space: &Space<Linux>, pages: usize) -> Result<u128, Error> {
    let mut areas = Vec::with_capacity(ALL_PAGES / pages);
    let before = cpu_time();
    for _ in 0..ALL_PAGES / pages {
        let addr = space.raw().alloc(&Request::new(pages * page_bytes()))?;
        // SAFETY: an area of so many bytes.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(1, pages * page_bytes()) };
        areas.push(addr);
    }
    let time = cpu_time() - before;
    for &addr in &areas {
        // SAFETY: allocated above, and not used any more.
        unsafe { space.raw().free(addr) }?;
    }
    space.purge()?;
    Ok(time.as_nanos() / (areas.len() * pages) as u128)
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0, "every thread has a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
