//! What the machine is told to measure, and what it says.

use crate::bounds::Bounds;
use crate::kernel::Machine;
use anyhow::{Result, bail, ensure};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Linux first: the others are compared with it.
const DESIGNS: [&str; 3] = ["linux", "plain", "lazy"];
/// The cases of the suite, by their bits: those that call what the module replaces.
const CASES: &str = "1 2 4 8 16 32 1024";
/// The case of requests that must not wait, which the suite has since Linux 7. Those of `plain` may.
const NO_BLOCK: &str = "2048";
const CASES_OF_TWO: &str = "1 8 16 32";
/// How far the first and the last figure of a design may be apart, as a part of them.
const APART: f64 = 0.02;
/// Of a load and unload, KiB of memory that the kernel may keep: it fills its own caches too.
const KEPT_KIB: f64 = 8.0;
/// Words of a kernel that is in trouble.
const TROUBLE: [&str; 6] = ["FAILED", "WARNING: ", "BUG: ", "Oops", "Kernel panic", "Call Trace"];

/// What is not the same on both sides.
const UNEQUAL: &str = "\
Not equal, for us: our code has no return thunks, indirect-branch thunks and landing pads (mitigations=off takes the
  first two out of Linux as well); no accounting of pages to control groups, no hooks of kmemleak and KASAN, no memory
  policy, no line of /proc/vmallocinfo for an area (its record is kept, and nobody prints it).
Not equal, against us: calls of the kernel from Rust are no inline functions.
`lazy` gives pages back after the flush of many areas, Linux before it: pages stay longer, and never too short.
The figures of 2 CPUs count what a waiting CPU spins, and an emulated CPU waits while the other one has its turn.
";

/// Returns the commands for a machine with one CPU.
pub(super) fn one_cpu(loads: usize) -> String {
    format!(
        "bench pairs\n\
        for pass in 1 2; do\n\
        for mask in {CASES}; do for design in linux plain lazy; do suite $design $mask 2000 1; done; done\n\
        for design in linux plain lazy; do suite $design 63 2000 1; done\n\
        for design in linux lazy; do suite $design {NO_BLOCK} 2000 1; done\n\
        done\n\
        bench contexts\nrmmod vm\nload=-10\n\
        while [ $load -lt {loads} ]; do\n\
        [ $load = 0 ] && memory\n\
        insmod /vm.ko && bench some && rmmod vm\n\
        load=$((load + 1))\n\
        done\n\
        memory\ninsmod /vm.ko\n"
    )
}

/// Returns the commands for a machine with two.
pub(super) fn two_cpus() -> String {
    format!(
        "bench threads\n\
        for pass in 1 2; do for mask in {CASES_OF_TWO}; do for design in linux plain lazy; do\n\
        suite $design $mask 500 2\ndone; done; done\n"
    )
}

/// A line of the table: what each design took, in the order in which it was measured.
struct Row {
    name: String,
    taken: [Vec<f64>; DESIGNS.len()],
}

impl Row {
    /// Returns the mean of a design's figures.
    fn mean(&self, design: usize) -> Option<f64> {
        let taken = &self.taken[design];
        (!taken.is_empty()).then(|| taken.iter().sum::<f64>() / taken.len() as f64)
    }

    /// Returns how many times as long Linux takes.
    fn gain(&self, design: usize) -> Option<f64> {
        Some(self.mean(0)? / self.mean(design)?)
    }

    /// Returns how far a design's figures are apart, as a part of their mean.
    fn apart(&self, design: usize) -> Option<f64> {
        let most = self.taken[design].iter().copied().reduce(f64::max)?;
        let least = self.taken[design].iter().copied().reduce(f64::min)?;
        Some((most - least) / self.mean(design)?)
    }
}

/// What the machines have said.
#[derive(Default)]
pub(super) struct Figures {
    rows: Vec<Row>,
    /// Of the suite that runs: its design, and what its cases took, in thousands.
    suite: Option<(usize, Vec<(String, f64)>)>,
    /// Lines of /proc/vmallocinfo, and free KiB.
    memory: Vec<(f64, f64)>,
    closed: usize,
    is_over: bool,
    trouble: Vec<String>,
}

impl Figures {
    /// Listens to a machine until it is off. What it says goes to a file as well.
    pub(super) fn heard(machine: &Machine, cpus: usize, console: &Path) -> Result<Self> {
        let mut figures = Self::default();
        let mut console = File::create(console)?;
        while let Some(line) = machine.line()? {
            writeln!(console, "{line}")?;
            figures.hear(&line, cpus);
        }
        Ok(figures)
    }

    /// Adds those of another boot.
    pub(super) fn add_all(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.memory.extend(other.memory);
        self.trouble.extend(other.trouble);
        self.closed += other.closed;
    }

