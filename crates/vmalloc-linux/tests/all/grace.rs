//! Freeing after a grace period: readers keep what they read, and all of it comes back.

use crate::common::{PAGE, StopAtEnd, assert_whole, in_forked_child, in_own_process, not_run};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread;
use vmalloc::{FreeError, Request, Space, SpaceOptions};
use vmalloc_linux::rcu::{DeferError, Grace, Head, SettleError, pin};
use vmalloc_linux::{Linux, LinuxOptions, open};

fn space(options: SpaceOptions) -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(1 << 30), options).expect("a gigabyte of addresses")
}

/// Both strategies: memory that is kept for reuse, and memory that traps when it was freed too
/// early.
fn all_options() -> [SpaceOptions; 2] {
    [SpaceOptions::default(), SpaceOptions::default().unmap_on_free().lazy_max_pages(16)]
}

/// Something that is read while it is replaced.
#[repr(C)]
struct Node {
    value: u64,
    copies: [u64; 400],
    head: Head,
}

impl Node {
    fn alloc(space: &Space<Linux>, value: u64) -> NonNull<Self> {
        let addr = space.raw().alloc(&Request::new(size_of::<Self>())).unwrap();
        let node = NonNull::new(std::ptr::with_exposed_provenance_mut::<Self>(addr)).unwrap();
        // SAFETY: fresh memory of this size, at a page.
        unsafe { node.write(Self { value, copies: [value; 400], head: Head::new() }) };
        node
    }

    fn is_intact(&self) -> bool {
        self.copies.iter().all(|copy| *copy == self.value)
    }

    fn head(node: NonNull<Self>) -> NonNull<Head> {
        // SAFETY: a field of a node that is there.
        NonNull::from(unsafe { &mut (*node.as_ptr()).head })
    }
}

/// The two forms.
#[derive(Clone, Copy)]
enum Form {
    Separate,
    Embedded,
}

/// # Safety
/// As for `Grace::free`.
unsafe fn defer(grace: &Grace, node: NonNull<Node>, form: Form) {
    match form {
        // SAFETY: the caller's promise.
        Form::Separate => unsafe { grace.free(node.addr().get()) }.unwrap(),
        // SAFETY: the caller's promise, and no reader reads the head.
        Form::Embedded => unsafe { grace.free_embedded(Node::head(node)) }.unwrap(),
    }
}

#[test]
fn a_pinned_reader_keeps_what_it_reads() {
    for (options, form) in all_options().into_iter().zip([Form::Separate, Form::Embedded]) {
        let space = space(options);
        let grace = Grace::new(&space);
        let node = Node::alloc(&space, 7);
        let reader = pin();
        thread::scope(|scope| {
            scope.spawn(|| {
                let node =
                    NonNull::new(std::ptr::with_exposed_provenance_mut(space.areas().next().unwrap().addr));
                // SAFETY: the only owner; the reader is pinned.
                unsafe { defer(&grace, node.unwrap(), form) };
                // Pins collect now and then: what may be freed is.
                (0..10_000).for_each(|_| drop(pin()));
                space.purge().unwrap();
            });
        });
        assert_eq!((grace.pending(), space.stats().busy_areas), (1, 1));
        // SAFETY: this thread was pinned before the node was given away.
        assert!(unsafe { node.as_ref() }.is_intact());
        drop(reader);
        grace.settle().unwrap();
        assert_eq!(grace.pending(), 0);
        assert_whole(&space);
    }
}

/// Writers replace a shared node, readers check that it is whole. With unmapping, a free too early
/// is a crash.
#[test]
fn readers_never_see_a_freed_node() {
    const WRITES: u64 = 5000;
    for (options, form) in
        all_options().into_iter().flat_map(|options| [(options, Form::Separate), (options, Form::Embedded)])
    {
        let space = space(options);
        let grace = Grace::new(&space);
        let shared = AtomicPtr::new(Node::alloc(&space, 0).as_ptr());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let _reader = pin();
                        // SAFETY: found while pinned, so it is not freed before the pin ends.
                        assert!(unsafe { &*shared.load(Ordering::Acquire) }.is_intact());
                    }
                });
            }
            let writers = [0, WRITES].map(|first| {
                let (space, grace, shared) = (&space, &grace, &shared);
                scope.spawn(move || {
                    for value in first..first + WRITES {
                        let old = shared.swap(Node::alloc(space, value).as_ptr(), Ordering::AcqRel);
                        // SAFETY: unlinked by this thread alone.
                        unsafe { defer(grace, NonNull::new(old).unwrap(), form) };
                    }
                })
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        let last = NonNull::new(shared.into_inner()).unwrap();
        // SAFETY: no thread is left that knows it.
        unsafe { defer(&grace, last, form) };
        grace.settle().unwrap();
        assert_whole(&space);
    }
}

