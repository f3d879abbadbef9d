//! The report of replays, in JSON and as text.

use super::input::Trace;
use super::spans;
use super::table;
use crate::output;
use serde::Serialize;
use std::fmt::{self, Display, Write};
use vmalloc_lab::replay::{Outcome, Purges, Script, Tally};
use vmalloc_lab::trace::Compression;

/// All of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    purges: &'static str,
    page_bytes: u64,
    inputs: Vec<InputReport>,
    complaints: Vec<String>,
    pub(super) ok: bool,
}

/// A trace, and what designs did with it.
#[derive(Debug, Serialize)]
pub(super) struct InputReport {
    #[serde(flatten)]
    pub(super) read: Trace,
    /// When the designs purged.
    #[serde(skip)]
    pub(super) purges: Purges,
    #[serde(rename = "purges")]
    purges_told: &'static str,
    /// Counts of the events, by what became of them.
    events: Tally,
    cpus: usize,
    /// Calls of a design.
    calls: u64,
    pub(super) designs: Vec<Outcome>,
}

impl InputReport {
    pub(super) fn new(read: Trace, purges: Purges, script: &Script, designs: Vec<Outcome>) -> Self {
        let (events, cpus, calls) = (*script.tally(), script.cpus(), script.calls());
        Self { read, purges, purges_told: purges.into(), events, cpus, calls, designs }
    }

    fn complaints(&self) -> impl Iterator<Item = String> {
        let unsound = !self.read.lines.adds_up() || !self.events.adds_up();
        let own =
            unsound.then(|| format!("{}: not everything that was read is accounted for", self.read.name));
        let of = |design: &Outcome| {
            let (name, file) = (design.design, &self.read.name);
            design.complaints.iter().map(|line| format!("{file}: {name}: {line}")).collect::<Vec<_>>()
        };
        own.into_iter().chain(self.designs.iter().flat_map(of))
    }
}

impl Report {
    pub(super) fn new(purges: &'static str, inputs: Vec<InputReport>) -> Self {
        let complaints: Vec<_> = inputs.iter().flat_map(InputReport::complaints).collect();
        Self {
            purges,
            page_bytes: 1 << vmalloc_lab::design::PAGE_SHIFT,
            inputs,
            ok: complaints.is_empty(),
            complaints,
        }
    }

    /// Says on stderr what went wrong.
    pub(super) fn warn(&self) {
        self.complaints.iter().for_each(|complaint| output::note(complaint));
    }
}

impl Trace {
    /// Describes the trace, and the lines that could not be read.
    pub(super) fn told(&self) -> String {
        let lines = &self.lines;
        let packed = match self.compression {
            Compression::Plain => "",
            Compression::Xz => " in xz",
            Compression::Gzip => " in gzip",
            Compression::Zstd => " in zstd",
            Compression::Lz4 => " in lz4",
        };
        let mut text = format!(
            "{}: {}{packed}, {} lines in {:.2} s: {} events, {} headers, {} others, {} damaged\n",
            self.name,
            self.format,
            lines.total,
            self.read_seconds,
            lines.events,
            lines.headers,
            lines.other,
            lines.damaged
        );
        // Writing to a string can't fail, here and below.
        let _ = write!(text, "{}", List("by kind", &lines.kinds.told()));
        for damage in &lines.first_damages {
            let _ = writeln!(text, "  {damage}");
        }
        let untold = lines.damaged - lines.first_damages.len() as u64;
        if untold != 0 {
            let _ = writeln!(text, "  and {untold} more");
        }
        if lines.lost != 0 {
            let _ = writeln!(text, "  the tracer lost {} events", lines.lost);
        }
        text
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, input) in self.inputs.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "\n" })?;
            write!(f, "{input}")?;
        }
        f.write_str(&spans::told(&self.inputs))?;
        if self.ok { writeln!(f, "\nEverything was free again, and whole") } else { Ok(()) }
    }
}

impl Display for InputReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = &self.events;
        f.write_str(&self.read.told())?;
        let (calls, cpus) = (self.calls, self.cpus);
        let purges = match self.purges {
            Purges::Own => "at thresholds",
            Purges::Trace => "as in the trace",
        };
        let replayed = events.replayed;
        writeln!(f, "  {replayed} events replayed as {calls} calls on {cpus} CPUs, purges {purges}")?;
        List("unmatched", &events.unmatched.causes()).fmt(f)?;
        List("ignored", &events.ignored.kinds()).fmt(f)?;
        let areas = [
            ("whose free is missing", events.missed_frees),
            ("pieces of cut ones", events.splits),
            ("live at the end", events.live_at_end),
        ];
        List("areas", &areas).fmt(f)?;
        table::write(f, &self.designs)
    }
}

/// Counts that are not zero, after a title.
struct List<'a>(&'a str, &'a [(&'a str, u64)]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = self.1.iter().filter(|(_, count)| *count != 0);
        let told: Vec<_> = there.map(|(name, count)| format!("{count} {name}")).collect();
        if told.is_empty() { Ok(()) } else { writeln!(f, "  {}: {}", self.0, told.join(", ")) }
    }
}
