//! Parts of a machine: given back while steps fail, and made where others linger.
//!
//! Without the heap: a space is not made without memory (see `new`).

use super::scene::{PAGE, all_options, sim, touch};
use vmalloc::{Request, Space, SpaceOptions};
use vmalloc_sim::harness::{Injection, each};
use vmalloc_sim::{Due, Point, Sim};
use vmalloc_subspaces::{Root, Subspace, SubspaceError, SubspaceState};

type Part = Space<Subspace<Sim>>;

fn part(root: &Root<Sim>, name: &'static str, settings: SpaceOptions) -> Result<Part, SubspaceError> {
    root.subspace(
        name,
        &Request::new(0x1_0200 * PAGE - 0x1_0100 * PAGE).within(0x1_0100 * PAGE, 0x1_0200 * PAGE),
        None,
        settings,
    )
}

/// Areas in use and freed ones, which all CPUs remember.
fn use_it(space: &Part) {
    for nth in 0..6 {
        let addr = space.raw().alloc(&Request::new(3 * PAGE)).expect("room");
        touch(space, addr);
        if nth % 2 == 0 {
            super::scene::free(space, addr);
        }
    }
}

fn is_whole(root: &Root<Sim>) {
    assert_eq!(root.subspaces().next(), None);
    let sim = root.platform();
    assert_eq!((sim.check_end(), sim.faults(), sim.taken_frames()), (vec![], vec![], vec![]));
}

/// Drops a part while a step fails: its range has no owner until that is made good.
fn drop_one(settings: SpaceOptions, injection: Injection) -> bool {
    let root = Root::new(sim()).expect("a root");
    let space = part(&root, "first", settings).expect("room");
    use_it(&space);
    let ((), failed) = injection.during(root.platform(), || drop(space));
    let lingers = root.subspaces().any(|part| part.state == SubspaceState::Lingering);
    assert_eq!(lingers, failed > 0, "{injection}");
    let next = part(&root, "second", settings).expect("what lingers is swept");
    use_it(&next);
    drop(next);
    is_whole(&root);
    failed > 0
}

/// A part is made where another lingers, while a step fails again.
fn make_one(settings: SpaceOptions, injection: Injection) -> bool {
    let root = Root::new(sim()).expect("a root");
    let space = part(&root, "first", settings).expect("room");
    use_it(&space);
    root.platform().fail_nth(Point::Flush, 1);
    drop(space);
    let (made, failed) = injection.during(root.platform(), || part(&root, "second", settings));
    match &made {
        Ok(next) => use_it(next),
        Err(error) => assert!(matches!(error, SubspaceError::Overlap { .. }), "{error}"),
    }
    assert_eq!(made.is_err(), failed > 0, "{injection}");
    drop(made);
    drop(part(&root, "third", settings).expect("nothing fails any more"));
    is_whole(&root);
    failed > 0
}

#[test]
fn subspaces_are_returned_and_remade() {
    for (options, settings) in all_options() {
        for (name, act) in [("drop", drop_one as fn(_, _) -> _), ("make", make_one)] {
            for due in Due::KINDS {
                let failed = [Point::Unmap, Point::Flush]
                    .map(|point| each(point, due, |injection| act(settings, injection)));
                println!("{options:14} {name} a sub-space: unmap {}, flush {}", failed[0], failed[1]);
                assert!(failed.iter().all(|&failed| failed > 0));
            }
        }
    }
}
