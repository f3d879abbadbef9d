//! The drain thread under weak memory: no request is lost, and the thread ends with the last space.
//! A thread that waits for ever is a deadlock to loom.
//!
//! Left out once each, and found: the Release in `ring`, the Acquire in `run`, the exchange of a
//! bell that is rung already, the count in the bell, each call of `attend` but that of a fork,
//! the look at an empty line in `start`, and the way through the gate.

use super::*;
use loom::sync::{Condvar, Mutex as Locked};
use loom::thread;

/// A space: what waits to be drained, and what was.
#[derive(Default)]
struct Space {
    areas: Locked<[u32; 2]>,
    drained: Condvar,
    /// A drain drops these.
    kept: Locked<Vec<Model>>,
}

impl Drain for Space {
    fn drain(&self) -> DrainStatus {
        let mut areas = self.areas.lock().expect("no panic");
        *areas = [0, areas[0] + areas[1]];
        self.drained.notify_all();
        drop(areas);
        drop(std::mem::take(&mut *self.kept.lock().expect("no panic")));
        DrainStatus::Done
    }
}

/// A space and its hold on the thread, which goes when the space is gone.
struct Model {
    space: Arc<Space>,
    thread: DrainThread,
}

impl Model {
    fn open() -> Self {
        let (space, thread) = (Arc::new(Space::default()), DrainThread::default());
        thread.allow(Arc::<Space>::downgrade(&space), super::TICK);
        Self { space, thread }
    }

    /// A free: first the area, then the request.
    fn free(&self, due: DrainReason) {
        self.space.areas.lock().expect("no panic")[0] += 1;
        self.thread.request(due);
    }

    /// Waits until so many areas were drained.
    fn wait(&self, count: u32) {
        let mut areas = self.space.areas.lock().expect("no panic");
        while areas[1] < count {
            areas = self.space.drained.wait(areas).expect("no panic");
        }
        assert_eq!(*areas, [0, count]);
    }
}

