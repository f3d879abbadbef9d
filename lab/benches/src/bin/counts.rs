//! Counts that repeat: `cargo xtask instructions` and `cargo xtask policy` drive it.
//!
//! It plays one workload with its measured windows marked for Callgrind, or the loads of the
//! caching policy, which count by themselves. Each window is labelled with a client request: `loop`
//! is the measured loop over an allocator that does nothing, `run` the same loop over the real one.
//! For the single worst call the windows are `empty`, and one per alignment.

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc_bench::adapter::{self, Noop, Visitor};
use vmalloc_bench::ranges::Ranges;
use vmalloc_bench::stage::Stage;
use vmalloc_bench::workload::{self, Cycle, Workload};
use vmalloc_bench::{c_calls, callgrind, output, policy};

/// No set-up is cut short here: a state that depends on time would give counts that do not repeat.
const NO_CAP: Duration = Duration::from_secs(100_000);

/// Turns before the windows, so that both loops have been through their first calls.
const WARM_ITERATIONS: usize = 100;

/// Play one workload with windows for `valgrind --tool=callgrind --instr-atstart=no`, or the loads
/// of the caching policy.
#[derive(Parser)]
struct Args {
    /// List the workloads, `NAME<tab>PAIRS PER TURN<tab>WHETHER LARGE`, instead of running one.
    #[arg(long)]
    list: bool,
    /// Count the loads of the caching policy, and print a list of objects.
    #[arg(long)]
    policy: bool,
    /// The workload.
    #[arg(required_unless_present_any = ["list", "policy"])]
    name: Option<String>,
    /// The allocator to measure: the start of a name in the tables of `ranges`.
    #[arg(long, default_value = "vmalloc")]
    allocator: String,
    /// Turns of the measured loop.
    #[arg(long, default_value_t = 10_000)]
    turns: usize,
}

struct Play<'a> {
    workload: &'a Workload,
    allocator: &'a str,
    iterations: usize,
    played: bool,
}

impl Visitor for Play<'_> {
    fn visit<R: Ranges + 'static>(&mut self) {
        if self.played || !R::NAME.starts_with(self.allocator) || !adapter::is_able::<R>(self.workload) {
            return;
        }
        self.played = true;
        match self.workload.cycle {
            Cycle::WorstCall => (1..=9).for_each(|order| single_calls::<R>(self.workload, order)),
            _ => whole_loop::<R>(self.workload, self.iterations),
        }
    }
}

fn ready<R: Ranges>(workload: &Workload) -> Stage<R> {
    let mut stage = Stage::new(workload);
    stage.set_up(NO_CAP).expect("a set-up without a time limit");
    stage
}

fn whole_loop<R: Ranges>(workload: &Workload, iterations: usize) {
    let mut stage = ready::<R>(workload);
    let mut idle = ready::<Noop>(workload);
    let warm = stage.draw(WARM_ITERATIONS);
    stage.play(&warm);
    idle.play(&warm);
    stage.absorb(&warm);
    let window = stage.draw(iterations);
    callgrind::start();
    idle.play(&window);
    callgrind::end_window(c"loop");
    stage.play(&window);
    callgrind::end_window(c"run");
    callgrind::stop();
}

fn single_calls<R: Ranges>(workload: &Workload, order: u32) {
    let mut stage = ready::<R>(workload);
    callgrind::start();
    callgrind::end_window(c"before");
    callgrind::end_window(c"empty");
    let handle = stage.call_allocate(1, 1 << order);
    callgrind::end_window(c"allocate");
    stage.call_free(handle);
    callgrind::end_window(c"free");
    callgrind::stop();
}

fn list() -> ExitCode {
    for workload in workload::ALL {
        println!("{}\t{}\t{}", workload.name, workload.pairs_per_iteration(), workload.large);
    }
    for name in c_calls::NAMES {
        println!("{name}\t1\tfalse");
    }
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        return list();
    }
    if args.policy {
        return output::end(output::line(&format_args!("{:#}", serde_json::json!(policy::run()))));
    }
    let name = args.name.unwrap_or_default();
    if c_calls::NAMES.contains(&&*name) {
        c_calls::count(&name, args.turns);
        return ExitCode::SUCCESS;
    }
    let Some(workload) = Workload::named(&name) else {
        eprintln!("error: no workload is called {name:?}");
        return ExitCode::from(2);
    };
    let mut play = Play { workload, allocator: &args.allocator, iterations: args.turns, played: false };
    adapter::each(workload, &mut play);
    if !play.played {
        eprintln!("error: no allocator that can run {} is called {:?}", workload.name, args.allocator);
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
