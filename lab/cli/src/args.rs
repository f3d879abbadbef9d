//! The command line.

use crate::error::Failure;
use crate::machine::MachineOptions;
use crate::output;
use crate::test::help;
use crate::worker_threads::MAX_THREADS;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;
use vmalloc_lab::designs::Name;
use vmalloc_lab::replay::Purges;
use vmalloc_lab::reproduce::Figure;

/// A virtual-address allocator at work: Linux's test driver, and a look at a live space.
#[derive(Parser, Debug)]
#[command(name = "vmalloc", version, disable_help_subcommand = true)]
#[command(after_help = "\
Examples: vmalloc test smoke; vmalloc explain 4711 0x7f2f50003010; vmalloc completions bash; vmalloc man

Exit codes: 0 all went well, 1 a test or a replay failed, 2 bad usage, or a file or machine that does not allow it.")]
pub(crate) struct Arguments {
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run Linux's test driver: many workers on one shared space
    Test(TestOptions),
    /// Tell what an address of another process, or of a core dump, is to a space there
    Explain(ExplainOptions),
    /// Show the spaces of another process, once a second
    Top(TopOptions),
    /// Measure how late a periodic thread wakes while others allocate and free
    Latency(LatencyOptions),
    /// Measure Linux's published results again, on the designs they were published for, and on this
    /// one
    Reproduce(ReproduceOptions),
    /// Replay traces of Linux's vmalloc or of a program's mappings on designs of address allocators
    Replay(ReplayOptions),
    /// Draw the areas of a kernel's /proc/vmallocinfo, on the terminal and as SVG
    Map(MapOptions),
    /// Tell why a kernel refused an allocation: the largest hole of its windows, and who fills them
    Why(WhyOptions),
    /// Measure all designs of the lab side by side, and write one page with plots
    Report(ReportOptions),
    /// Print the completions of a shell, for the file where it looks for them
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print this program's page for man
    #[command(hide = true)]
    Man,
}

/// Options of `vmalloc test`.
#[derive(Args, Debug)]
pub(crate) struct TestOptions {
    /// A preset (performance, smoke, stress), names of cases, and parameters as KEY=VALUE; see
    /// below
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// The space to run on.
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Print the table of cases and run nothing
    #[arg(long)]
    pub(crate) list: bool,
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

/// Options of `vmalloc latency`.
#[derive(Args, Debug)]
pub(crate) struct LatencyOptions {
    /// Threads that allocate and free all the time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub(crate) threads: Option<u64>,
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// The space to run on.
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
}

/// Options of `vmalloc reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "\
f1  free list instead of a scan of busy areas (2018)
f2  augmented tree instead of lists (2019)
f3  blocks of short mappings at the tail of their queue (2015)
f4  purge without a held lock (2016)
f5  a node for each CPU instead of one tree (2024)

Exit codes: 0 all that are judged are reproduced, 1 one is not reproduced, 2 bad usage.")]
pub(crate) struct ReproduceOptions {
    /// Which results: f1 to f5 [default: all five]
    #[arg(value_name = "FIGURE", value_parser = crate::reproduce::figure)]
    pub(crate) figures: Vec<Figure>,
    /// Less of each: under two minutes for all five
    #[arg(long)]
    pub(crate) quick: bool,
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

/// Reads a decimal number. A letter behind it multiplies by `unit`, its square and so on: 100k.
pub(crate) fn number(text: &str, unit: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match &*text[digits.len()..].to_ascii_lowercase() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    // `parse` takes a sign.
    let number: Option<u64> = if digits.starts_with('+') { None } else { digits.parse().ok() };
    number?.checked_mul(unit.pow(power))
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

/// Options of `vmalloc report`.
#[derive(Args, Debug)]
pub(crate) struct ReportOptions {
    /// Write the page to this file [default: vmalloc-report.html; with --json none]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Measure less, in a tenth of the time
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure this design [default: each generation as it was, and ours]; may be given more than
    /// once
    #[arg(long, value_name = "NAME")]
    pub(crate) design: Vec<Name>,
    /// The most live areas [default: 1000000, with --quick 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) live_max: Option<u64>,
}

/// The purges of a replay: a replay for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Replayed {
    Own,
    Trace,
    Both,
}

impl Replayed {
    /// The replays.
    pub(crate) const fn purges(self) -> &'static [Purges] {
        match self {
            Self::Own => &[Purges::Own],
            Self::Trace => &[Purges::Trace],
            Self::Both => &[Purges::Own, Purges::Trace],
        }
    }
}

/// Options of `vmalloc replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayOptions {
    /// Traces, compressed or not: text of Linux's tracepoints, or text of strace (of one process);
    /// quoted and numbered lines are read as well; '-' is standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A design to replay on, or 'all'; may be repeated [default: vmalloc]
    #[arg(long, value_name = "NAME")]
    pub(crate) design: Vec<String>,
    /// Stop at the first line that can't be read
    #[arg(long)]
    pub(crate) strict: bool,
    /// When designs purge: at their own thresholds, when the trace did, or first the one and then
    /// the other, and spans side by side
    #[arg(long, value_name = "WHEN", default_value = "own")]
    pub(crate) purges: Replayed,
    /// Let memory be short after every N calls: designs give back what they keep for reuse (nodes
    /// their pools, ours what is lazy as well, the others nothing)
    #[arg(long, value_name = "N")]
    pub(crate) pressure: Option<NonZeroU64>,
    /// Replay a made-up trace of so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) synthetic: Option<u64>,
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Work.
    Run(Arguments),
    /// A text, such as the help.
    Show(String),
}

