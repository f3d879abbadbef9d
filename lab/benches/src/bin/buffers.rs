//! Measures allocators of large buffers: ours, the system's and the best of their peers, all in one
//! run.

use clap::Parser;
use indicatif::ProgressBar;
use serde::Serialize;
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

/// An allocator: its properties, and its times.
#[derive(Serialize)]
struct Told {
    #[serde(rename = "allocator")]
    name: &'static str,
    version: String,
    rss_per_live: Option<f64>,
    guard: &'static str,
    #[serde(rename = "use_after_free_traps")]
    traps: &'static str,
    scenes: Vec<Row>,
}

struct Properties<'a>(&'a Args, Vec<Told>);

impl Visitor for Properties<'_> {
    fn visit<B: Buffers + 'static>(&mut self) {
        if self.0.wants(B::NAME) {
            let rss_per_live = rss_in_child(B::NAME);
            let (name, version) = (B::NAME, B::version());
            let (guard, traps, scenes) = (B::GUARD, B::TRAPS, Vec::new());
            self.1.push(Told { name, version, rss_per_live, guard, traps, scenes });
        }
    }
}

/// The figure of `PrintRss`, from a process that does nothing else.
fn rss_in_child(name: &str) -> Option<f64> {
    let output = Command::new(std::env::current_exe().ok()?).args(["--rss", name]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn print_tables(all: &[Told]) -> io::Result<()> {
    let scenes = SCENES.map(|(name, _)| name);
    let line = |it: &Told, value: fn(&Row) -> f64, tail: Vec<String>| {
        let figures = it.scenes.iter().map(|row| figure(value(row)));
        std::iter::once(it.name.to_owned()).chain(figures).chain(tail).collect()
    };
    let ns = all.iter().map(|it| {
        line(it, |row| row.ns, vec![figure(it.rss_per_live), it.guard.to_owned(), it.traps.to_owned()])
    });
    let head = [&["ns per pair"][..], &scenes, &["RSS/live", "guard", "UAF traps"]].concat();
    let times = table("lrrrrrrll", &head, ns.collect());
    let ratios = all.iter().map(|it| line(it, |row| row.ratio, Vec::new()));
    let head = [&["ratio"][..], &scenes].concat();
    let ratios = table("lr", &head, ratios.collect());
    let versions: Vec<_> = all.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
    output::line(&format_args!("{times}\n\n{ratios}\n\nVersions: {}", versions.join("; ")))
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(name) = args.rss {
        let mut rss = PrintRss(name, Ok(()));
        buffers::each(&mut rss);
        return output::end(rss.1);
    }
    let mut properties = Properties(&args, Vec::new());
    buffers::each(&mut properties);
    let mut all = properties.1;
    if all.is_empty() {
        return output::fail(&format_args!("no allocator starts with any of {:?}", args.names));
    }
    let bar = ProgressBar::new(SCENES.len() as u64);
    for scene in SCENES {
        let rows = buffers::run(scene, &args.measured.limits(), &|name| args.wants(name));
        all.iter_mut().zip(rows).for_each(|(told, row)| told.scenes.push(row));
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::end(if args.measured.json {
        output::line(&format_args!("{:#}", serde_json::json!(all)))
    } else {
        print_tables(&all)
    })
}
