//! Forks and sub-spaces: whatever other threads are doing to a root, its children and their spaces,
//! a child of a fork goes on.

use crate::common::*;
use std::sync::Arc;
use vmalloc::{Platform, Policy, Protection, Request, Space, SpaceOptions};
use vmalloc_harness::output_of_child;
use vmalloc_linux::{Linux, LinuxOptions, open_root, share};
use vmalloc_subspaces::{Protected, Root, Subspace, SubspaceError, SubspaceState};

const MIB: usize = 1 << 20;

type Part<P = Linux> = Arc<Space<Subspace<P>>>;

/// One node, nothing cached, purges all the time: each lock is held for much of it.
fn busy() -> SpaceOptions {
    SpaceOptions::default().unmap_on_free().nodes(1)
}

fn root() -> Root<Linux> {
    open_root(reserved(LinuxOptions::new().max_bytes(1 << 30))).unwrap()
}

fn part<P: vmalloc_linux::fork::OnFutexes>(root: &Root<P>, name: &'static str, bytes: usize) -> Part<P> {
    share(root.subspace(name, &Request::new(bytes), None, busy()).unwrap()).unwrap()
}

/// Takes, gives and now and then purges, `rounds` times.
fn use_it<P: Platform>(space: &Space<P>, rounds: usize) {
    for round in 0..rounds {
        let addr = space.raw().alloc(&Request::new(page_bytes() * (1 + round % 9))).unwrap();
        // SAFETY: this thread has just allocated it.
        unsafe { space.raw().free(addr) }.unwrap();
        if round % 4 == 3 {
            space.purge().unwrap();
        }
    }
}

#[test]
fn a_child_of_a_fork_uses_sub_spaces_that_others_were_using() {
    in_own_process(|| {
        let root = root();
        let parts = [part(&root, "one", 64 * MIB), part(&root, "other", 64 * MIB)];
        let others: [&(dyn Fn() + Sync); 3] =
            [&|| use_it(&parts[0], 20), &|| use_it(&parts[0], 20), &|| use_it(&parts[1], 20)];
        let use_all = || {
            parts.iter().for_each(|part| use_it(part, 20));
            parts.iter().for_each(|part| part.verify().unwrap());
        };
        forks_amid(50, &others, || {
            use_all();
            // Two areas at most were in the hands of the others.
            root.subspaces().all(|child| child.used_bytes <= 2 * 9 * page_bytes())
        });
        // They outlive the handle of their root.
        drop(root);
        forks_amid(50, &others, || {
            use_all();
            true
        });
    });
}

#[test]
fn a_child_of_a_fork_makes_sub_spaces_that_others_were_making_or_dropping() {
    in_own_process(|| {
        let root = root();
        let scratch =
            || root.subspace("scratch", &Request::new(16 * MIB).policy(Policy::Highest), None, busy());
        let come_and_go = || {
            let Ok(space) = scratch() else { return };
            // It is still handed out when its space ends.
            space.raw().alloc(&Request::new(3 * page_bytes())).unwrap();
            drop(share(space).unwrap());
        };
        let stays = part(&root, "stays", 64 * MIB);
        forks_amid(50, &[&come_and_go, &|| use_it(&stays, 20)], || {
            use_it(&stays, 20);
            let state = root.subspaces().find(|child| child.name == "scratch").map(|child| child.state);
            assert_ne!(state, Some(SubspaceState::Changing), "no thread here changes it");
            match scratch() {
                Ok(space) => use_it(&share(space).unwrap(), 8),
                // Lost with the thread that it belonged to.
                Err(SubspaceError::DuplicateName { .. }) => assert_eq!(state, Some(SubspaceState::Live)),
                Err(error) => panic!("{error}"),
            }
            true
        });
    });
}

#[test]
fn a_child_of_a_fork_uses_nested_roots_and_protected_children() {
    in_own_process(|| {
        let outer = root();
        let beside = part(&outer, "beside", 16 * MIB);
        let nested = open_root(outer.divide("nested", &Request::new(256 * MIB), None).unwrap()).unwrap();
        let inner = part(&nested, "inner", 64 * MIB);
        let text: Arc<Space<Subspace<Subspace<Linux>, Protected>>> = share(
            nested
                .protected_subspace("text", &Request::new(16 * MIB), None, Protection::ReadExecute, busy())
                .unwrap(),
        )
        .unwrap();
        // When its space ends its memory is unmapped through both roots.
        let scratch = || nested.subspace("scratch", &Request::new(MIB).policy(Policy::Highest), None, busy());
        let come_and_go = || {
            let Ok(space) = scratch() else { return };
            space.raw().alloc(&Request::new(page_bytes())).unwrap();
        };
        forks_amid(
            50,
            &[&|| use_it(&inner, 20), &|| use_it(&text, 20), &|| use_it(&beside, 20), &come_and_go],
            || {
                use_it(&inner, 20);
                use_it(&text, 20);
                use_it(&beside, 20);
                match scratch() {
                    Ok(space) => use_it(&space, 4),
                    Err(SubspaceError::DuplicateName { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                outer.subspaces().all(|child| child.state == SubspaceState::Live)
            },
        );
    });
}

#[test]
fn a_reservation_goes_with_its_root_and_children_although_hooks_know_of_it() {
    in_own_process(|| {
        let root = root();
        let start = (root.platform().geometry().span.start() as usize * page_bytes()) as *mut libc::c_void;
        // Fails where nothing is mapped.
        // SAFETY: room for a page's byte.
        let is_reserved = || unsafe { libc::mincore(start, page_bytes(), [0_u8; 1].as_mut_ptr()) } == 0;
        let one = part(&root, "one", MIB);
        drop(root);
        assert!(is_reserved(), "a child is left");
        drop(one);
        assert!(!is_reserved());
    });
}

/// A space that was not made safe: its locks may be held at a fork.
#[test]
fn a_child_that_asks_for_a_lock_of_a_thread_that_it_does_not_have_says_so() {
    in_own_process(|| {
        let space = Space::new(reserved(LinuxOptions::new()), SpaceOptions::default()).unwrap();
        std::thread::scope(|scope| scope.spawn(|| space.quiesce()).join().unwrap());
        let (text, status) = output_of_child(|| drop(space.buffer(page_bytes())));
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT, "{status:#x}: {text}");
        assert!(text.contains("held by another thread at a fork"), "{text}");
        // A thread of its own, later, waits as everywhere.
        let (text, status) = output_of_child(|| {
            let own = Space::new(reserved(LinuxOptions::new()), SpaceOptions::default()).unwrap();
            own.quiesce();
            std::thread::scope(|scope| {
                scope.spawn(|| drop(own.buffer(page_bytes()).unwrap()));
                // SAFETY: this thread has just called `quiesce`.
                unsafe { own.resume() };
            });
        });
        assert_eq!((status, text.as_str()), (0, ""));
        // SAFETY: a thread that has ended has called `quiesce`.
        unsafe { space.resume() };
    });
}
