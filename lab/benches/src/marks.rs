//! Pass marks: what a number of threads has to reach, where there are CPUs enough to judge it.

use crate::scene::Scene;
use crate::threads::{Row, Workload};
use std::fmt;

/// The number that is compared with the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// The ratio to the first number of threads: at least so much.
    Ratio,
    /// Hundredths of locks that were waited for: at most so many.
    Waited,
}

/// A pass mark.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mark {
    /// In which scene.
    pub scene: Scene,
    /// Of so many threads.
    pub threads: usize,
    /// Of CPUs, to be judged at all.
    pub cpus: usize,
    /// The number that is compared.
    pub measure: Measure,
    /// The mark.
    pub mark: f64,
}

impl Mark {
    /// The marks of a plan for the cores of a machine: threads with a CPU each.
    pub const CORES: [Self; 4] = [
        Self::ratio(Scene::W1, 16, 16, 14.0),
        Self::ratio(Scene::W5, 16, 16, 8.0),
        Self::ratio(Scene::W5, 2, 2, 1.6),
        Self { scene: Scene::W5, threads: 2, cpus: 2, measure: Measure::Waited, mark: 1.0 },
    ];

    /// The mark of many threads against as many as there are CPUs.
    #[must_use]
    pub const fn crowd(scene: Scene, threads: usize) -> Self {
        Self::ratio(scene, threads, 2, 0.95)
    }

    const fn ratio(scene: Scene, threads: usize, cpus: usize, mark: f64) -> Self {
        Self { scene, threads, cpus, measure: Measure::Ratio, mark }
    }

    /// Judges the rows of one scene, measured on a machine with so many CPUs: the number, and
    /// whether it reaches the mark. `None` if that takes more CPUs, or so many threads were not
    /// run.
    #[must_use]
    pub fn judge(&self, rows: &[Row], cpus: usize) -> Option<(f64, bool)> {
        let key = (Workload::Own, self.scene, self.threads);
        let row = rows.iter().find(|row| (row.workload, row.scene, row.threads) == key)?;
        (cpus >= self.cpus).then_some(match self.measure {
            Measure::Ratio => (row.ratio, row.ratio >= self.mark),
            Measure::Waited => (row.waited_percent, row.waited_percent <= self.mark),
        })
    }

    /// Tells the outcome in one line.
    #[must_use]
    pub fn told(&self, rows: &[Row], cpus: usize) -> String {
        let outcome = match self.judge(rows, cpus) {
            Some((value, true)) => format!("pass ({value:.2})"),
            Some((value, false)) => format!("MISS ({value:.2})"),
            None if cpus < self.cpus => format!("not judged ({cpus} CPUs of {})", self.cpus),
            None => "not judged (not run)".to_owned(),
        };
        format!("{self}: {outcome}")
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scene, threads, mark, .. } = self;
        match self.measure {
            Measure::Ratio => write!(f, "mark: {scene:?}, {threads} threads ≥ {mark} ×"),
            Measure::Waited => write!(f, "mark: {scene:?}, {threads} threads, waited locks ≤ {mark} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Drain;

    fn row(threads: usize, ratio: f64) -> Row {
        Row {
            scene: Scene::W1,
            workload: Workload::Own,
            drain: Drain::Callers,
            threads,
            mpairs_per_s: 1.0,
            range: [1.0; 2],
            ratio,
            locks_per_pair: 2.0,
            waited_percent: ratio,
        }
    }

    #[test]
    fn marks_are_judged_where_there_are_cpus_enough() {
        let mark = Mark::CORES[0];
        let rows = [row(1, 1.0), row(16, 14.0)];
        assert_eq!(mark.judge(&rows, 16), Some((14.0, true)));
        assert_eq!(mark.judge(&[row(16, 13.9)], 64), Some((13.9, false)));
        assert_eq!((mark.judge(&rows, 8), mark.judge(&rows[..1], 16)), (None, None));
        assert_eq!(Mark { scene: Scene::W5, ..mark }.judge(&rows, 16), None);
        assert!(mark.told(&rows, 2).ends_with("not judged (2 CPUs of 16)"));
        assert!(mark.told(&rows, 16).ends_with("pass (14.00)"));
    }

    #[test]
    fn waited_locks_have_a_ceiling() {
        let mark = Mark { scene: Scene::W1, ..Mark::CORES[3] };
        assert_eq!(mark.judge(&[row(2, 0.9)], 2), Some((0.9, true)));
        assert_eq!(mark.judge(&[row(2, 1.1)], 2), Some((1.1, false)));
    }
}
