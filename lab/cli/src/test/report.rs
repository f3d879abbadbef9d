//! The report of a run: the summary lines of Linux's driver, or JSON.

use super::params::Parameters;
use super::worker::{CaseRecord, Record};
use crate::machine::{Facts, Strategy};
use crate::output;
use serde::Serialize;
use std::fmt::{self, Display};
use vmalloc::Stats;
use vmalloc_lab::units::human_bytes;

/// All of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The parameters of the command line.
    pub(super) parameters: Parameters,
    /// The treatment of freed areas.
    pub(super) strategy: Strategy,
    /// The seed that gives the same orders and sizes again.
    pub(super) seed: u64,
    /// The machine.
    pub(super) machine: Facts,
    /// The most areas that a case may hold, where it would hold more if it could.
    pub(super) most_held: Option<u64>,
    /// The unit of cycles.
    pub(super) clock: &'static str,
    /// The workers.
    pub(super) workers: Vec<Record>,
    /// The space before, after, and after the purge at the end.
    pub(super) stats: Stages,
    /// The faults of the space after the run.
    pub(super) complaints: Vec<String>,
    /// True if all went well.
    pub(super) ok: bool,
}

/// The counts of the space before the run, after it, and after the purge at the end.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Stages {
    /// Before the run.
    pub(super) before: Stats,
    /// After it: what was freed may be lazy or cached.
    pub(super) after: Stats,
    /// After the purge: all is free again.
    pub(super) purged: Stats,
}

impl Report {
    /// Says on stderr what was held back and what went wrong.
    pub(super) fn warn(&self) {
        if let Some(most) = self.most_held {
            let reserved = human_bytes(self.machine.reserved_bytes as u64);
            output::note(&format!(
                "{reserved} of addresses, or vm.max_map_count where guard pages are mappings, \
                 let a case hold at most {most} areas"
            ));
        }
        for record in &self.workers {
            for case in &record.cases {
                if let Some(reason) = &case.first_failure {
                    output::note(&format!("worker {}: {}: {reason}", record.worker, case.name));
                }
            }
        }
        self.complaints.iter().for_each(|complaint| output::note(complaint));
    }
}

/// The report for people, and for parsers of Linux's lines.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameters { nr_threads, test_repeat_count, test_loop_count, run_test_mask, .. } =
            self.parameters;
        writeln!(
            f,
            "vmalloc test: seed={} strategy={} nr_threads={nr_threads} test_repeat_count={test_repeat_count} \
             test_loop_count={test_loop_count} run_test_mask={run_test_mask:#x} nodes={}",
            self.seed, self.strategy, self.machine.nodes
        )?;
        for record in &self.workers {
            record.cases.iter().try_for_each(|case| writeln!(f, "{case}"))?;
            writeln!(f, "All test took worker{}={} cycles", record.worker, record.cycles)?;
        }
        if self.complaints.is_empty() {
            let purged = &self.stats.purged;
            writeln!(
                f,
                "The space is whole again: {} pages free of {}",
                purged.free_pages, purged.span_pages
            )?;
        }
        Ok(())
    }
}

impl Display for CaseRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, passed, failed, xfailed, repeat, loops, avg_usec, .. } = self;
        write!(f, "Summary: {name} passed: {passed} failed: {failed} repeat: {repeat} loops: {loops}")?;
        write!(f, " avg: {avg_usec} usec")?;
        if *xfailed == 0 { Ok(()) } else { write!(f, " xfailed: {xfailed}") }
    }
}
