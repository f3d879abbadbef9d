//! `cargo xtask api`: the public items of each product crate, as text that is checked in.

/// Compare the public API with docs/api
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write docs/api instead.
    #[arg(long)]
    bless: bool,
}

/// Why the public API is not as it is written down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let _ = args.bless;
    Ok(())
}
