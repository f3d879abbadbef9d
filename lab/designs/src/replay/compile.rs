//! From events to steps: which area each event means.

use super::live::{Area, Live};
use super::placed::Placed;
use super::script::{Deed, Script, Step};
use super::shapes::Shapes;
use super::tally::Tally;
use crate::trace::{Event, Kind};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use strum::{Display, EnumString, IntoStaticStr};
use vmalloc::PageRange;

/// CPUs that designs can have.
const MOST_CPUS: u32 = 128;
/// How far behind the base of a per-CPU chunk its areas may lie: 1 GiB. A chunk has some MiB a CPU.
const CHUNK_REACH: u64 = 1 << 18;

/// When designs purge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Purges {
    /// At their own thresholds.
    #[default]
    Own,
    /// When the trace says that it did, and at no threshold: else most purges would come twice, and
    /// pools decay twice as fast. It says so afterwards, so designs purge somewhat later than it
    /// did. Where the trace has no purge, as [`Own`](Self::Own).
    Trace,
}

/// Windows that do not overlap. Linux has two or three. Each is a design of its own: with 128 CPUs
/// half a megabyte, and time in every drain, for a line of the trace.
const MOST_WINDOWS: usize = 16;

/// A trace that would take more than its length explains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TooMuch {
    /// It has more areas than can be numbered.
    #[error("a trace of more than {} areas", u32::MAX)]
    Areas,
    /// Its areas lie in more windows than any kernel has.
    #[error("a trace of more than {MOST_WINDOWS} windows, each of which is replayed on its own")]
    Windows,
}

/// Compiles a trace, event by event.
#[derive(Debug, Default)]
pub struct Compiler {
    purges: Purges,
    /// Calls after which memory is short again; never, if 0.
    pressure: u64,
    steps: Vec<Step>,
    shapes: Shapes,
    live: Live,
    slots: u32,
    /// Bases of per-CPU chunks.
    chunks: BTreeSet<u64>,
    /// Ends of heaps, by task.
    breaks: HashMap<u32, u64>,
    busy: Busy,
    placed: Placed,
    /// The highest CPU.
    cpu: u32,
    tally: Tally,
}

/// Pages that are busy.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    now: u64,
    most: u64,
}

/// The result of compiling an event.
enum Disposition {
    Replayed,
    /// Unmatched or ignored, and counted as such.
    Counted,
}

impl Compiler {
    /// Begins a script.
    #[must_use]
    pub fn new(purges: Purges) -> Self {
        Self { purges, ..Self::default() }
    }

    /// Lets memory be short after every so many calls. No trace of allocations says when it was.
    #[must_use]
    pub fn pressure_every(mut self, calls: std::num::NonZeroU64) -> Self {
        self.pressure = calls.get();
        self
    }

    /// Compiles the next event.
    ///
    /// # Errors
    /// [`TooMuch`].
    pub fn push(&mut self, event: &Event) -> Result<(), TooMuch> {
        let cpu = event.cpu % MOST_CPUS;
        self.cpu = self.cpu.max(cpu);
        self.tally.events += 1;
        if let Disposition::Replayed = self.fate(event, cpu as u16)? {
            self.tally.replayed += 1;
        }
        Ok(())
    }

    /// Ends the script.
    #[must_use]
    pub fn finish(mut self) -> Script {
        let (windows, shapes) = self.shapes.settle(self.busy.most);
        let left: Vec<_> = self.live.into_areas().map(|area| (area.slot, area.shape)).collect();
        self.tally.live_at_end = left.len() as u64;
        self.steps.shrink_to_fit();
        let purges_by_steps = self.steps.iter().any(|step| step.deed == Deed::Purge);
        Script {
            steps: self.steps,
            shapes,
            placed: windows.iter().map(|window| self.placed.peak_span(window)).collect(),
            windows,
            slots: self.slots,
            left,
            cpus: self.cpu as usize + 1,
            purges_by_steps,
            tally: self.tally,
        }
    }

    fn fate(&mut self, event: &Event, cpu: u16) -> Result<Disposition, TooMuch> {
        match event.kind {
            Kind::Alloc { start, pages, align, within } => {
                self.free_missed(cpu, &(start..start + pages));
                self.alloc(cpu, start..start + pages, align, within)?;
                if let Some(within) = within {
                    self.placed.see(within, &self.live);
                    if self.placed.windows() > MOST_WINDOWS {
                        return Err(TooMuch::Windows);
                    }
                }
            }
            Kind::Free { start } => return Ok(self.free_at(cpu, start)),
            Kind::Purge { .. } if self.purges == Purges::Trace => self.step(cpu, Deed::Purge),
            Kind::Map { start, pages } => self.map(cpu, start..start + pages)?,
            Kind::Unmap { start, pages } => {
                if self.cut(cpu, start..start + pages)? == 0 {
                    self.tally.unmatched.unmap_unknown += 1;
                    return Ok(Disposition::Counted);
                }
            }
            Kind::Remap { from, from_pages, to, to_pages } => {
                self.cut(cpu, from..from + from_pages)?;
                self.map(cpu, to..to + to_pages)?;
            }
            Kind::Break { end } => return self.move_break(cpu, event.task, end),
            kind => return Ok(self.ignore(event.task, kind)),
        }
        Ok(Disposition::Replayed)
    }

