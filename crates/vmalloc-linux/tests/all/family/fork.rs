//! Forks in the middle of live mappings.

use super::*;
use crate::common::{in_forked_child, in_own_process};
use vmalloc::{Protection, Request};

/// Mappings of each kind, alive.
struct Scene {
    frames: Vec<Frame>,
    plain: usize,
    vmap: usize,
    ram: usize,
    user: usize,
    shown: usize,
    sparse: usize,
}

impl Scene {
    fn set(space: &Space<Linux>) -> Self {
        let frames = take_scattered(space, 20);
        let plain = space.raw().alloc(&vmalloc::Request::new(5 * PAGE).zeroed()).unwrap();
        let vmap = space.raw().map(&frames[..10], Protection::ReadWrite, None).unwrap();
        let ram = short(space).map(&frames[10..18]).unwrap();
        let user = space.raw().alloc_shared(&Request::new(4 * PAGE)).unwrap();
        let shown = space.raw().map_shared(user, 4 * PAGE, Protection::ReadWrite, None).unwrap();
        let sparse = space.raw().reserve(&Request::new(9 * PAGE)).unwrap();
        // SAFETY: the test owns the pages.
        unsafe { space.raw().map_pages(sparse + PAGE, &frames[18..], Protection::ReadWrite) }.unwrap();
        let scene = Self { frames, plain, vmap, ram, user, shown, sparse };
        scene.parts().into_iter().for_each(|(addr, pages)| fill_from(addr, pages, 1));
        scene
    }

    fn parts(&self) -> [(usize, usize); 5] {
        [(self.plain, 5), (self.vmap, 10), (self.ram, 8), (self.user, 4), (self.sparse + PAGE, 2)]
    }

    fn check(&self) {
        self.parts().into_iter().for_each(|(addr, pages)| assert_filled(addr, pages, 1));
        assert_filled(self.shown, 4, 1);
    }

    fn end(&self, space: &Space<Linux>) {
        [self.vmap, self.shown].iter().for_each(|addr| vunmap(space, *addr));
        [self.plain, self.user].iter().for_each(|addr| free(space, *addr));
        unmap_ram(space, self.ram, 8);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().unreserve(self.sparse) }.unwrap();
        space.purge().unwrap();
        give(space, &self.frames);
    }

    /// Ends where no other thread uses these addresses, and checks that they trap.
    fn end_alone(&self, space: &Space<Linux>) {
        self.end(space);
        self.parts().into_iter().for_each(|(addr, _)| assert!(traps(space, addr)));
    }
}

#[test]
fn a_child_ends_all_mappings_and_the_parent_keeps_them() {
    in_own_process(|| {
        in_both_modes(SpaceOptions::default(), |space| {
            let scene = Scene::set(space);
            in_forked_child(|| {
                scene.check();
                // A copy of its own, and what is shared.
                set(scene.plain, 99);
                set(scene.vmap + 10, 98);
                scene.end_alone(space);
                space.verify().unwrap();
                true
            });
            scene.check();
            assert_eq!((get(scene.plain), get(scene.vmap + 10)), (1, 98));
            let again = space.raw().map(&scene.frames, Protection::ReadWrite, None).unwrap();
            assert_filled(again, 10, 1);
            vunmap(space, again);
            scene.end_alone(space);
        });
    });
}

#[test]
fn a_child_uses_every_kind_without_harm_to_the_parent() {
    in_own_process(|| {
        in_both_modes(SpaceOptions::default(), |space| {
            let scene = Scene::set(space);
            for _ in 0..3 {
                in_forked_child(|| {
                    let own = Scene::set(space);
                    own.parts().into_iter().for_each(|(addr, pages)| fill_from(addr, pages, 100));
                    scene.check();
                    // SAFETY: the test owns the area.
                    let grown =
                        unsafe { space.raw().realloc(own.plain, &vmalloc::Request::new(3000 * PAGE)) }
                            .unwrap();
                    assert_filled(grown, 5, 100);
                    Scene { plain: grown, ..own }.end_alone(space);
                    space.verify().unwrap();
                    true
                });
                scene.check();
            }
            scene.end_alone(space);
        });
    });
}

#[test]
fn a_fork_while_others_map_leaves_a_working_child() {
    in_own_process(|| {
        in_both_modes(SpaceOptions::default().lazy_max_pages(100), |space| {
            let scene = Scene::set(space);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _stop = StopAtEnd(&stop);
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            Scene::set(space).end(space);
                        }
                    });
                }
                for _ in 0..25 {
                    in_forked_child(|| {
                        scene.check();
                        let own = Scene::set(space);
                        own.check();
                        own.end_alone(space);
                        scene.end_alone(space);
                        space.verify().unwrap();
                        true
                    });
                }
            });
            scene.check();
            scene.end_alone(space);
        });
    });
}
