//! Which CPU runs this: the real one, or the one that a replay says.

use std::cell::Cell;

thread_local!(static PLAYED: Cell<Option<usize>> = const { Cell::new(None) });

/// Makes this thread pass for `cpu`, or for the one that it really runs on.
pub fn play(cpu: Option<usize>) {
    PLAYED.set(cpu);
}

/// The CPU that runs this, below `cpus`: a hint that picks a shard. Asking takes about 2 ns.
#[inline]
pub fn current(cpus: usize) -> usize {
    // Where only some CPUs may be used, their numbers are folded into those that there are.
    PLAYED.get().unwrap_or_else(rustix::thread::sched_getcpu) % cpus
}

/// How many CPUs this program may use.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_passes_for_the_cpu_it_plays() {
        play(Some(5));
        assert_eq!((current(8), current(4)), (5, 1));
        play(None);
        assert!(current(count()) < count());
    }
}
