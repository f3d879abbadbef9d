//! Programs and tests of others, without the library and with it.

use anyhow::Result;
use clap::Parser;
use preloaded_programs::{clean, library, root, suites};

/// Run programs of others under the preload library, and compare with runs without it
///
/// Each program runs without the library, with it at a threshold of 4,096 bytes, and with it as it is by default. A
/// difference is a failure. Programs that are not installed are told.
#[derive(Parser)]
#[command(name = "cargo xtask preload")]
struct Args {
    /// A part of the suites, in about a minute.
    #[arg(long)]
    quick: bool,
    /// Only what has this in its name.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::env::set_current_dir(root())?;
    let done = suites::run(&library()?, args.quick, &args.only);
    clean();
    done
}
