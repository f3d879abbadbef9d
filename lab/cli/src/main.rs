//! The `vmalloc` program.
//!
//! ```text
//!  args.rs      the command line            error.rs   why a command failed, and its exit code
//!  output.rs    text or JSON on stdout, files
//!
//!  test/        `vmalloc test`: parameters ─► one space, many workers ─► report
//!  cases/       what a worker runs: one table, a module for each family of cases
//!  latency/     `vmalloc latency`: a periodic thread beside workers
//!  replay/      `vmalloc replay`: traces, read and replayed on designs of the lab
//!  reproduce/   `vmalloc reproduce`: Linux's published results, measured again
//!  map/         `vmalloc map`: a kernel's areas as a picture
//!  why/         `vmalloc why`: a refused allocation beside a kernel's areas
//!  report/      `vmalloc report`: the lab's designs side by side, as a page
//!
//!  explain/     `vmalloc explain`: an address of another process, or of a core dump
//!  top/         `vmalloc top`: the spaces of another process, live
//!
//!  input.rs     files to read
//!  machine.rs   the space that all commands run on, and facts of the machine;  borrowed_frames.rs  frames of the platform
//!  worker_threads.rs  threads that start together;  progress.rs  a bar for people who wait
//! ```

mod args;
mod borrowed_frames;
mod cases;
mod error;
mod explain;
mod input;
mod latency;
mod machine;
mod map;
mod output;
mod progress;
mod replay;
mod report;
mod reproduce;
mod test;
mod top;
mod why;
mod worker_threads;

use args::{Arguments, Command, Parsed};
use error::{Exit, Failure};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Read without the parser, which may be what refuses.
    let json = std::env::args_os().any(|word| word == "--json");
    run().unwrap_or_else(|failure| failure.tell(json)).into()
}

fn run() -> Result<Exit, Failure> {
    let arguments = match args::parse(std::env::args_os())? {
        Parsed::Run(arguments) => arguments,
        Parsed::Show(text) => return output::text(&text).map(|()| Exit::Success),
    };
    let Arguments { json, command } = arguments;
    match command {
        None => args::overview(json).map(|()| Exit::Usage),
        Some(Command::Test(options)) => test::run(&options, json),
        Some(Command::Latency(options)) => latency::run(&options, json),
        Some(Command::Reproduce(options)) => reproduce::run(&options, json),
        Some(Command::Replay(options)) => replay::run(&options, json),
        Some(Command::Map(options)) => map::run(&options, json),
        Some(Command::Why(options)) => why::run(&options, json),
        Some(Command::Report(options)) => report::run(&options, json),
        Some(Command::Explain(options)) => explain::run(&options, json),
        Some(Command::Top(options)) => top::run(&options, json),
        Some(Command::Completions { shell }) => args::completions(shell).map(|()| Exit::Success),
        Some(Command::Man) => args::man().map(|()| Exit::Success),
    }
}
