//! All CPUs at once.

use super::memory::unexpected;
use crate::access;
use crate::memory::PAGE;
use crate::workers;
use crate::world::{Failure, Outcome, World, ensure, free, pages, stamp};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const SHOOTDOWNS: usize = 100;

/// This CPU purges again and again, while the others allocate, write, read and free, and purge too
/// at times.
pub(super) fn shootdowns(world: &World) -> Outcome {
    let (is_over, wrong) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |cpu: usize| {
        let mut turn = 0;
        while !is_over.load(Ordering::Relaxed) {
            turn += 1;
            if use_one(world, 1 + turn % 20, cpu as u64).is_err()
                || turn % 64 == 0 && world.space.purge().is_err()
            {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let workers = workers::begin(world.kernel, 1..world.cpus(), &work);
    let result = (0..SHOOTDOWNS).try_for_each(|turn| {
        use_one(world, 1 + turn % 5, 0)?;
        Ok::<_, Failure>(world.space.purge()?)
    });
    is_over.store(true, Ordering::Relaxed);
    drop(workers);
    result?;
    ensure!(wrong.load(Ordering::Relaxed) == 0, "{wrong:?} turns of other CPUs went wrong");
    Ok(())
}

/// An area whose every page is written and read.
fn use_one(world: &World, count: usize, key: u64) -> Outcome {
    let addr = pages(world.space, count)?;
    let words = || (0..count).map(|page| addr + page * PAGE);
    for word in words() {
        // SAFETY: the area is this CPU's.
        unsafe { access::write(word, stamp(word, key)) }.map_err(unexpected)?;
    }
    for word in words() {
        ensure!(access::read(word) == Ok(stamp(word, key)), "another's data at {word:#x}");
    }
    free(world.space, addr)
}
