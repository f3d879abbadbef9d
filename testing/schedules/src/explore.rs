//! Running a scenario under many schedules.

use shuttle::current::TaskId;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task};
use shuttle::{Config, FailurePersistence, Runner};
use std::any::Any;
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vmalloc::sync::Grain;
use vmalloc_model::env;

/// The depth of a PCT schedule: one more than the changes of priority that a bug may need.
const DEPTH: usize = 3;
/// Bytes of a thread's stack: a space is made on one, and moved.
const STACK: usize = 1 << 18;

/// How a scenario is explored.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    schedules: usize,
    seed: u64,
    grain: Grain,
}

/// The first schedule in which a scenario failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its number, counted from 1.
    pub schedule: usize,
    /// The scenario's message.
    pub message: String,
}

impl Plan {
    /// Returns a plan of so many schedules, or as many as `VMALLOC_SCHEDULES` says, and those of
    /// `VMALLOC_SEED`.
    pub fn new(schedules: usize) -> Self {
        Self { schedules: env::schedules(schedules), seed: env::seed(1), ..Self::fixed(schedules) }
    }

    /// Returns a plan of exactly `schedules` schedules, whatever the environment says.
    pub fn fixed(schedules: usize) -> Self {
        Self { schedules, seed: 1, grain: Grain::Coarse }
    }

    /// Takes a tenth of the schedules.
    #[must_use]
    pub fn tenth(self) -> Self {
        Self { schedules: self.schedules.div_ceil(10), ..self }
    }

    /// Adds a scheduling point at loads and stores.
    #[must_use]
    pub fn fine(self) -> Self {
        Self { grain: Grain::Fine, ..self }
    }

    /// Explores. Returns how the scenario fails, if some schedule lets it.
    pub fn failure(self, scenario: impl Fn() + Send + Sync + 'static) -> Option<Failure> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let scenario = move || {
            counted.fetch_add(1, Relaxed);
            scenario();
        };
        let result = catch_unwind(AssertUnwindSafe(|| self.run(FailurePersistence::None, scenario)));
        result.err().map(|panic| Failure { schedule: count.load(Relaxed), message: text(&*panic) })
    }

    /// Explores, half of the schedules by PCT and half at random. Returns how many there were.
    fn run(self, persistence: FailurePersistence, scenario: impl Fn() + Send + Sync + 'static) -> usize {
        let (seed, random) = (self.seed, self.schedules / 2);
        let scenario = Arc::new(scenario);
        let run = |scheduler: Box<dyn Scheduler + Send>| {
            let scheduler = Forking(scheduler);
            let mut config = Config::new();
            config.stack_size = STACK;
            config.failure_persistence = persistence.clone();
            config.ungraceful_shutdown_config.immediately_return_on_panic = true;
            let scenario = scenario.clone();
            Runner::new(scheduler, config).run(move || scenario())
        };
        vmalloc::sync::explore(self.grain, || {
            run(Box::new(PctScheduler::new_from_seed(seed, DEPTH, self.schedules - random)))
                + run(Box::new(RandomScheduler::new_from_seed(seed, random)))
        })
    }
}

thread_local! {
    /// What has become of the schedule under way. All its threads run in one of the system's.
    static FORKED: Cell<Forked> = const { Cell::new(Forked::No) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Forked {
    No,
    /// This thread is the only one that goes on.
    Child(TaskId),
    /// It has ended, and the schedule with it.
    Over,
}

/// Makes the calling thread the only one: the others stay for ever where they are, as in the child
/// of a fork.
pub(crate) fn leave_others_behind() {
    FORKED.set(Forked::Child(shuttle::current::me()));
}

/// Returns whether the calling thread is the only one.
pub(crate) fn is_alone() -> bool {
    matches!(FORKED.get(), Forked::Child(_))
}

/// Ends a schedule whose other threads were left behind.
pub(crate) fn end_alone() {
    FORKED.set(Forked::Over);
    shuttle::thread::yield_now();
}

/// A scheduler that knows of forks.
struct Forking(Box<dyn Scheduler + Send>);

impl Scheduler for Forking {
    fn new_execution(&mut self) -> Option<Schedule> {
        FORKED.set(Forked::No);
        self.0.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        match FORKED.get() {
            Forked::No => self.0.next_task(runnable, current, is_yielding),
            Forked::Child(child) => Some(child),
            Forked::Over => None,
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// Explores a scenario that holds, and tells how many schedules that were, past whatever captures
/// the output of tests.
///
/// # Panics
/// When it does not hold.
pub fn explore(name: &str, plan: Plan, scenario: impl Fn() + Send + Sync + 'static) {
    match catch_unwind(AssertUnwindSafe(|| plan.run(FailurePersistence::Print, scenario))) {
        Ok(count) => tell(&format!("explored {count} schedules of {name}")),
        Err(failure) => {
            let Plan { seed, schedules, .. } = plan;
            eprintln!("{name} fails: VMALLOC_SEED={seed:#x} VMALLOC_SCHEDULES={schedules} repeats it");
            resume_unwind(failure);
        }
    }
}

/// Writes a line that no test runner captures.
pub fn tell(line: &str) {
    // Nothing depends on it.
    let _ = writeln!(std::io::stdout(), "{line}");
}
