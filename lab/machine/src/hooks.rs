//! What instrumented code calls. `rustc.sh` says which crates are.
//!
//! Hooks of loads, stores and locks are entered by a jump with the return address in a register:
//! the place in the code that they are accounted to.

use crate::cpus::{Pause, meet, pause};
use crate::lines::Use;
use crate::locks::{self, Kind};
use crate::memory::line_at;
use crate::now::{now, quietly};
use crate::{Picos, is_waited_for};
use std::arch::naked_asm;
use std::sync::atomic::AtomicU32;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the hooks are written for x86-64");

/// A basic block begins.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_pc() {
    let is_over = now(|now| {
        if !now.on.get() {
            return false;
        }
        now.pass(now.costs.get().block);
        now.blocks.set(now.blocks.get() + 1);
        now.clock.get() > now.limit.get()
    });
    if is_over {
        ask();
    }
}

/// Asks the scheduler.
#[cold]
fn ask() {
    quietly(|| pause(Pause::Behind));
}

/// Lets so much time pass on this CPU: work of something that is not looked at.
pub fn work(time: Picos) {
    let is_over = now(|now| {
        now.pass(if now.on.get() { time } else { 0 });
        now.on.get() && now.clock.get() > now.limit.get()
    });
    if is_over {
        ask();
    }
}

macro_rules! sited {
    ($(#[$about:meta] $name:ident($($arg:ident: $type:ty),*) -> $result:ty, $register:literal, $to:path;)*) => { $(
        #[$about]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name($($arg: $type),*) -> $result {
            naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {to}", to = sym $to)
        }
    )* };
}

sited! {
    /// A load of a byte.
    __sanitizer_cov_load1(_addr: usize) -> (), "rsi", load;
    /// Of 2 bytes.
    __sanitizer_cov_load2(_addr: usize) -> (), "rsi", load;
    /// Of 4 bytes.
    __sanitizer_cov_load4(_addr: usize) -> (), "rsi", load;
    /// Of 8 bytes.
    __sanitizer_cov_load8(_addr: usize) -> (), "rsi", load;
    /// Of 16 bytes.
    __sanitizer_cov_load16(_addr: usize) -> (), "rsi", load;
    /// A store of a byte.
    __sanitizer_cov_store1(_addr: usize) -> (), "rsi", store;
    /// Of 2 bytes.
    __sanitizer_cov_store2(_addr: usize) -> (), "rsi", store;
    /// Of 4 bytes.
    __sanitizer_cov_store4(_addr: usize) -> (), "rsi", store;
    /// Of 8 bytes.
    __sanitizer_cov_store8(_addr: usize) -> (), "rsi", store;
    /// Of 16 bytes.
    __sanitizer_cov_store16(_addr: usize) -> (), "rsi", store;
    /// An operation that reads and writes at once comes next.
    __machine_change(_addr: usize) -> (), "rsi", change;
    /// Takes a lock that is spun for.
    __machine_spin_lock(_word: &AtomicU32) -> (), "rsi", spin_lock;
    /// Takes one that is slept for.
    __machine_sleep_lock(_word: &AtomicU32) -> (), "rsi", sleep_lock;
    /// Takes a lock that is spun for, if it is free.
    __machine_spin_try_lock(_word: &AtomicU32) -> bool, "rsi", spin_try_lock;
    /// Takes one that is slept for, if it is free.
    __machine_sleep_try_lock(_word: &AtomicU32) -> bool, "rsi", sleep_try_lock;
}

extern "C" fn load(addr: usize, site: usize) {
    access(addr, Use::Read, site);
}

extern "C" fn store(addr: usize, site: usize) {
    access(addr, Use::Write, site);
}

#[inline]
fn access(addr: usize, to: Use, site: usize) {
    let is_far = now(|now| {
        now.on.get()
            // SAFETY: as in `touch`.
            && line_at(addr).is_some_and(|mut line| !unsafe { line.as_mut() }.is_at_hand(now.cpu.get(), to))
    });
    if is_far {
        quietly(|| meet(addr, to, site));
    }
}

extern "C" fn change(addr: usize, site: usize) {
    if now(|now| now.on.get()) {
        quietly(|| {
            meet(addr, Use::Write, site);
            now(|now| now.pass(now.costs.get().atomic));
            crate::cpus::settle();
        });
    }
}

extern "C" fn spin_lock(word: &AtomicU32, site: usize) {
    locks::lock(word, Kind::Spin, site);
}

extern "C" fn sleep_lock(word: &AtomicU32, site: usize) {
    locks::lock(word, Kind::Sleep, site);
}

extern "C" fn spin_try_lock(word: &AtomicU32, site: usize) -> bool {
    locks::try_lock(word, Kind::Spin, site)
}

extern "C" fn sleep_try_lock(word: &AtomicU32, site: usize) -> bool {
    locks::try_lock(word, Kind::Sleep, site)
}

/// Unlocks a lock that is spun for.
#[unsafe(no_mangle)]
extern "C" fn __machine_spin_unlock(word: &AtomicU32) {
    locks::unlock(word, Kind::Spin);
}

/// Unlocks one that is slept for.
#[unsafe(no_mangle)]
extern "C" fn __machine_sleep_unlock(word: &AtomicU32) {
    locks::unlock(word, Kind::Sleep);
}

/// Returns whether a thread waits for a lock.
#[unsafe(no_mangle)]
extern "C" fn __machine_is_waited_for(word: &AtomicU32) -> bool {
    is_waited_for(word)
}

/// Code that takes no time and is not interrupted comes next.
#[unsafe(no_mangle)]
extern "C" fn __machine_off() {
    now(|now| now.off.set(now.on.replace(false)));
}

/// That code has ended.
#[unsafe(no_mangle)]
extern "C" fn __machine_on() {
    now(|now| now.on.set(now.off.replace(false)));
}

/// All CPUs forget translations.
#[unsafe(no_mangle)]
extern "C" fn __machine_flush() {
    let costs = now(|now| now.costs.get());
    if now(|now| now.on.get()) {
        let others = quietly(|| crate::cpus::state(|state| state.cpus.len())) as Picos - 1;
        work(costs.flush + costs.flush_cpu * others);
    }
}

/// An area of so many pages is used, which starts there.
#[unsafe(no_mangle)]
extern "C" fn __machine_use(start: u64, pages: u64) {
    let costs = now(|now| {
        now.highest.set(now.highest.get().max(start + pages));
        now.costs.get()
    });
    work(costs.area + costs.page * pages);
}

/// A thread looks at a word until it changes: it lets others run first.
#[unsafe(no_mangle)]
extern "C" fn __machine_yield() {
    let costs = now(|now| now.costs.get());
    if now(|now| now.on.get()) {
        work(costs.handover);
        quietly(crate::cpus::settle);
    }
}
