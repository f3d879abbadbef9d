//! The command line.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use vmalloc_inspect::program::{self, number};

/// Returns the definition of the program.
pub(crate) fn definition() -> clap::Command {
    program::definition::<Command>()
        .name("vmalloc")
        .about("A look into spaces of vmalloc: of another process, of a core dump, and into areas of a kernel")
        .after_help(
            "\
Examples: vmalloc explain 4711 0x7f2f50003010; vmalloc top 4711; vmalloc completions bash; vmalloc man

Exit codes: 0 all went well, 1 nothing was found, or not all could be read, 2 bad usage, or a file or machine that does
not allow it.",
        )
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Tell what an address of another process, or of a core dump, is to a space there
    Explain(ExplainOptions),
    /// Show the spaces of another process, once a second
    Top(TopOptions),
    /// Draw the areas of a kernel's /proc/vmallocinfo, on the terminal and as SVG
    Map(MapOptions),
    /// Tell why a kernel refused an allocation: the largest hole of its windows, and who fills them
    Why(WhyOptions),
}

/// Options of `vmalloc explain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 the address is in a space, or in an area whose free was recorded, 1 it is in none,
2 bad usage, or the process or core dump can't be read, or has no space.")]
pub(crate) struct ExplainOptions {
    /// The number of a process, or a core dump (a file whose name is a number: ./NUMBER)
    #[arg(value_name = "CORE|PID")]
    pub(crate) target: String,
    /// The address, as 0x… or decimal
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub(crate) address: u64,
}

/// Reads an address.
fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no address: 0x and up to 16 digits, or a decimal number"))
}

/// Options of `vmalloc top`.
#[derive(Args, Debug)]
pub(crate) struct TopOptions {
    /// The number of the process
    #[arg(value_name = "PID")]
    pub(crate) pid: i32,
    /// Show it once, without rates, instead of each second until the process ends
    #[arg(long)]
    pub(crate) once: bool,
    /// The most tags of each space
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: usize,
}

/// Options of `vmalloc map`.
#[derive(Args, Debug)]
pub(crate) struct MapOptions {
    /// A copy of /proc/vmallocinfo, compressed or not, or that itself; - is stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write the picture to this file, as SVG that zooms and tells what is under the pointer
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Fail if a line is damaged, has an unknown word, or repeats or overlaps an earlier one
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Options of `vmalloc why`.
#[derive(Args, Debug)]
#[command(after_help = "\
The log has the line 'vmap allocation for size N failed', or the second line of a refusal ('vmalloc error: size N,
vm_struct allocation failed'); with the lines 'vmalloc : 0x… - 0x…' of the boot it tells the windows, too. Both may be
in one file.

Exit codes: 0 the windows are told, 1 the addresses are hidden, or areas of the listing could not be read, 2 bad usage,
or a file without areas or refusals.")]
pub(crate) struct WhyOptions {
    /// A copy of /proc/vmallocinfo, compressed or not, or that itself; - is stdin
    #[arg(value_name = "VMALLOCINFO")]
    pub(crate) listing: PathBuf,
    /// The kernel's log (dmesg), compressed or not
    #[arg(value_name = "LOG")]
    pub(crate) log: Option<PathBuf>,
    /// The size that was refused, instead of those in the log: 430080, 420K, 4G
    #[arg(long, value_name = "N", value_parser = bytes)]
    pub(crate) bytes: Option<u64>,
    /// The window of the refused sizes, instead of those in the log: 0xf0800000-0xff800000
    #[arg(long, value_name = "A-B", value_parser = window)]
    pub(crate) window: Option<[u64; 2]>,
}

/// Reads a size in bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let bytes = number(text, 1024).filter(|&bytes| bytes != 0);
    bytes.ok_or_else(|| format!("{text} is no size: a number, with K, M, G or T behind it if need be"))
}

/// Reads two addresses with a minus sign between.
fn window(text: &str) -> Result<[u64; 2], String> {
    let number = |text: &str| {
        let digits = text.trim().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).map_err(|_| format!("{text} is no address in hexadecimal digits"))
    };
    let (start, end) = text.split_once('-').ok_or("it is no range: 0xf0800000-0xff800000")?;
    let (start, end) = (number(start)?, number(end)?);
    if start < end { Ok([start, end]) } else { Err("it ends before it begins".into()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