    /// Returns true if a CPU stopped for a debugger, which there is none of: behind a `cmpxchg16b` QEMU 7.2 may leave an
    /// address where the flags belong.
    pub(super) fn is_emulator_at_fault(&self) -> bool {
        self.trouble.iter().any(|line| line.contains("exc_debug"))
    }

    /// Refuses a boot that ended early.
    pub(super) fn ensure_over(&self, console: &Path) -> Result<()> {
        let trouble = self.trouble.join("\n");
        ensure!(self.is_over, "the machine ended early: see {}\n{trouble}", console.display());
        Ok(())
    }

    /// Takes in a line of the console.
    fn hear(&mut self, line: &str, cpus: usize) {
        self.is_over |= line.ends_with("== over");
        if let Some((_, design)) = line.split_once("== suite ") {
            self.suite = place(design).map(|design| (design, Vec::new()));
        } else if let Some((_, words)) = line.split_once("== memory ") {
            let mut numbers = words.split(' ').filter_map(|word| word.parse().ok());
            if let (Some(lines), Some(free)) = (numbers.next(), numbers.next()) {
                self.memory.push((lines, free));
            }
        } else if let Some((_, case)) = line.split_once("Summary: ") {
            self.case(case);
        } else if let Some((_, row)) = line.split_once("ROW ") {
            self.row(row, cpus);
        } else if line.ends_with("closed, wrong 0") {
            self.closed += 1;
        } else if line.contains("closed, wrong") || TROUBLE.iter().any(|word| line.contains(word)) {
            self.trouble.push(line.to_owned());
        }
    }

    /// Takes in what the suite says of a case: `fix_size_alloc_test passed: 1 failed: 0 … avg: 7747 usec`.
    fn case(&mut self, said: &str) {
        let behind = |word| said.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next());
        if behind(" failed: ") != Some("0") {
            self.trouble.push(said.to_owned());
        }
        let name = said.split(' ').next().unwrap_or_default();
        let name = name.trim_end_matches("_test").trim_end_matches("_alloc");
        let micros = behind("avg: ").and_then(|micros| micros.parse().ok());
        if let (Some((_, cases)), Some(micros)) = (&mut self.suite, micros) {
            cases.push((name.to_owned(), micros));
        }
    }

    /// Takes in a row of the module: `plain|pair of 1|3203`.
    fn row(&mut self, said: &str, cpus: usize) {
        let mut parts = said.split('|');
        let (Some(design), Some(name), Some(Ok(taken))) =
            (parts.next(), parts.next(), parts.next().map(str::parse::<f64>))
        else {
            return self.trouble.push(said.to_owned());
        };
        let (design, before) = match design.strip_suffix(" addresses") {
            Some(design) => (design, "addresses alone: "),
            None => (design, ""),
        };
        let Some(design) = place(design) else { return };
        match (name, self.suite.take()) {
            ("warm", _) => {}
            ("flush", Some((of, cases))) if of == design => self.end_suite(design, &cases, taken, cpus),
            _ => self.add(format!("{before}{name}"), design, taken),
        }
    }

    /// Takes in a run of the suite, whose flush took some nanoseconds. Each case ran several times.
    fn end_suite(&mut self, design: usize, cases: &[(String, f64)], flush: f64, cpus: usize) {
        let Some((first, _)) = cases.first() else { return };
        let runs = cases.iter().filter(|(name, _)| name == first).count() as f64;
        let sum: f64 = cases.iter().map(|(_, micros)| micros).sum();
        let name =
            if cases.iter().all(|(name, _)| name == first) { first } else { "all but vm_map_ram in a row" };
        let workers = if cpus == 1 { "" } else { ", 2 workers" };
        self.add(format!("test_vmalloc: {name}{workers}"), design, (sum + flush / 1000.0) / runs);
    }

    fn add(&mut self, name: String, design: usize, taken: f64) {
        let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name, taken: Default::default() });
            self.rows.len() - 1
        });
        self.rows[place].taken[design].push(taken);
    }

    /// Returns the table, and what is to be known about it.
    pub(super) fn table(&self, release: &str) -> String {
        let number =
            |number: Option<f64>| number.map_or_else(|| "–".to_owned(), |number| format!("{number:.0}"));
        let gain = |gain: Option<f64>| gain.map_or_else(|| "–".to_owned(), |gain| format!("{gain:.2}"));
        let mut text = format!(
            "Linux {release}, instructions (test_vmalloc: thousands), and Linux : ours\n\
            | | Linux | plain | × | lazy | × |\n|---|---|---|---|---|---|\n"
        );
        for row in &self.rows {
            let [linux, plain, lazy] = [0, 1, 2].map(|design| number(row.mean(design)));
            let [plain_gain, lazy_gain] = [1, 2].map(|design| gain(row.gain(design)));
            text += &format!("| {} | {linux} | {plain} | {plain_gain} | {lazy} | {lazy_gain} |\n", row.name);
        }
        text += &format!("\n{UNEQUAL}");
        for row in &self.rows {
            for (design, name) in DESIGNS.iter().enumerate() {
                if let Some(apart) = row.apart(design).filter(|&apart| apart > APART) {
                    text += &format!(
                        "First and last are {:.0} % apart: {}, {name}: {:.0?}\n",
                        apart * 100.0,
                        row.name,
                        row.taken[design]
                    );
                }
            }
        }
        if let [before, after] = self.memory[..] {
            text += &format!(
                "Loads and unloads: /proc/vmallocinfo {} lines before, {} after; free memory {} and {} KiB\n",
                before.0, after.0, before.1, after.1
            );
        }
        text
    }

    /// Refuses a run that lost something, or in which the kernel complained.
    pub(super) fn ensure_clean(&self, loads: usize) -> Result<()> {
        ensure!(self.trouble.is_empty(), "the kernel said:\n{}", self.trouble.join("\n"));
        ensure!(self.closed >= loads, "{} loads ended well, of {loads}", self.closed);
        let [before, after] = self.memory[..] else {
            bail!("memory was looked at {} times", self.memory.len())
        };
        ensure!(after.0 <= before.0, "/proc/vmallocinfo has {} lines, and had {}", after.0, before.0);
        let kept = (before.1 - after.1) / loads as f64;
        ensure!(kept <= KEPT_KIB, "a load and unload keeps {kept} KiB");
        Ok(())
    }

    /// Returns what is below its bar.
    pub(super) fn below(&self, bars: &Bounds, version: &str) -> Vec<String> {
        let mut below = Vec::new();
        for (design, name) in DESIGNS.iter().enumerate().skip(1) {
            for bar in bars.names(&[version, name]) {
                let gain = self.rows.iter().find(|row| row.name == bar).and_then(|row| row.gain(design));
                let least = bars.get(&[version, name, &bar]);
                if gain.is_none() || gain < least {
                    below.push(format!("{name}, {bar}: {gain:.2?}, and its bar is {least:.2?}"));
                }
            }
        }
        below
    }
}

