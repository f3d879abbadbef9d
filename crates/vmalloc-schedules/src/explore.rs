//! Running a scenario under many schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use vmalloc::sync::{Grain, Mutant};
use vmalloc_model::env;

/// The depth of a PCT schedule: one more than the changes of priority that a bug may need.
const DEPTH: usize = 3;
/// Bytes of a thread's stack: a space is made on one, and moved.
const STACK: usize = 1 << 18;

/// How a scenario is explored.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    schedules: usize,
    grain: Grain,
    mutant: Option<Mutant>,
}

impl Plan {
    /// So many schedules, or as many as `VMALLOC_OPS` says.
    pub fn new(schedules: usize) -> Self {
        Self { schedules: env::ops(schedules), grain: Grain::Coarse, mutant: None }
    }

    /// The same with a scheduling point at loads and stores too.
    #[must_use]
    pub fn fine(self) -> Self {
        Self { grain: Grain::Fine, ..self }
    }

    /// A tenth of the schedules.
    #[must_use]
    pub fn tenth(self) -> Self {
        Self { schedules: self.schedules.div_ceil(10), ..self }
    }

    /// The same with a broken protocol.
    #[must_use]
    pub fn broken(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// Whether some schedule fails.
    pub fn fails(self, scenario: impl Fn() + Send + Sync + 'static) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.run(FailurePersistence::None, scenario))).is_err()
    }

    /// Explores, half of the schedules at random and half by PCT; how many there were.
    fn run(self, persistence: FailurePersistence, scenario: impl Fn() + Send + Sync + 'static) -> usize {
        let seed = env::seed(1);
        let random = self.schedules.div_ceil(2);
        let scenario = std::sync::Arc::new(scenario);
        let again = scenario.clone();
        vmalloc::sync::explore(self.grain, self.mutant, || {
            run(RandomScheduler::new_from_seed(seed, random), persistence.clone(), move || scenario())
                + run(
                    PctScheduler::new_from_seed(seed, DEPTH, self.schedules - random),
                    persistence,
                    move || again(),
                )
        })
    }
}

fn run(
    scheduler: impl Scheduler + 'static,
    persistence: FailurePersistence,
    scenario: impl Fn() + Send + Sync + 'static,
) -> usize {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = persistence;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(scenario)
}

/// Explores a scenario that holds, and tells how many schedules that were, past whatever captures the output of tests.
pub fn explore(name: &str, plan: Plan, scenario: impl Fn() + Send + Sync + 'static) {
    let seed = env::seed(1);
    match catch_unwind(AssertUnwindSafe(|| plan.run(FailurePersistence::Print, scenario))) {
        Ok(count) => {
            let _ = writeln!(std::io::stdout(), "explored {count} schedules of {name}");
        }
        Err(failure) => {
            eprintln!("{name} fails: VMALLOC_SEED={seed:#x} repeats it");
            resume_unwind(failure);
        }
    }
}
