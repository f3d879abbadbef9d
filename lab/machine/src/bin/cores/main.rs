//! Runs designs on virtual CPUs: `cargo xtask cores`.

mod bars;
mod load;
mod measures;
mod plot;
mod show;

use clap::{Parser, Subcommand};
use load::{Load, PUBLISHED_MASK};
use std::path::PathBuf;
use std::process::ExitCode;
use vmalloc_lab::designs::Name;

#[global_allocator]
static ALLOCATOR: vmalloc_machine::Allocator = vmalloc_machine::Allocator;

/// Run designs on virtual CPUs, in virtual time
///
/// The real code of each design runs on 1 to 128 CPUs that one thread of this machine plays. Blocks
/// of code, cache lines that pass from one CPU to another, locks and waits take their time by one
/// set of constants. Results are the same to the digit wherever this is run. `docs/lab.md` tells
/// what it can't say.
#[derive(Parser)]
#[command(name = "cores", bin_name = "cargo xtask cores")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure the published result of 2024 again: waiting, and time, from one tree to nodes
    ///
    /// With 2 CPUs it is what `vmalloc-lab reproduce f5` runs on the real ones: 32 nodes, a space that
    /// is lived in, areas that are not used. With more it is the load of the publication, with a
    /// node for each CPU.
    F5 {
        #[arg(long, default_value_t = 32)]
        cpus: usize,
        /// Loops of all threads.
        #[arg(long, default_value_t = 512_000)]
        loops: u64,
        /// The output of `vmalloc-lab reproduce f5 --json`, to be shown beside it.
        #[arg(long)]
        real: Option<PathBuf>,
        /// Nanoseconds that a cache line takes from one CPU to another, where they are not those of
        /// the publication: the bench `threads` prints those of real ones.
        #[arg(long)]
        line: Option<u64>,
    },
    /// Tell how long the same work takes on more and more CPUs
    Scale {
        /// Designs.
        #[arg(required = true)]
        designs: Vec<Name>,
        #[command(flatten)]
        size: Sizes,
    },
    /// Count the lazy pages of CPUs that allocate and free 2 pages
    ///
    /// Under one purge at a time that always offers the lock, the same with the threshold of 2018, and ours.
    Lazy {
        #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 64])]
        cpus: Vec<usize>,
        /// Pairs of all threads.
        #[arg(long, default_value_t = 250_000)]
        pairs: u64,
    },
    /// Tell what was waited for, by the types that locks protect and by the lines that take them
    Locks {
        design: Name,
        #[command(flatten)]
        size: Sizes,
        /// Lines to tell of.
        #[arg(long, default_value_t = 12)]
        top: usize,
    },
    /// Tell which lines of the source lost most to cache lines
    Lines {
        design: Name,
        #[command(flatten)]
        size: Sizes,
        /// Lines to tell of.
        #[arg(long, default_value_t = 20)]
        top: usize,
    },
    /// Print the rows that docs/cores.toml has bars for, as JSON
    Rows {
        /// Those that take seconds.
        #[arg(long)]
        quick: bool,
    },
    /// Draw the time by CPUs of `augmented`, `nodes` and ours
    Plot {
        out: PathBuf,
        #[command(flatten)]
        size: Sizes,
    },
}

#[derive(clap::Args, Clone)]
struct Sizes {
    /// Numbers of CPUs, each with a thread and a node.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 8, 32, 128])]
    cpus: Vec<usize>,
    /// Loops of all threads: 64,000 are a short run, 512,000 a long one.
    #[arg(long, default_value_t = 64_000)]
    loops: u64,
    /// The cases, by their bits: 1 one page, 2 one page among holes, 4 100 pages and one.
    #[arg(long, default_value_t = PUBLISHED_MASK)]
    mask: u8,
    /// Threads for each CPU.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

impl Sizes {
    fn loads(&self, design: Name) -> impl Iterator<Item = Load> {
        self.cpus.iter().map(move |&cpus| Load {
            mask: self.mask,
            threads: cpus * self.threads,
            ..Load::published(design, cpus, self.loops)
        })
    }
}

fn main() -> ExitCode {
    if !cfg!(machine) {
        eprintln!("error: this is built by `cargo xtask cores`");
        return ExitCode::from(2);
    }
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(task: Task) -> std::io::Result<()> {
    match task {
        Task::F5 { cpus, loops, real, line } => return show::f5(cpus, loops, real.as_deref(), line),
        Task::Scale { designs, size } => designs.iter().for_each(|&design| show::scale(size.loads(design))),
        Task::Lazy { cpus, pairs } => show::lazy(&cpus, pairs),
        Task::Locks { design, size, top } => {
            size.loads(design).for_each(|load| show::locks(&load.run(), top));
        }
        Task::Lines { design, size, top } => {
            size.loads(design).for_each(|load| show::lines(&load.run(), top));
        }
        Task::Rows { quick } => bars::rows(quick),
        Task::Plot { out, size } => return std::fs::write(out, plot::svg(|design| size.loads(design))),
    }
    Ok(())
}
