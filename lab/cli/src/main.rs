//! The `vmalloc-lab` program.
//!
//! ```text
//!  test/        `vmalloc-lab test`: parameters ─► one space, many workers ─► report
//!  cases/       what a worker runs: one table, a module for each family of cases
//!  latency/     `vmalloc-lab latency`: a periodic thread beside workers
//!  replay/      `vmalloc-lab replay`: traces, read and replayed on designs of the lab
//!  reproduce/   `vmalloc-lab reproduce`: Linux's published results, measured again
//!  report/      `vmalloc-lab report`: the lab's designs side by side, as a page
//!
//!  args.rs      the command line
//!  machine.rs   the space that all commands run on, and facts of the machine;  borrowed_frames.rs  frames of the platform
//!  worker_threads.rs  threads that start together;  progress.rs  a bar for people who wait
//! ```

mod args;
mod borrowed_frames;
mod cases;
mod latency;
mod machine;
mod progress;
mod replay;
mod report;
mod reproduce;
mod test;
mod worker_threads;

use args::Command;
use std::process::ExitCode;
use vmalloc_inspect::program::{self, error, output};

fn main() -> ExitCode {
    program::run(args::definition(), |command, json| match command {
        Command::Test(options) => test::run(&options, json),
        Command::Latency(options) => latency::run(&options, json),
        Command::Reproduce(options) => reproduce::run(&options, json),
        Command::Replay(options) => replay::run(&options, json),
        Command::Report(options) => report::run(&options, json),
    })
}