/// Tries all executions with up to two switches away from a thread that could go on. (With three
/// all models hold as well. That takes a minute.)
fn model(body: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

#[test]
fn models_of_requests_of_two_spaces_hold() {
    model(|| {
        let (one, two) = (Model::open(), Model::open());
        let other = thread::spawn(move || {
            two.free(DrainReason::Threshold);
            two.wait(1);
        });
        one.free(DrainReason::Threshold);
        one.wait(1);
        other.join().expect("the thread ends");
    });
}

#[test]
fn models_of_two_requests_of_a_space_hold() {
    model(|| {
        let one = Arc::new(Model::open());
        let two = one.clone();
        let other = thread::spawn(move || two.free(DrainReason::Threshold));
        one.free(DrainReason::Threshold);
        one.wait(2);
        other.join().expect("the thread ends");
    });
}

#[test]
fn models_of_a_request_by_age_and_one_at_once_hold() {
    model(|| {
        let one = Arc::new(Model::open());
        let two = one.clone();
        let other = thread::spawn(move || two.free(DrainReason::Age));
        one.free(DrainReason::Threshold);
        one.wait(2);
        other.join().expect("the thread ends");
    });
}

/// The last space goes, and its thread is told to end, while another space comes and asks.
#[test]
fn models_of_an_end_beside_a_beginning_hold() {
    model(|| {
        let one = Model::open();
        one.free(DrainReason::Threshold);
        let other = thread::spawn(|| {
            let two = Model::open();
            two.free(DrainReason::Threshold);
            two.wait(1);
        });
        drop(one);
        other.join().expect("the thread ends");
    });
}

#[test]
fn models_of_a_request_beside_an_opening_hold() {
    model(|| {
        let one = Model::open();
        let other = thread::spawn(Model::open);
        one.free(DrainReason::Threshold);
        one.wait(1);
        drop(other.join().expect("the thread ends"));
    });
}

#[test]
fn models_of_a_request_beside_a_drop_hold() {
    model(|| {
        let (one, two) = (Model::open(), Model::open());
        let other = thread::spawn(|| drop(two));
        one.free(DrainReason::Threshold);
        one.wait(1);
        other.join().expect("the thread ends");
    });
}

/// A bell that was rung for the last space rings for no later one.
#[test]
fn models_of_a_space_that_asks_for_nothing_hold() {
    model(|| {
        let one = Model::open();
        one.free(DrainReason::Threshold);
        drop(one);
        let _two = Model::open();
        assert!(!DRAINS.is_there(), "a thread was created without need");
    });
}

/// The drain thread itself drops the last space, and then a space comes and asks.
#[test]
fn models_of_an_end_in_a_drain_hold() {
    model(|| {
        let (one, two) = (Model::open(), Model::open());
        let Model { space, thread } = two;
        one.space.kept.lock().expect("no panic").push(Model { space: Arc::default(), thread });
        drop(space);
        one.free(DrainReason::Threshold);
        one.wait(1);
        drop(one);
        let three = Model::open();
        three.free(DrainReason::Threshold);
        three.wait(1);
    });
}

/// A fork leaves no drain thread to the child, and a word that a thread of the parent had raised
/// without yet ringing the bell.
///
/// In the model the thread does not vanish, but it holds nothing at the fork, and ends when it
/// looks at the bell. The steps are those of `resume_in_child`.
#[test]
fn models_of_a_fork_hold() {
    model(|| {
        let (one, two) = (Model::open(), Model::open());
        one.free(DrainReason::Threshold);
        two.space.areas.lock().expect("no panic")[0] += 1;
        let asking = two.thread.0.get().expect("it is allowed");
        asking.word.fetch_max(DUE, Ordering::Relaxed);
        quiesce();
        // SAFETY: locked just now, so no other reference is live.
        let parents = DRAINS.forget_thread(unsafe { &mut *DRAINS.places.data_ptr() });
        // SAFETY: locked just now.
        unsafe { resume() };
        one.free(DrainReason::Threshold);
        one.wait(2);
        two.wait(1);
        wake(&DRAINS.bell);
        parents.expect("the first free created it").join();
    });
}

/// The next request in such a child comes while the line is locked: the holder of the lock creates
/// the thread.
#[test]
fn models_of_a_request_beside_a_locked_line_hold() {
    model(|| {
        let one = Model::open();
        one.space.areas.lock().expect("no panic")[0] += 1;
        let asking = one.thread.0.get().expect("it is allowed");
        asking.word.fetch_max(DUE, Ordering::Relaxed);
        let held = DRAINS.places.lock();
        one.free(DrainReason::Threshold);
        drop(held);
        DRAINS.attend();
        one.wait(2);
    });
}

/// A drain under way is over at the fork: the thread holds no space, whose count would never fall
/// to zero in the child.
#[test]
fn models_of_a_fork_during_a_drain_hold() {
    model(|| {
        let one = Model::open();
        one.free(DrainReason::Threshold);
        quiesce();
        assert_eq!(Arc::strong_count(&one.space), 1);
        // SAFETY: locked just now.
        unsafe { resume() };
        one.wait(1);
    });
}

/// A fork waits for one drain, however many spaces are due.
#[test]
fn models_of_a_fork_beside_two_drains_hold() {
    model(|| {
        let spaces = [Model::open(), Model::open()];
        spaces.iter().for_each(|space| space.free(DrainReason::Threshold));
        let drained =
            || -> u32 { spaces.iter().map(|model| model.space.areas.lock().expect("no panic")[1]).sum() };
        let gate = DRAINS.gate.lock();
        let before = drained();
        let at_work = DRAINS.at_work.lock();
        assert!(drained() - before <= 1);
        drop((gate, at_work));
    });
}

/// A request that raises the word and rings no bell: it shows that the models above would see a
/// lost request.
#[test]
#[should_panic(expected = "deadlock")]
fn models_of_a_request_that_rings_no_bell_fail() {
    model(|| {
        // Not dropped: that would wait for the thread, in the panic.
        let one = std::mem::ManuallyDrop::new(Model::open());
        one.free(DrainReason::Threshold);
        one.space.areas.lock().expect("no panic")[0] += 1;
        let asking = one.thread.0.get().expect("it is allowed");
        asking.word.fetch_max(DUE, Ordering::Relaxed);
        one.wait(2);
    });
}