/// Reads the command line.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let command = Arguments::command().mut_subcommand("test", |test| test.after_help(help::after_help()));
    let words: Vec<_> = words.into_iter().collect();
    let named = words.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-')).cloned();
    let named = named.and_then(|word| Some(command.find_subcommand(word)?.get_name().to_owned()));
    match command.try_get_matches_from(words).and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => Ok(Parsed::Run(arguments)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Parsed::Show(error.to_string())),
            _ => Err(one_line(&error, named.as_deref())),
        },
    }
}

/// Answers a line without a command: with the help on stderr, or an object with the names of the
/// commands.
pub(crate) fn overview(json: bool) -> Result<(), Failure> {
    let mut command = Arguments::command();
    if !json {
        output::aside(&command.render_help().to_string());
        return Ok(());
    }
    let commands: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    output::json(&serde_json::json!({
        "name": command.get_name(), "version": env!("CARGO_PKG_VERSION"), "about": env!("CARGO_PKG_DESCRIPTION"),
        "commands": commands,
    }))
}

/// Writes the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "vmalloc", &mut text);
    output::text(&String::from_utf8_lossy(&text))
}

/// Writes the page for man.
pub(crate) fn man() -> Result<(), Failure> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(Arguments::command()).render(&mut text);
    page.map_err(|error| Failure::new(format!("the page for man: {error}")))?;
    output::text(&String::from_utf8_lossy(&text))
}

/// Asks whether the name was meant that is nearest to `word`, if one is near.
pub(crate) fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(word, name);
    let near = names.filter(|name| likeness(name) > 0.8);
    let nearest = near.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    nearest.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

/// Asks whether the name was meant that the parser suggests.
fn suggestion(error: &clap::Error) -> String {
    let suggested =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let name = suggested.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    });
    name.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

/// The complaint without its advice, which takes many lines: the help of the command that was named
/// has more.
fn one_line(error: &clap::Error, named: Option<&str>) -> Failure {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let mut line = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    if line.ends_with(':') {
        // A line for each argument that is missing.
        let missing: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        line = format!("{line} {}", missing.join(" "));
    }
    let help = named.map_or("vmalloc --help".to_owned(), |name| format!("vmalloc {name} --help"));
    let suggestion = suggestion(error);
    Failure::new(format!("{line}{suggestion}; see '{help}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}