/// Returns the place of a design by its name.
fn place(name: &str) -> Option<usize> {
    DESIGNS.iter().position(|&design| design == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
        [   62.9] vm: ROW linux|warm|6459\n\
        [   62.9] vm: ROW linux|pair of 1|4400\n[   63.9] vm: ROW plain|pair of 1|2200\n\
        [   62.9] vm: ROW linux|pair of 1|4600\n[   63.9] vm: ROW plain|pair of 1|2200\n\
        [   65.9] vm: ROW plain addresses|pair of 1|3366\n\
        == suite lazy\n\
        [   70.7] Summary: fix_size_alloc_test passed: 1 failed: 0 repeat: 1 loops: 2000 avg: 30 usec\n\
        [   70.7] Summary: fix_size_alloc_test passed: 1 failed: 0 xfailed: 0 repeat: 1 loops: 2000 avg: 50 usec\n\
        [   70.8] vm: ROW lazy|flush|4000\n\
        == memory 70 1000\n== memory 70 900\n[   75.7] vm: closed, wrong 0\n== over\n";

    fn heard(said: &str) -> Figures {
        let mut figures = Figures::default();
        said.lines().for_each(|line| figures.hear(line, 1));
        figures
    }

    #[test]
    fn figures_are_means_and_gains_compare_with_linux() {
        let figures = heard(SAID);
        let row = |name: &str| figures.rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row("pair of 1").gain(1), Some(4500.0 / 2200.0));
        assert_eq!(row("addresses alone: pair of 1").mean(1), Some(3366.0));
        assert_eq!(row("test_vmalloc: fix_size").mean(2), Some(42.0));
        assert!(
            figures.table("6.12").contains("First and last are 4 % apart: pair of 1, linux: [4400, 4600]")
        );
        assert!(figures.ensure_clean(1).is_err(), "100 KiB are gone");
        assert!(figures.ensure_clean(20).is_err(), "one load ended");
    }

    #[test]
    fn trouble_and_figures_below_their_bars_are_told() {
        let bars = "[\"6.12\".plain]\n\"pair of 1\" = 2.1\n\"pair of 3\" = 1\n[\"6.12\".lazy]\n";
        let below = heard(SAID).below(&Bounds::parse("", bars).unwrap(), "6.12");
        assert_eq!(below.len(), 2);
        let failed = SAID.replace("failed: 0", "failed: 1").replace("900", "1000");
        assert!(heard(&failed).ensure_clean(1).is_err());
        assert!(heard(&SAID.replace("wrong 0", "wrong 2").replace("900", "1000")).ensure_clean(0).is_err());
        heard(&SAID.replace("900", "1000")).ensure_clean(1).unwrap();
    }
}
