//! Measures one space under many threads.

use clap::{Parser, ValueEnum};
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc::SpaceOptions;
use vmalloc_bench::marks::Mark;
use vmalloc_bench::output;
use vmalloc_bench::pinning::{self, Placement};
use vmalloc_bench::scene::{Freed, Scene};
use vmalloc_bench::threads::{self, Drain, Limits, Row, Workload};
use vmalloc_kit::table::{figure, table};

/// Measure one space under many threads
///
/// Millions of pairs (one allocation and one free) a second of all threads together, as the median
/// of interleaved rounds, its range, and its ratio to the first number of threads. "locks" is how
/// many locks a pair takes, "waited" how many of them were not free at once, from a pass of its
/// own. W1: 3 pages and a guard page in an empty space. W5: each thread replaces random areas of
/// its share of 100,000 live ones, 1…64 pages. No memory is behind the addresses; the loop and its
/// random numbers are part of the figures. Each scene is played twice: with callers that purge, and
/// with a thread that drains.
///
/// `--plan cores`: threads pinned to a CPU each, 1, 2, 4, … up to the CPUs there are, cached and
/// unmapped; then pairs of threads of which one allocates and the other frees, with a ring between.
/// `--plan crowd`: 64 threads against as many as there are CPUs. Both print pass marks.
#[derive(Parser)]
struct Args {
    /// Numbers of threads.
    #[arg(default_values_t = [1, 2, 4, 64], value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Numbers of threads for a purpose, instead of a list of them.
    #[arg(long, conflicts_with = "threads")]
    plan: Option<Plan>,
    /// Unmap what is freed, instead of keeping some of it for reuse. Plans do both.
    #[arg(long, conflicts_with = "plan")]
    unmap: bool,
    /// Short rounds: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

/// Numbers of threads for a purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Plan {
    /// Scaling: a CPU for each thread.
    Cores,
    /// Fairness: many threads for each CPU.
    Crowd,
}

/// Threads of a crowd.
const CROWD: usize = 64;

/// Everything that is measured.
struct Job {
    threads: Vec<usize>,
    /// For pairs of threads that hand areas on; none without a plan for them.
    relays: Vec<usize>,
    freed: Vec<Freed>,
    placement: Placement,
    marks: Vec<Mark>,
}

impl Job {
    fn new(args: &Args) -> Self {
        let cpus = pinning::allowed().len();
        let both = Freed::ALL.to_vec();
        match args.plan {
            None => Self {
                threads: args.threads.iter().map(|&threads| usize::from(threads)).collect(),
                relays: Vec::new(),
                freed: vec![if args.unmap { Freed::Unmapped } else { Freed::Cached }],
                placement: Placement::Anywhere,
                marks: Vec::new(),
            },
            Some(Plan::Cores) => {
                let threads = pinning::doubling(cpus);
                let relays = threads.iter().copied().filter(|&count| count == 1 || count % 2 == 0).collect();
                let (placement, marks) = (Placement::Pinned, Mark::CORES.to_vec());
                Self { threads, relays, freed: both, placement, marks }
            }
            Some(Plan::Crowd) => Self {
                threads: vec![cpus, CROWD],
                relays: Vec::new(),
                freed: both,
                placement: Placement::Anywhere,
                marks: Scene::ALL.map(|scene| Mark::crowd(scene, CROWD)).to_vec(),
            },
        }
    }

    fn limits(&self, args: &Args, freed: Freed) -> Limits {
        let options = freed.options(SpaceOptions::default());
        // Many time slices of each of 64 threads on two CPUs.
        let window = Duration::from_millis(if args.quick { 20 } else { 500 });
        Limits { rounds: usize::from(args.rounds), window, options, placement: self.placement }
    }
}

/// Prints the rows of one table, what it is about, and the outcomes of the marks.
fn print_table(job: &Job, freed: Freed, rows: &[Row]) -> io::Result<()> {
    let Some(Row { scene, drain, workload, .. }) = rows.first() else { return Ok(()) };
    let freed = freed.about();
    let title = match workload {
        Workload::Own => format!("{scene:?}: {}; {}; {freed}", scene.about("thread"), drain.about()),
        Workload::Relay => {
            format!("Relay of areas as in {scene:?}: one thread allocates, another frees; {freed}")
        }
    };
    let head = ["threads", "M pairs/s", "lowest", "highest", "ratio", "locks", "waited %"];
    let cells = |row: &Row| {
        let [lowest, highest] = row.range;
        let figures = [row.mpairs_per_s, lowest, highest, row.ratio, row.locks_per_pair, row.waited_percent];
        std::iter::once(row.threads.to_string()).chain(figures.into_iter().map(figure)).collect()
    };
    let table = table("lr", &head, rows.iter().map(cells).collect());
    let cpus = pinning::allowed().len();
    let marks = job.marks.iter().filter(|mark| mark.scene == *scene && *workload == Workload::Own);
    let marks: String = marks.map(|mark| format!("{}\n", mark.told(rows, cpus))).collect();
    output::line(&format_args!("{title}\n{table}\n{marks}"))
}

fn measure(args: &Args) -> io::Result<()> {
    let (job, bar) = (Job::new(args), indicatif::ProgressBar::new_spinner());
    for &freed in &job.freed {
        let limits = job.limits(args, freed);
        let tell = |rows: &[Row]| bar.suspend(|| print_table(&job, freed, rows));
        for (scene, drain) in Scene::ALL.into_iter().flat_map(|scene| Drain::ALL.map(|drain| (scene, drain)))
        {
            let progress = |step: &str| {
                bar.set_message(format!("{scene:?}, {}: {step}", drain.about()));
                bar.tick();
            };
            tell(&threads::run(scene, Workload::Own, drain, &job.threads, &limits, &progress))?;
        }
        for scene in Scene::ALL {
            let rows =
                threads::run(scene, Workload::Relay, Drain::Thread, &job.relays, &limits, &|_: &str| {});
            tell(&rows)?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn main() -> ExitCode {
    output::end(measure(&Args::parse()))
}
