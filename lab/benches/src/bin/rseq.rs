//! Measures what restartable sequences would save of a pair.

use std::process::ExitCode;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod measured {
    use clap::{Parser, ValueEnum};
    use std::io;
    use std::time::Duration;
    use vmalloc_bench::rounds::Limits;
    use vmalloc_bench::rseq::{self, Area, Use, Way};
    use vmalloc_bench::{callgrind, output};
    use vmalloc_kit::table::{figure, table};

    /// Measure what restartable sequences would save of a pair
    ///
    /// An entry of this CPU's stack popped and pushed back, under the lock of the nodes, by
    /// rseq(2), and without either, beside the whole pair of a space: a page allocated and freed,
    /// cached; and the addresses of a pair, without memory, with locks that one thread takes
    /// without exchanges. CPU time, medians of interleaved rounds, by one thread and by two, each
    /// on a CPU of its own.
    #[derive(Parser)]
    struct Args {
        /// Rounds.
        #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: u16,
        /// Make 10,000 pairs for `valgrind --tool=callgrind --instr-atstart=no` instead.
        #[arg(long)]
        count: Option<Way>,
    }

    /// Pairs whose instructions are counted.
    struct Counted;

    impl Use for Counted {
        type Output = ();

        fn pairs(self, pair: impl Fn() + Sync) {
            (0..1000).for_each(|_| pair());
            callgrind::start();
            (0..10_000).for_each(|_| pair());
            callgrind::end_window(c"run");
            callgrind::stop();
        }
    }

    pub(crate) fn run() -> io::Result<()> {
        let args = Args::parse();
        let Some(area) = Area::find() else {
            return output::line(&"the C library registers no thread for rseq");
        };
        if let Some(way) = args.count {
            way.give(area, Counted);
            return Ok(());
        }
        if !area.is_registered() {
            return output::line(&"this thread is not registered for rseq");
        }
        let limits = Limits { rounds: args.rounds.into(), window: Duration::from_millis(20) };
        let rows = rseq::run(area, &limits);
        let name = |way: Way| way.to_possible_value().map_or_else(String::new, |way| way.get_name().into());
        let cells = |row: &rseq::Row| vec![row.threads.to_string(), name(row.way), figure(row.ns)];
        output::line(&table("rlr", &["threads", "way", "ns a pair"], rows.iter().map(cells).collect()))
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() -> ExitCode {
    vmalloc_bench::output::end(measured::run())
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
