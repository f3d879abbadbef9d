//! The drain thread's word under weak memory: no request is lost. A thread that sleeps for ever is
//! a deadlock to loom.

use super::*;
use loom::sync::Mutex as Locked;
use loom::thread;

/// The space of a drain thread that never drains it.
struct Nothing;

impl Drain for Nothing {
    fn drain(&self) -> DrainStatus {
        DrainStatus::Done
    }
}

/// A drain thread that is there, and the areas that wait to be drained.
struct Scene {
    shared: Shared,
    areas: Locked<u32>,
}

impl Scene {
    fn new() -> Arc<Self> {
        let worker = Mutex::new(Worker { thread: None, refusals: 0, passing_over: 0 });
        let shared = Shared { word: AtomicU32::new(QUIET), worker, space: Weak::<Nothing>::new() };
        Arc::new(Self { shared, areas: Locked::new(0) })
    }

    /// A free: first the area, then the request.
    fn free(&self) {
        *self.areas.lock().expect("no panic") += 1;
        match self.shared.word.load(Ordering::Relaxed) {
            word @ (QUIET | AGED) => assert!(self.shared.ask(word, DUE)),
            word => assert_eq!(word, DUE),
        }
    }

    /// Runs the thread until it has drained so many areas or is told to stop, and returns how many
    /// it has drained.
    fn drain(&self, enough: u32) -> u32 {
        let mut drained = 0;
        while drained < enough && self.shared.wait(DrainStatus::Done) {
            drained += std::mem::take(&mut *self.areas.lock().expect("no panic"));
        }
        drained
    }
}

/// Tries all executions with up to three switches away from a thread that could go on.
fn model(body: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn models_of_two_requests_hold() {
    model(|| {
        let scene = Scene::new();
        let threads = [0, 1].map(|_| {
            let scene = scene.clone();
            thread::spawn(move || scene.free())
        });
        assert_eq!(scene.drain(2), 2);
        threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    });
}

#[test]
fn models_of_a_request_after_one_by_age_hold() {
    model(|| {
        let scene = Scene::new();
        let shared = scene.clone();
        let other = thread::spawn(move || {
            if shared.shared.word.load(Ordering::Relaxed) == QUIET {
                shared.shared.ask(QUIET, AGED);
            }
            shared.free();
        });
        assert_eq!(scene.drain(1), 1);
        other.join().expect("the thread ends");
    });
}

#[test]
fn models_of_an_end_hold() {
    model(|| {
        let scene = Scene::new();
        let shared = scene.clone();
        let drains = thread::spawn(move || shared.drain(u32::MAX));
        scene.free();
        // The drop stores it. To loom such a store may come before the exchange of the drain
        // thread, although that reads what this thread stored before. So here it is an exchange,
        // which amounts to the same.
        scene.shared.word.swap(STOP, Ordering::Relaxed);
        scene.shared.wake();
        assert!(drains.join().expect("the thread ends") <= 1);
    });
}

/// A request without a wake-up: it shows that the models above would see a lost request.
#[test]
#[should_panic(expected = "deadlock")]
fn models_of_a_request_that_wakes_nobody_fail() {
    model(|| {
        let scene = Scene::new();
        let shared = scene.clone();
        let drains = thread::spawn(move || shared.drain(1));
        *scene.areas.lock().expect("no panic") += 1;
        let asked = scene.shared.word.compare_exchange(QUIET, DUE, Ordering::Relaxed, Ordering::Relaxed);
        assert_eq!(asked, Ok(QUIET));
        drains.join().expect("the thread ends");
    });
}
