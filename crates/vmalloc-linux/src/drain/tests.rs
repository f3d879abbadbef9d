use super::*;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

#[test]
fn refusals_pass_over_more_and_more_requests() {
    let mut places = Places::NONE;
    let passed_over: Vec<_> = (0..40)
        .map(|_| {
            places.refused();
            places.passing_over
        })
        .collect();
    assert_eq!(passed_over[..3], [2, 4, 8]);
    assert_eq!(passed_over[9..].iter().max(), Some(&MOST_PASSED_OVER));
    assert_eq!(passed_over[9..].iter().min(), Some(&MOST_PASSED_OVER));
}

/// The space of a place that is never drained.
struct Nothing;

impl Drain for Nothing {
    fn drain(&self) -> DrainStatus {
        DrainStatus::Done
    }
}

fn line(count: usize) -> (Vec<Arc<Asking>>, Places) {
    line_of(count, TICK)
}

fn line_of(count: usize, tick: Duration) -> (Vec<Arc<Asking>>, Places) {
    let asking = || Arc::new(Asking { word: AtomicU32::new(QUIET), tick, space: Weak::<Nothing>::new() });
    let all: Vec<_> = std::iter::repeat_with(asking).take(count).collect();
    let line = all.iter().map(|asking| Place { asking: Arc::clone(asking), due: None }).collect();
    (all, Places { line, ..Places::NONE })
}

/// Takes the place that is due, and returns which of `all` it is.
fn take(places: &mut Places, all: &[Arc<Asking>], now: Duration) -> Result<usize, Option<Duration>> {
    let taken = places.take_due(now)?;
    Ok(all.iter().position(|asking| Arc::ptr_eq(asking, &taken)).unwrap())
}

#[test]
fn a_space_waits_for_one_drain_of_each_other_space_however_often_those_ask() {
    for waiting in 0..8 {
        let (all, mut places) = line(8);
        for round in 0..3 {
            // All the others always ask.
            let mut before = Vec::new();
            all[waiting].word.store(DUE, Ordering::Relaxed);
            loop {
                for (other, asking) in all.iter().enumerate() {
                    if other != waiting {
                        asking.word.store(DUE, Ordering::Relaxed);
                    }
                }
                match take(&mut places, &all, Duration::ZERO).unwrap() {
                    taken if taken == waiting => break,
                    taken => before.push(taken),
                }
            }
            let count = before.len();
            before.sort_unstable();
            before.dedup();
            assert_eq!(before.len(), count, "round {round} of {waiting}: one was drained twice before it");
        }
    }
}

#[test]
fn drains_by_age_of_all_spaces_come_in_the_same_second() {
    let (all, mut places) = line(100);
    let at = |ms: usize| Duration::from_millis(7_000 + ms as u64);
    let mut next = None;
    for (nth, asking) in all.iter().enumerate() {
        asking.word.store(AGED, Ordering::Relaxed);
        next = places.take_due(at(nth)).unwrap_err();
    }
    assert_eq!(next, Some(at(1_000)));
    assert!(all.iter().all(|asking| asking.word.load(Ordering::Relaxed) == AGED));
    let mut drained: Vec<_> = std::iter::from_fn(|| take(&mut places, &all, at(1_000)).ok()).collect();
    drained.sort_unstable();
    assert!(drained.into_iter().eq(0..100));
    assert_eq!(places.take_due(at(1_000)).err(), Some(None), "nothing is left to wake up for");
}

#[test]
fn what_ages_waits_for_half_a_tick_at_least_and_for_a_tick_from_drain_to_drain() {
    for tick in [TICK, TICK / 10, TICK / 500, 7 * TICK] {
        for ms in (0..3_000).step_by(if cfg!(miri) { 250 } else { 1 }) {
            let (all, mut places) = line_of(1, tick);
            let now = Duration::from_millis(ms);
            all[0].word.store(AGED, Ordering::Relaxed);
            let due = places.take_due(now).unwrap_err().unwrap();
            assert!(due > now + tick / 2 && due <= now + tick + tick / 2, "at {ms} ms: {due:?}");
            assert!(places.take_due(due).is_ok());
            // The drain took a while, and left something.
            all[0].word.store(AGED, Ordering::Relaxed);
            let next = places.take_due(due + tick / 3).unwrap_err();
            assert_eq!(next, Some(due + tick));
        }
    }
}

