//! The build for models of weak memory, under `--cfg loom`: the core's own code over the atomics of
//! loom, which tries every order of steps and every value that a load may see.
//!
//! The allocator's records begin as zeroed memory, and an atomic of loom's can't. So an atomic here
//! is a value with the number of one of loom's, made when the first thread uses it. A model
//! therefore touches everything once before it spawns threads; loom reports an atomic that was made
//! by a thread without an order before the others.
//!
//! All threads of a model run in one thread of the system, so what is set for it is thread-local.

// All threads of a model run in one thread of the system, so what is set for it is thread-local.
#![cfg_attr(not(test), allow(dead_code))]

extern crate std;

use core::panic::Location;
use core::sync::atomic::{self, Ordering};
use loom::cell::UnsafeCell;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, fs, println};
use zerocopy::{FromBytes, IntoBytes};

type Modelled = loom::sync::atomic::AtomicU64;

pub const fn size(_ordinary: u64, explored: u64) -> u64 {
    explored
}

/// One half of an order at one place of the code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Site {
    place: &'static Location<'static>,
    half: Half,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Half {
    Acquire,
    Release,
}

#[derive(Default)]
struct CellState {
    atomics: HashMap<u64, Rc<Modelled>>,
    /// The words that areas begin with, by address.
    words: HashMap<usize, Rc<UnsafeCell<usize>>>,
    /// The last number that was given to an atomic.
    last: u64,
    /// The half that is left out.
    broken: Option<Site>,
    /// Those that the model has come by.
    seen: BTreeSet<Site>,
}

std::thread_local! {
    static STATE: RefCell<CellState> = RefCell::default();
}

/// Tries all executions of `body`, with up to so many switches away from a thread that could go on.
fn run(preemptions: usize, body: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        STATE.with_borrow_mut(|state| {
            state.atomics.clear();
            state.words.clear();
        });
        body();
    });
}

/// Asserts that the model holds.
pub fn holds(preemptions: usize, body: fn()) {
    STATE.with_borrow_mut(|state| *state = CellState { last: state.last, ..CellState::default() });
    run(preemptions, body);
}

/// Asserts that the model holds, and which halves of the orders it comes by it needs: it fails when
/// one of these is left out. Each is told as the half and its line of code, in any order.
pub fn needs(orders: &[&str], preemptions: usize, body: fn()) {
    holds(preemptions, body);
    let seen = STATE.with_borrow(|state| state.seen.clone());
    let fails = |site: &Site| {
        STATE.with_borrow_mut(|state| state.broken = Some(*site));
        catch_unwind(AssertUnwindSafe(|| run(preemptions, body))).is_err()
    };
    let (needed, spare): (Vec<_>, Vec<_>) = seen.into_iter().partition(fails);
    let text = |site: Site| format!("{:?}: {}", site.half, line(site.place));
    spare.into_iter().for_each(|site| println!("not needed here: {}", text(site)));
    let (mut needed, mut orders) = (needed.into_iter().map(text).collect::<Vec<_>>(), orders.to_vec());
    needed.sort_unstable();
    orders.sort_unstable();
    assert_eq!(needed, orders);
}

/// The text of a line of the code.
fn line(place: &Location<'_>) -> String {
    let path = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), place.file());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().nth(place.line() as usize - 1).map_or_else(String::new, |line| line.trim().to_string())
}

/// Returns the order that is left of `order` at a place of the code.
fn weakened(order: Ordering, place: &'static Location<'static>) -> Ordering {
    let acquires = matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst);
    let releases = matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst);
    let keeps = |has: bool, half| {
        has && STATE.with_borrow_mut(|state| {
            let site = Site { place, half };
            state.seen.insert(site);
            state.broken != Some(site)
        })
    };
    match (keeps(acquires, Half::Acquire), keeps(releases, Half::Release)) {
        (true, true) => order,
        (true, false) => Ordering::Acquire,
        (false, true) => Ordering::Release,
        (false, false) => Ordering::Relaxed,
    }
}

#[track_caller]
pub fn fence(order: Ordering) {
    match weakened(order, Location::caller()) {
        Ordering::Relaxed => {}
        order => loom::sync::atomic::fence(order),
    }
}

/// Reads the word that an area begins with.
///
/// # Safety
/// None here: loom reports a word that another thread may be writing.
pub unsafe fn word_at(addr: usize) -> usize {
    // SAFETY: all threads of a model run in one of the system's.
    word(addr).with(|word| unsafe { *word })
}

/// Writes the word that an area begins with.
///
/// # Safety
/// None here: loom reports a word that another thread may be using.
pub unsafe fn set_word_at(addr: usize, value: usize) {
    // SAFETY: as in `word_at`.
    word(addr).with_mut(|word| unsafe { *word = value });
}

fn word(addr: usize) -> Rc<UnsafeCell<usize>> {
    STATE.with_borrow_mut(|state| {
        state.words.entry(addr).or_insert_with(|| Rc::new(UnsafeCell::new(0))).clone()
    })
}

macro_rules! atomic {
    ($name:ident, $value:ty, number: $number:ident, padding: $padding:literal) => {
        #[derive(Debug, Default, FromBytes, IntoBytes)]
        #[repr(C)]
        pub struct $name {
            /// Of an atomic in [`CellState`]; 0 until the first use.
            number: atomic::$number,
            /// The value at the first use.
            value: atomic::$name,
            padding: [u8; $padding],
        }

        #[allow(dead_code)]
        impl $name {
            pub const fn new(value: $value) -> Self {
                let (number, value) = (atomic::$number::new(0), atomic::$name::new(value));
                Self { number, value, padding: [0; $padding] }
            }

            fn modelled(&self) -> Rc<Modelled> {
                STATE.with_borrow_mut(|state| {
                    let mut number = self.number.load(Ordering::Relaxed) as u64;
                    if number == 0 {
                        state.last += 1;
                        number = state.last;
                        self.number.store(number as _, Ordering::Relaxed);
                        let value = self.value.load(Ordering::Relaxed) as u64;
                        state.atomics.insert(number, Rc::new(Modelled::new(value)));
                    }
                    state.atomics[&number].clone()
                })
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.modelled().load(weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.modelled().store(value as u64, weakened(order, Location::caller()));
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.modelled().swap(value as u64, weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                not: Ordering,
            ) -> Result<$value, $value> {
                let done = weakened(done, Location::caller());
                let result = self.modelled().compare_exchange(old as u64, new as u64, done, not);
                result.map(|old| old as $value).map_err(|other| other as $value)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                not: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, done, not)
            }

            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.modelled().fetch_add(value as u64, weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.modelled().fetch_sub(value as u64, weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.modelled().fetch_max(value as u64, weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn fetch_or(&self, mask: $value, order: Ordering) -> $value {
                self.modelled().fetch_or(mask as u64, weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn fetch_and(&self, mask: $value, order: Ordering) -> $value {
                self.modelled().fetch_and(mask as u64, weakened(order, Location::caller())) as $value
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let set = weakened(set, Location::caller());
                let change = |old: u64| change(old as $value).map(|new| new as u64);
                let result = self.modelled().fetch_update(set, fetch, change);
                result.map(|old| old as $value).map_err(|other| other as $value)
            }
        }
    };
}

// As wide as makes records of them have no gaps.
atomic!(AtomicU8, u8, number: AtomicU32, padding: 3);
atomic!(AtomicU32, u32, number: AtomicU32, padding: 0);
atomic!(AtomicU64, u64, number: AtomicU64, padding: 0);
atomic!(AtomicUsize, usize, number: AtomicU64, padding: 0);
