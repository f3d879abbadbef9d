//! Locks.

use super::Clause;
use crate::bench::{Verdict, ensure};
use lock_api::{Mutex, RawMutex};
use vmalloc::Platform;

/// Turns of each thread.
const TURNS: u64 = 5_000;

pub(crate) fn locks<P: Platform>() -> Vec<Clause<P>> {
    vec![
        Clause {
            promise: "RawLock excludes: a held lock is not taken again",
            check: |_| held::<P::RawLock>(),
        },
        Clause {
            promise: "PurgeLock excludes: a held lock is not taken again",
            check: |_| held::<P::PurgeLock>(),
        },
    ]
}

pub(crate) fn threads<P: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync>>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "RawLock excludes threads from each other", check: |_| counted::<P::RawLock>() },
        Clause {
            promise: "PurgeLock excludes threads from each other",
            check: |_| counted::<P::PurgeLock>(),
        },
    ]
}

fn held<L: RawMutex>() -> Verdict {
    let lock = Mutex::<L, ()>::new(());
    let guard = lock.lock();
    ensure(lock.try_lock().is_none(), || "try_lock took a lock that is held".into())?;
    drop(guard);
    ensure(lock.try_lock().is_some(), || "try_lock did not take a lock that is free".into())
}

/// Counts by a load and a store that another thread could come between.
fn counted<L: RawMutex + Send + Sync>() -> Verdict {
    let count = Mutex::<L, u64>::new(0);
    let add = || {
        for turn in 0..TURNS {
            let mut guard = count.lock();
            let before = std::hint::black_box(*guard);
            if turn % 64 == 0 {
                std::thread::yield_now();
            }
            *guard = before + 1;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(add);
        scope.spawn(add);
    });
    let counted = *count.lock();
    ensure(counted == 2 * TURNS, || format!("{counted} of {} additions under the lock", 2 * TURNS))
}
