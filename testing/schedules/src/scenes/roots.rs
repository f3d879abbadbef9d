//! Scenarios of sub-spaces: made, used and dropped by several threads, and forked with.

use crate::explore::{end_alone, leave_others_behind};
use crate::machine::Machine;
use crate::world::World;
use shuttle::thread;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use vmalloc::sync::point;
use vmalloc::{Policy, Request, Space};
use vmalloc_sim::Point;
use vmalloc_subspaces::{Root, Subspace, SubspaceError, SubspaceState};

type Part = Space<Subspace<Machine>>;

/// Pages of the sub-space that comes and goes.
const PAGES: u64 = 16;
/// The most pages that a thread holds at a time.
const HELD: usize = 2;

fn root(pages: u64) -> Arc<Root<Machine>> {
    Arc::new(Root::new(World::machine(World::options(pages))).expect("an empty root"))
}

/// Returns the sub-space that one thread at a time can have.
fn scratch(root: &Root<Machine>) -> Result<Part, SubspaceError> {
    let request = Request::new(PAGES as usize * World::PAGE).policy(Policy::Highest);
    root.subspace("scratch", &request, None, World::tight())
}

fn stays(root: &Root<Machine>) -> Part {
    let request = Request::new(PAGES as usize * World::PAGE);
    let space_options = World::tight().lazy_max_pages(2);
    root.subspace("stays", &request, None, space_options).expect("room")
}

fn use_it(space: &Part) {
    let areas =
        [1, HELD - 1].map(|pages| space.raw().alloc(&Request::new(pages * World::PAGE)).expect("room"));
    for addr in areas {
        // SAFETY: nothing is behind the addresses of a simulated machine.
        unsafe { space.raw().free(addr) }.expect("it was allocated");
    }
    // The machine may refuse a flush.
    let _ = space.purge();
}

/// Makes the sub-space, if it does not exist, and drops it with memory in it.
fn come_and_go(root: &Root<Machine>) {
    for _ in 0..2 {
        match scratch(root) {
            Ok(space) => drop(space.raw().alloc(&Request::new(World::PAGE)).expect("room")),
            Err(SubspaceError::DuplicateName { .. } | SubspaceError::NoSpace(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Forks in the middle of everything that can be done to a root: the child goes on with what others
/// left, and no more is lost than what they owned.
///
/// `refused` is a flush of the machine that fails, so that a sub-space may linger, and be swept, at
/// the fork.
pub fn forked_meanwhile(refused: u64) {
    fork_meanwhile(refused, true);
}

/// Forks while sub-spaces come and go, and no thread uses the one that stays.
pub fn forked_while_parts_change() {
    fork_meanwhile(u64::MAX, false);
}

fn fork_meanwhile(refused: u64, is_used: bool) {
    let root = root(3 * PAGES);
    // Not dropped where an assertion fails: that would ask the scheduler for more.
    let stays = ManuallyDrop::new(Arc::new(stays(&root)));
    root.platform().sim().fail_nth(Point::Flush, refused);
    for _ in 0..2 {
        let root = root.clone();
        thread::spawn(move || come_and_go(&root));
    }
    if is_used {
        let other = Arc::clone(&stays);
        thread::spawn(move || use_it(&other));
    }
    point();
    // As the hooks do: the spaces, and then what they stand on.
    stays.quiesce();
    root.quiesce();
    root.platform().sim().at_rest(leave_others_behind);
    // SAFETY: this thread has just called `quiesce`, and there is no other any more.
    unsafe {
        root.resume_in_child();
        stays.resume_in_child();
    }
    root.platform().sim().heal();
    go_on(&root, &stays);
    drop(ManuallyDrop::into_inner(stays));
    end_alone();
}

/// Uses the root in the child of the fork.
fn go_on(root: &Root<Machine>, stays: &Part) {
    let left = root.subspaces().find(|part| part.name == "scratch").map(|part| part.state);
    assert_ne!(left, Some(SubspaceState::Changing), "nobody here is at it");
    stays.verify().expect("every invariant holds in the child");
    use_it(stays);
    match scratch(root) {
        Ok(space) => use_it(&space),
        Err(error) => assert_eq!(left, Some(SubspaceState::Live), "{error}, and nobody has it"),
    }
    stays.purge().expect("it was healed");
    let used = root.subspaces().find(|part| part.name == "stays").expect("it lives").used_bytes;
    assert!(used <= HELD * World::PAGE, "more than the other thread had is mapped: {used} bytes");
    assert_eq!(root.platform().sim().audit(), []);
}

/// A fork holds everything for a while: no thread waits for ever, and all go on.
pub fn fork_meets_roots() {
    let root = root(3 * PAGES);
    let stays = Arc::new(stays(&root));
    root.platform().sim().fail_nth(Point::Flush, 1);
    let other = root.clone();
    let user = stays.clone();
    let threads = [
        thread::spawn(move || come_and_go(&other)),
        thread::spawn(move || {
            // Its first flush may be the one that fails.
            let addr = user.raw().alloc(&Request::new(World::PAGE)).expect("room");
            // SAFETY: nothing is behind the addresses of a simulated machine.
            unsafe { user.raw().free(addr) }.expect("it was allocated");
            let _ = user.purge();
        }),
    ];
    for _ in 0..2 {
        stays.quiesce();
        root.quiesce();
        point();
        // SAFETY: this thread has just called `quiesce`.
        unsafe {
            root.resume();
            stays.resume();
        }
        point();
    }
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    use_it(&stays);
    drop(stays);
    drop(scratch(&root).expect("what lingers is swept"));
    assert_eq!(root.subspaces().count(), 0);
    assert_eq!(root.platform().sim().check_end(), vec![]);
}
