//! A magazine under weak memory: each stack has one owner, who comes after the one before.
//!
//! Orders that these models need, each of which was left out once and found: the Release in `put`
//! and `put_anywhere`, and the Acquire in `take_last`, `take_at` and `seal`.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Stacks in play: more than a magazine has room for.
const STACKS: usize = CAPACITY + 1;

/// A magazine, and the memory of each stack, of which loom sees who uses it at once.
struct Scene {
    magazine: Magazine,
    memory: [UnsafeCell<u32>; STACKS],
}

// SAFETY: loom checks every access to the memory.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self { magazine: Magazine::new(), memory: array::from_fn(|_| UnsafeCell::new(0)) })
    }

    /// Uses a stack as its owner does.
    fn play(&self, bottom: usize) {
        // SAFETY: loom panics where another thread uses it at once, or no order lies between.
        self.memory[bottom - 2].with_mut(|memory| unsafe { *memory += 1 });
    }

    /// Puts a stack in after use. Returns whether it went in.
    fn drop_stack(&self, bottom: usize) -> bool {
        self.play(bottom);
        self.magazine.put(bottom)
    }

    /// Uses stacks that were taken, and returns how many those are.
    fn own(&self, taken: impl IntoIterator<Item = usize>) -> usize {
        taken.into_iter().inspect(|&bottom| self.play(bottom)).count()
    }
}

/// Tries all executions with up to three switches away from a thread that could go on.
fn model(body: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn models_of_two_threads_that_take_and_drop_hold() {
    model(|| {
        let scene = Scene::new();
        assert!(scene.drop_stack(2));
        let other = Arc::clone(&scene);
        let thread = thread::spawn(move || {
            let taken = other.magazine.take_last();
            let kept = other.own(taken);
            kept + usize::from(!other.drop_stack(3))
        });
        let mut owned = scene.own(scene.magazine.take());
        owned += usize::from(!scene.drop_stack(4));
        owned += thread.join().expect("the thread ends");
        owned += scene.own(scene.magazine.seal());
        assert_eq!(owned, 3, "each stack has one owner");
    });
}

#[test]
fn models_of_a_seal_hold() {
    model(|| {
        let scene = Scene::new();
        let other = Arc::clone(&scene);
        let thread =
            thread::spawn(move || [2, 3].into_iter().filter(|&bottom| !other.drop_stack(bottom)).count());
        let sealed = scene.own(scene.magazine.seal());
        assert_eq!(thread.join().expect("the thread ends") + sealed, 2, "none is left behind");
        assert!(scene.magazine.is_empty());
    });
}

#[test]
fn models_of_a_trim_beside_a_drop_hold() {
    model(|| {
        let scene = Scene::new();
        assert!(scene.drop_stack(2));
        let other = Arc::clone(&scene);
        let thread = thread::spawn(move || {
            let taken = other.magazine.take_last();
            other.own(taken) + usize::from(!other.drop_stack(3))
        });
        let trimmed = scene.own(scene.magazine.take_all());
        let others = thread.join().expect("the thread ends");
        let rest = scene.own(scene.magazine.seal());
        assert_eq!(trimmed + others + rest, 2, "each stack has one owner");
    });
}

#[test]
fn models_of_a_wrong_hint_hold() {
    model(|| {
        let scene = Scene::new();
        let other = Arc::clone(&scene);
        let thread = thread::spawn(move || {
            other.play(2);
            usize::from(!other.magazine.put_anywhere(2))
        });
        let taken = scene.own(scene.magazine.take());
        let refused = thread.join().expect("the thread ends");
        assert_eq!(taken + refused + scene.own(scene.magazine.seal()), 1, "the stack has one owner");
    });
}
