//! The CPUs that threads run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where threads run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Where the system lets them.
    #[default]
    Anywhere,
    /// Each on one CPU, in the order of their numbers; beyond the last from the first on.
    Pinned,
}

impl Placement {
    /// Puts this thread in its place. Where the system refuses, it stays where it is.
    pub fn place(self, number: usize) {
        let cpus = match self {
            Self::Anywhere => return,
            Self::Pinned => allowed(),
        };
        if let Some(&cpu) = cpus.get(number % cpus.len().max(1)) {
            let mut set = CpuSet::new();
            set.set(cpu);
            // A hint: what is measured is told beside how many CPUs there are.
            let _ = sched_setaffinity(None, &set);
        }
    }
}

/// Returns the numbers of the CPUs that this thread may use.
#[must_use]
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Returns 1, 2, 4, … and `cpus` itself.
#[must_use]
pub fn doubling(cpus: usize) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..).map(|power| 1 << power).take_while(|&number| number < cpus).collect();
    numbers.push(cpus);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_threads_take_the_cpus_in_turn() {
        let cpus = allowed();
        for number in 0..2 * cpus.len() {
            let placed = std::thread::spawn(move || {
                Placement::Pinned.place(number);
                allowed()
            });
            assert_eq!(placed.join().expect("no panic"), [cpus[number % cpus.len()]]);
        }
        Placement::Anywhere.place(0);
        assert_eq!(allowed(), cpus);
    }

    #[test]
    fn numbers_double_up_to_the_cpus() {
        assert_eq!(doubling(1), [1]);
        assert_eq!(doubling(2), [1, 2]);
        assert_eq!(doubling(12), [1, 2, 4, 8, 12]);
        assert_eq!(doubling(16), [1, 2, 4, 8, 16]);
    }
}