#[test]
fn what_cannot_be_freed_is_refused_at_once() {
    let space = space(SpaceOptions::default());
    let grace = Grace::new(&space);
    let area = space.raw().alloc(&vmalloc::Request::new(3 * PAGE)).unwrap();
    let reserved = space.raw().reserve(&Request::new(PAGE)).unwrap();
    for (addr, error) in [
        (area + 1, FreeError::Unaligned { addr: area + 1 }),
        (area + PAGE, FreeError::Interior { addr: area + PAGE, start: area }),
        (area + 100 * PAGE, FreeError::NotAnArea { addr: area + 100 * PAGE }),
        (0, FreeError::NotAnArea { addr: 0 }),
        (reserved, FreeError::WrongKind { addr: reserved }),
    ] {
        // SAFETY: refused.
        assert_eq!(unsafe { grace.free(addr) }, Err(DeferError::Free(error)));
    }
    let mut elsewhere = Head::new();
    // SAFETY: refused; the head is this test's own.
    let refused = unsafe { grace.free_embedded(NonNull::from(&mut elsewhere)) };
    assert!(matches!(refused, Err(FreeError::NotAnArea { .. })), "{refused:?}");
    assert_eq!((grace.pending(), space.stats().busy_areas), (0, 2));
    // SAFETY: owned, and used no more.
    unsafe { grace.free(area) }.unwrap();
    // SAFETY: nothing uses the addresses any more.
    unsafe { space.raw().unreserve(reserved) }.unwrap();
    grace.settle().unwrap();
    assert_whole(&space);
}

#[test]
fn a_free_that_comes_too_late_is_told() {
    let space = space(SpaceOptions::default());
    let grace = Grace::new(&space);
    let area = space.raw().alloc(&vmalloc::Request::new(PAGE)).unwrap();
    let reader = pin();
    // SAFETY: nothing uses the memory, and nothing is allocated before the second of the frees,
    // which is refused.
    unsafe {
        grace.free(area).unwrap();
        space.raw().free(area).unwrap();
    }
    drop(reader);
    let settled = grace.settle();
    assert!(matches!(settled, Err(SettleError::Refused { count: 1, .. })), "{settled:?}");
    assert_whole(&space);
}

#[test]
fn what_is_pending_when_it_is_dropped_is_freed_by_others() {
    let space = space(SpaceOptions::default());
    let grace = Grace::new(&space);
    for value in 0..100 {
        // SAFETY: allocated for this alone.
        unsafe { defer(&grace, Node::alloc(&space, value), Form::Embedded) };
    }
    drop(grace);
    let other = Grace::new(&space);
    while space.stats().busy_areas != 0 {
        // SAFETY: as above.
        unsafe { defer(&other, Node::alloc(&space, 0), Form::Separate) };
        other.settle().unwrap();
    }
    assert_whole(&space);
}

#[test]
fn a_forked_child_does_not_wait_and_still_has_its_memory() {
    in_own_process(|| {
        let space = space(SpaceOptions::default());
        let grace = Grace::new(&space);
        let node = Node::alloc(&space, 3);
        let reader = pin();
        // SAFETY: the only owner; read below by a reader that is pinned.
        unsafe { defer(&grace, node, Form::Separate) };
        drop(reader);
        in_forked_child(|| {
            let reader = pin();
            let pinned = grace.settle() == Err(SettleError::Pinned);
            drop(reader);
            pinned && grace.settle() == Err(SettleError::Forked)
        });
        grace.settle().unwrap();
        assert_whole(&space);
    });
}

extern "C" fn end_badly(_: libc::c_int) {
    // SAFETY: no conditions.
    unsafe { libc::_exit(2) };
}

/// Has the next child be the first process of a PID namespace, number 1.
fn enters_pid_namespace() -> bool {
    // SAFETY: no conditions; the process was made for this.
    let is_entered = unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
    if !is_entered {
        not_run("a PID namespace", std::io::Error::last_os_error());
    }
    is_entered
}

#[test]
fn settle_in_a_child_of_the_same_number_says_so() {
    in_own_process(|| {
        // The first process of a namespace has no default actions.
        // SAFETY: the handler does what a handler may.
        unsafe { libc::signal(libc::SIGALRM, end_badly as *const () as libc::sighandler_t) };
        if !enters_pid_namespace() {
            return;
        }
        in_forked_child(|| {
            let space = space(SpaceOptions::default());
            let grace = Grace::new(&space);
            let (node, is_pinned, stop) =
                (Node::alloc(&space, 1), AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|scope| {
                let _stop = StopAtEnd(&stop);
                scope.spawn(|| {
                    let _reader = pin();
                    is_pinned.store(true, Ordering::Release);
                    while !stop.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                });
                while !is_pinned.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // SAFETY: the only owner, and nothing reads it.
                unsafe { defer(&grace, node, Form::Separate) };
                if enters_pid_namespace() {
                    in_forked_child(|| {
                        // SAFETY: no conditions.
                        unsafe { libc::alarm(10) };
                        std::process::id() == 1 && grace.settle() == Err(SettleError::Forked)
                    });
                }
            });
            grace.settle().unwrap();
            assert_whole(&space);
            std::process::id() == 1
        });
    });
}
