//! Forks between two locks of another thread.

use super::{HELD, Test, dear, give, space, take, with_other};
use std::cell::Cell;
use std::rc::Rc;
use vmalloc::{Cached, Mapping};

/// Forks before each lock that `act` takes on such a space. Each fork that gets all locks gets them
/// where none is held. Returns how many do.
fn forks_beside(make: impl Fn() -> Test, act: impl Fn(Test)) -> usize {
    let mut forks = 0;
    for nth in 0.. {
        let space = make();
        let held = Rc::new(Cell::new(None));
        let noted = held.clone();
        let fork = move || {
            let held = HELD.get();
            space.quiesce();
            noted.set(Some(held));
            // SAFETY: this thread has just called `quiesce`.
            unsafe { space.resume() };
        };
        let (_, has_acted) = with_other(nth, fork, || act(space));
        if !has_acted {
            break;
        }
        let held = held.get();
        assert!(held.is_none_or(|held| held == 0), "lock {nth}: {held:?} locks are held at the fork");
        forks += usize::from(held.is_some());
    }
    forks
}

/// A fork waits for each thread that holds a lock: a child would find what the lock protects half
/// done.
#[test]
fn a_fork_waits_for_every_lock() {
    type Act = fn(Test);
    let acts: [Act; 6] = [
        |space| _ = take(space, 100),
        |space| give(space, space.areas().next().unwrap().addr),
        |space| _ = space.drain().unwrap(),
        |space| space.flush().unwrap(),
        |space| space.purge().unwrap(),
        |space| drop(Mapping::new(&space.frames(2).unwrap()).unwrap()),
    ];
    for (act, kind) in acts.iter().flat_map(|act| [(act, Cached::Memory), (act, Cached::Addresses)]) {
        let make = || {
            let space = space(kind);
            take(space, 50);
            space
        };
        assert!(forks_beside(make, act) > 0, "no fork got through");
    }
    // An area of the stock is cut in the map, under the locks of both and of no node.
    let make = || {
        let space = dear(1 << 20, 1 << 12);
        let areas = [600, 700].map(|pages| take(space, pages));
        give(space, areas[0]);
        space
    };
    assert!(forks_beside(make, |space| _ = take(space, 300)) > 0, "no fork got through");
}
