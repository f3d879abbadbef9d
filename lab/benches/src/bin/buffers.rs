//! Measures allocators of large buffers: ours, the system's and the best of their peers, all in one
//! run.

use clap::Parser;
use indicatif::ProgressBar;
use std::io;
use std::process::{Command, ExitCode};
use vmalloc_bench::buffers::{self, Buffers, Row, SCENES, Visitor};
use vmalloc_bench::output;
use vmalloc_bench::rounds::RoundsOptions;
use vmalloc_kit::table::{figure, table};

/// Measure allocators of large buffers side by side
///
/// CPU time, system time included, of: allocate, write one byte a page, free; the median of
/// interleaved rounds, in ns, with the ratio to ours in the second table. "steady" replaces a
/// random one of 1000 live buffers of 1…64 pages. "RSS/live" is the resident memory that the steady
/// scene takes in a process of its own, over the live bytes. "guard" and "UAF traps" are what each
/// promises by design, not measured.
#[derive(Parser)]
struct Args {
    /// Only these allocators, by the start of their name.
    names: Vec<String>,
    #[command(flatten)]
    measured: RoundsOptions,
    /// Print the resident memory over live bytes of the one allocator of this name, and nothing
    /// else.
    #[arg(long, hide = true, value_name = "NAME")]
    rss: Option<String>,
}

impl Args {
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|start| name.starts_with(start))
    }
}

/// Prints the resident memory of the allocator of this name.
struct PrintRss(String, io::Result<()>);

impl Visitor for PrintRss {
    fn visit<B: Buffers + 'static>(&mut self) {
        if B::NAME == self.0 {
            self.1 = output::line(&buffers::per_live::<B>());
        }
    }
}

/// Properties of an allocator besides its speed.
struct Trait {
    name: &'static str,
    version: String,
    rss_per_live: Option<f64>,
    guard: &'static str,
    traps: &'static str,
}

struct Traits<'a> {
    args: &'a Args,
    traits: Vec<Trait>,
}

impl Visitor for Traits<'_> {
    fn visit<B: Buffers + 'static>(&mut self) {
        if self.args.wants(B::NAME) {
            let rss_per_live = rss_in_child(B::NAME);
            let (name, version) = (B::NAME, B::version());
            self.traits.push(Trait { name, version, rss_per_live, guard: B::GUARD, traps: B::TRAPS });
        }
    }
}

/// The figure of `PrintRss`, from a process that does nothing else.
fn rss_in_child(name: &str) -> Option<f64> {
    let output = Command::new(std::env::current_exe().ok()?).args(["--rss", name]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn print_tables(traits: &[Trait], rows: &[Row]) -> io::Result<()> {
    let scenes = SCENES.map(|(name, _)| name);
    let of = |name: &str, value: fn(&Row) -> f64| -> Vec<String> {
        rows.iter().filter(|row| row.allocator == name).map(|row| figure(value(row))).collect()
    };
    let line = |it: &Trait, value: fn(&Row) -> f64, tail: Vec<String>| {
        [vec![it.name.to_owned()], of(it.name, value), tail].concat()
    };
    let ns = traits.iter().map(|it| {
        line(it, |row| row.ns, vec![figure(it.rss_per_live), it.guard.to_owned(), it.traps.to_owned()])
    });
    let head = [&["ns per pair"][..], &scenes, &["RSS/live", "guard", "UAF traps"]].concat();
    let times = table("lrrrrrrll", &head, ns.collect());
    let ratios = traits.iter().map(|it| line(it, |row| row.ratio, Vec::new()));
    let head = [&["ratio"][..], &scenes].concat();
    let ratios = table("lr", &head, ratios.collect());
    let versions: Vec<_> = traits.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
    output::line(&format_args!("{times}\n\n{ratios}\n\nVersions: {}", versions.join("; ")))
}

fn print_json(traits: &[Trait], rows: &[Row]) -> io::Result<()> {
    let object = |it: &Trait| {
        let scenes: Vec<&Row> = rows.iter().filter(|row| row.allocator == it.name).collect();
        serde_json::json!({
            "allocator": it.name, "version": it.version, "rss_per_live": it.rss_per_live, "guard": it.guard,
            "use_after_free_traps": it.traps, "scenes": scenes,
        })
    };
    output::line(&format_args!("{:#}", traits.iter().map(object).collect::<serde_json::Value>()))
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(name) = args.rss {
        let mut rss = PrintRss(name, Ok(()));
        buffers::each(&mut rss);
        return output::end(rss.1);
    }
    let mut traits = Traits { args: &args, traits: Vec::new() };
    buffers::each(&mut traits);
    let traits = traits.traits;
    if traits.is_empty() {
        return output::fail(&format_args!("no allocator starts with any of {:?}", args.names));
    }
    let bar = ProgressBar::new(SCENES.len() as u64);
    let mut rows = Vec::new();
    for scene in SCENES {
        rows.extend(buffers::run(scene, &args.measured.limits(), &|name| args.wants(name)));
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::end(if args.measured.json { print_json(&traits, &rows) } else { print_tables(&traits, &rows) })
}
