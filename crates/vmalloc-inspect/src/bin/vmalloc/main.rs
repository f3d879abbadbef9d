//! The `vmalloc` program.
//!
//! ```text
//!  args.rs      the command line            input.rs   files to read
//!  explain/     `vmalloc explain`: an address of another process, or of a core dump
//!  top/         `vmalloc top`: the spaces of another process, live
//!  map/         `vmalloc map`: a kernel's areas as a picture
//!  why/         `vmalloc why`: a refused allocation beside a kernel's areas
//! ```

mod args;
mod explain;
mod input;
mod map;
mod top;
mod why;

use args::Command;
use std::process::ExitCode;
use vmalloc_inspect::program::{self, error, output};

fn main() -> ExitCode {
    program::run(args::definition(), |command, json| match command {
        Command::Explain(options) => explain::run(&options, json),
        Command::Top(options) => top::run(&options, json),
        Command::Map(options) => map::run(&options, json),
        Command::Why(options) => why::run(&options, json),
    })
}