#[test]
fn a_tick_without_end_is_no_panic() {
    let (all, mut places) = line_of(1, Duration::MAX);
    all[0].word.store(AGED, Ordering::Relaxed);
    assert!(places.take_due(TICK).unwrap_err().is_some_and(|due| due > TICK));
}

#[test]
fn a_space_without_a_tick_is_drained_when_much_waits_and_never_by_age() {
    let (space, thread) = (Arc::new(Nothing), DrainThread::default());
    thread.allow(Arc::<Nothing>::downgrade(&space), Duration::ZERO);
    assert!(!thread.request(DrainReason::Age), "the caller decays");
    let asking = thread.0.get().unwrap();
    assert_eq!(asking.word.load(Ordering::Relaxed), QUIET);
    assert!(asking.ask(DUE) || asking.word.load(Ordering::Relaxed) == DUE);
}

#[test]
fn a_request_at_once_goes_before_the_one_by_age() {
    let (all, mut places) = line(2);
    all[0].word.store(AGED, Ordering::Relaxed);
    assert_eq!(places.take_due(Duration::ZERO).err(), Some(Some(TICK)));
    all[0].word.store(DUE, Ordering::Relaxed);
    assert_eq!(take(&mut places, &all, Duration::ZERO), Ok(0));
    assert_eq!(places.take_due(Duration::from_secs(9)).err(), Some(None), "that was drained");
}

/// A space that counts its drains. One takes until a fork waits for it, if it is to.
#[derive(Default)]
struct Counting {
    begun: AtomicU32,
    drains: AtomicU32,
    awaits_fork: AtomicBool,
}

impl Drain for Counting {
    fn drain(&self) -> DrainStatus {
        self.begun.fetch_add(1, Ordering::SeqCst);
        while self.awaits_fork.load(Ordering::SeqCst) && !DRAINS.gate.is_locked() {
            std::thread::yield_now();
        }
        self.drains.fetch_add(1, Ordering::SeqCst);
        DrainStatus::Done
    }
}

impl Counting {
    fn allowed() -> (Arc<Self>, DrainThread) {
        let (space, thread) = (Arc::new(Self::default()), DrainThread::default());
        thread.allow(Arc::<Self>::downgrade(&space), TICK);
        (space, thread)
    }
}

/// Waits for a count of what the drain thread does. No test depends on how long it takes.
fn wait_for(count: &AtomicU32, least: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while count.load(Ordering::SeqCst) < least {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::yield_now();
    }
}

#[test]
#[cfg_attr(miri, ignore = "it forks")]
fn a_fork_waits_for_the_drain_under_way_and_the_child_does_the_next() {
    vmalloc_harness::in_own_process(|| {
        crate::fork::install().unwrap();
        let ((slow, mut of_slow), (next, mut of_next)) = (Counting::allowed(), Counting::allowed());
        slow.awaits_fork.store(true, Ordering::SeqCst);
        assert!(of_slow.request(DrainReason::Threshold));
        wait_for(&slow.begun, 1);
        assert!(of_next.request(DrainReason::Threshold));
        vmalloc_harness::in_forked_child(|| {
            let found = (slow.drains.load(Ordering::SeqCst), Arc::strong_count(&slow), DRAINS.is_there());
            slow.awaits_fork.store(false, Ordering::SeqCst);
            assert_eq!(found, (1, 1, false));
            assert_eq!(next.drains.load(Ordering::SeqCst), 0, "one drain was waited for");
            assert!(!of_slow.wake(), "no thread is there to wake");
            assert!(of_slow.request(DrainReason::Age));
            wait_for(&next.drains, 1);
            drop((std::mem::take(&mut of_slow), std::mem::take(&mut of_next)));
            !DRAINS.is_there()
        });
        slow.awaits_fork.store(false, Ordering::SeqCst);
        wait_for(&next.drains, 1);
    });
}