    fn ignore(&mut self, task: u32, kind: Kind) -> Disposition {
        let ignored = &mut self.tally.ignored;
        *match kind {
            Kind::Purge { .. } => &mut ignored.purges,
            Kind::ChunkMade { base } | Kind::ChunkGone { base } => {
                self.chunks.insert(base);
                &mut ignored.chunks
            }
            Kind::BreakIs { end } => {
                self.breaks.insert(task, end);
                &mut ignored.queries
            }
            Kind::Protect { .. } => &mut ignored.protections,
            _ => &mut ignored.failed,
        } += 1;
        Disposition::Counted
    }

    fn free_at(&mut self, cpu: u16, start: u64) -> Disposition {
        if let Some(area) = self.live.take(start) {
            self.free(cpu, area);
            return Disposition::Replayed;
        }
        let chunk = self.chunks.range(..=start).next_back();
        let percpu = chunk.is_some_and(|base| start - base < CHUNK_REACH);
        let unmatched = &mut self.tally.unmatched;
        *if percpu { &mut unmatched.free_percpu } else { &mut unmatched.free_unknown } += 1;
        Disposition::Counted
    }

    /// Areas that are in the way of a new one were freed, and the trace does not say when.
    fn free_missed(&mut self, cpu: u16, pages: &Range<u64>) {
        while let Some(area) = self.live.take_in(pages) {
            self.free(cpu, area);
            self.tally.missed_frees += 1;
        }
    }

    fn map(&mut self, cpu: u16, pages: Range<u64>) -> Result<(), TooMuch> {
        self.cut(cpu, pages.clone())?;
        self.alloc(cpu, pages, 1, None)
    }

    /// Takes these pages from all areas; how many had some of them. What is left of those is
    /// allocated again.
    fn cut(&mut self, cpu: u16, pages: Range<u64>) -> Result<u64, TooMuch> {
        let mut areas = Vec::new();
        while let Some(area) = self.live.take_in(&pages) {
            self.free(cpu, area);
            areas.push(area);
        }
        for area in &areas {
            for rest in [area.start..pages.start, pages.end..area.end] {
                if !rest.is_empty() {
                    self.alloc(cpu, rest, 1, None)?;
                    self.tally.splits += 1;
                }
            }
        }
        Ok(areas.len() as u64)
    }

    fn move_break(&mut self, cpu: u16, task: u32, end: u64) -> Result<Disposition, TooMuch> {
        match self.breaks.insert(task, end) {
            None => {
                self.tally.unmatched.break_unknown += 1;
                return Ok(Disposition::Counted);
            }
            Some(before) if before < end => self.map(cpu, before..end)?,
            Some(before) => {
                self.cut(cpu, end..before)?;
            }
        }
        Ok(Disposition::Replayed)
    }

    fn alloc(
        &mut self,
        cpu: u16,
        pages: Range<u64>,
        align: u64,
        within: Option<PageRange>,
    ) -> Result<(), TooMuch> {
        let slot = self.slots;
        self.slots = slot.checked_add(1).ok_or(TooMuch::Areas)?;
        let count = pages.end - pages.start;
        let shape = self.shapes.number(count, align, within);
        self.live.put(Area { start: pages.start, end: pages.end, slot, shape });
        self.busy.now += count;
        self.busy.most = self.busy.most.max(self.busy.now);
        self.step(cpu, Deed::Alloc { slot, shape });
        Ok(())
    }

    fn free(&mut self, cpu: u16, area: Area) {
        self.busy.now -= area.end - area.start;
        self.step(cpu, Deed::Free { slot: area.slot, shape: area.shape });
    }

    fn step(&mut self, cpu: u16, deed: Deed) {
        self.steps.push(Step { cpu, deed });
        let calls = self.steps.len() as u64;
        // The step that this adds is one of them.
        if self.pressure != 0 && calls % self.pressure.saturating_add(1) == self.pressure {
            self.steps.push(Step { cpu, deed: Deed::Relieve });
        }
    }
}
