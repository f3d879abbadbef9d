//! The life of threads in a world: steps, quiet moments, forks, and the end.
//!
//! ```text
//!   thread 0   steps ─► fork, whose child goes on for a while ─► ║ checks all, alone ║ its own ─► …
//!   thread 1   steps ──────────────────────────────────────────► ║                   ║ its own ─► …
//! ```

use crate::dice::Dice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The steps that the child of a fork makes.
const STEPS_OF_CHILD: usize = 200;

/// Tells if the first thread forks in each quiet moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forks {
    /// It does. The child goes on with all that its parent had.
    Some,
    /// It does not.
    None,
}

/// A world: what all threads share, and what each can do with its owners.
pub(crate) trait Life: Sync {
    /// One owner of something of the world.
    type Owner: Send;

    /// Makes an owner; `None` where the world has no room for it.
    fn make(&self, dice: &mut Dice) -> Option<Self::Owner>;

    /// Checks all that an owner should hold.
    fn check(&self, owner: &Self::Owner);

    /// Does something with an owner. What fails leaves it as it was.
    fn change(&self, owner: &mut Self::Owner, dice: &mut Dice);

    /// Ends an owner in one of the ways that there are.
    fn end(&self, owner: Self::Owner, dice: &mut Dice);

    /// Calls what looks at the whole world, or changes what waits in it.
    fn look_around(&self, dice: &mut Dice);

    /// Notes what a thread owns as a quiet moment begins.
    fn tell(&self, _owners: &[Self::Owner]) {}

    /// Checks what holds while no other thread does anything.
    fn check_quiet(&self, dice: &mut Dice);

    /// Checks what holds in the child of a fork.
    fn check_child(&self);

    /// Returns the owners that wait for any thread to take them over, if this world has such.
    fn handed_over(&self) -> Option<&Mutex<Vec<Self::Owner>>> {
        None
    }
}

/// Lets one or two threads live in a world for about `time`. Returns how many steps they made. All
/// owners have ended then.
pub(crate) fn live<L: Life>(life: &L, dice: &mut Dice, time: Duration, forks: Forks) -> u64 {
    let threads = 1 + usize::from(!dice.one_in(4));
    let (most, steps) = (dice.pick(&[5, 40, 200]), dice.pick(&[200, 1000]));
    let (barrier, stop, end) = (Barrier::new(threads), AtomicBool::new(false), Instant::now() + time);
    thread::scope(|scope| {
        let turns = |nth: usize, mut dice: Dice| {
            let (mut owners, mut made) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                (0..steps).for_each(|_| step(life, &mut dice, &mut owners, most));
                made += steps;
                if nth == 0 && forks == Forks::Some {
                    fork(life, &mut dice, &mut owners, most);
                }
                life.tell(&owners);
                barrier.wait();
                if nth == 0 {
                    life.check_quiet(&mut dice);
                    stop.store(Instant::now() > end, Ordering::Relaxed);
                }
                barrier.wait();
                owners.iter().for_each(|owner| life.check(owner));
            }
            owners.extend(life.handed_over().into_iter().flat_map(take_all));
            owners.into_iter().for_each(|owner| life.end(owner, &mut dice));
            made
        };
        let handles: Vec<_> = (0..threads)
            .map(|nth| (nth, Dice::new(dice.any())))
            .map(|(nth, dice)| scope.spawn(move || guarded(|| turns(nth, dice))))
            .collect();
        handles.into_iter().map(|thread| thread.join().expect("a panic aborts")).sum()
    })
}

/// Does one thing to one of `owners`, of which there are not more than `most`.
fn step<L: Life>(life: &L, dice: &mut Dice, owners: &mut Vec<L::Owner>, most: usize) {
    let is_full = owners.len() >= most;
    match dice.below(10) {
        0..=4 if !is_full => owners.extend(life.make(dice)),
        0 => life.look_around(dice),
        _ if owners.is_empty() => {}
        1..=5 => {
            let owner = dice.below(owners.len());
            life.check(&owners[owner]);
            life.change(&mut owners[owner], dice);
        }
        6 => exchange(life, dice, owners),
        _ => {
            let owner = owners.swap_remove(dice.below(owners.len()));
            life.check(&owner);
            life.end(owner, dice);
        }
    }
}

/// Hands an owner over, and takes another. In the child of a fork the lock may be held by a thread
/// that is not there.
fn exchange<L: Life>(life: &L, dice: &mut Dice, owners: &mut Vec<L::Owner>) {
    let Some(Ok(mut all)) = life.handed_over().map(Mutex::try_lock) else { return };
    all.push(owners.swap_remove(dice.below(owners.len())));
    if all.len() > 2 {
        let nth = dice.below(all.len());
        let taken = all.swap_remove(nth);
        life.check(&taken);
        owners.push(taken);
    }
}

fn take_all<T>(all: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *all.lock().expect("no thread has panicked"))
}

/// Forks. The child goes on for a while with all that the thread has, and leaves the rest alone.
fn fork<L: Life>(life: &L, dice: &mut Dice, owners: &mut Vec<L::Owner>, most: usize) {
    vmalloc_harness::in_forked_child(|| {
        (0..STEPS_OF_CHILD).for_each(|_| step(life, dice, owners, most));
        life.check_child();
        true
    });
}

/// Ends the program where a thread panics, for the others would wait for it at the barrier.
fn guarded(turns: impl FnOnce() -> u64) -> u64 {
    catch_unwind(AssertUnwindSafe(turns)).unwrap_or_else(|_| abort())
}
