//! The decay: one thread of the program, which trims cached stacks by their age.
//!
//! ```text
//!            a drop in a shard that was idle          two rounds without a drop, all magazines empty
//!   NONE ──────────────────────────────────► RUNNING ──────────────────────────────────► NONE
//! ```
//!
//! Once a second it trims every cached stack of every pool, whatever its sentinel says. So a stack
//! that was used deeper than its sentinel tells has given that memory back a second later. Of
//! shards where nothing was dropped since, half of the stacks go to the space. The space frees them
//! by their age in turn.
//!
//! No drop is overlooked: it marks its shard, and then reads the state. The thread writes the
//! state, and then looks for marked shards. Both orders are sequentially consistent.

use crate::recycle::Age;
use crate::registry;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// No thread is there.
const NONE: u32 = 0;
/// A thread is there, or about to be.
const RUNNING: u32 = 1;

static STATE: AtomicU32 = AtomicU32::new(NONE);

/// The time between two rounds, that of the drain of a space. A round trims 64 stacks of a CPU in
/// 0.1 ms at most: a ten-thousandth of the time.
const PERIOD: Duration = Duration::from_secs(1);

/// The stack of the thread: as that of the drain thread of spaces.
const STACK_BYTES: usize = 256 << 10;

/// Creates the thread, unless it is there.
#[cold]
pub(crate) fn wake() {
    if STATE.load(Ordering::SeqCst) == RUNNING
        || STATE.compare_exchange(NONE, RUNNING, Ordering::SeqCst, Ordering::SeqCst).is_err()
    {
        return;
    }
    let builder = thread::Builder::new().name("vmalloc-stacks".into()).stack_size(STACK_BYTES);
    // Where no thread can be had, stacks keep their memory until more are dropped, or trimmed.
    if with_signals_blocked(|| builder.spawn(run)).is_err() {
        STATE.store(NONE, Ordering::SeqCst);
    }
}

/// Forgets the thread, in the child of a fork.
pub(crate) fn resume_in_child() {
    STATE.store(NONE, Ordering::SeqCst);
}

fn run() {
    loop {
        thread::sleep(PERIOD);
        if is_work_left_after_a_round() {
            continue;
        }
        STATE.store(NONE, Ordering::SeqCst);
        let is_missed = is_any_shard_active();
        // If that fails, another thread has taken over.
        if !is_missed || STATE.compare_exchange(NONE, RUNNING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
    }
}

/// Plays one round over all pools. Returns whether another one is needed.
fn is_work_left_after_a_round() -> bool {
    let mut is_left = false;
    for hold in registry::entries().filter_map(registry::Entry::hold).filter(|hold| hold.has_threads) {
        for shard in &hold.shards {
            let age = if shard.deactivate() { Age::Fresh } else { Age::Idle };
            hold.trim(shard, age);
            is_left |= age == Age::Fresh || !shard.is_empty();
        }
    }
    is_left
}

fn is_any_shard_active() -> bool {
    let mut holds = registry::entries().filter_map(registry::Entry::hold);
    holds.any(|hold| hold.has_threads && hold.shards.iter().any(crate::shard::Shard::is_active))
}

/// Runs `body` with all signals but SIGSYS blocked. A thread that it creates inherits that mask: no
/// handler of the program's runs on it.
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: room for a set each; the first is filled before it is read. The call can't fail with
    // these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        // A filter (seccomp(2)) raises it. The kernel ends a process that blocks it then.
        libc::sigdelset(all.as_mut_ptr(), libc::SIGSYS);
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = body();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}
