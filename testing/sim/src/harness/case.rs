//! An operation with its surroundings, walked by all kinds of steps, and a table of what became of
//! it.

use super::{Lasting, Simulated, Step, Walked, walk};
use std::borrow::Borrow;
use std::fmt;
use vmalloc::Space;

/// An operation, what comes before it, and what after.
pub struct Case {
    name: &'static str,
    walk: Box<dyn Fn(Step, Lasting) -> Walked>,
    meets: Vec<Step>,
}

impl Case {
    /// Returns a case. `setup` makes a space on a fresh machine, and a state with room for what
    /// `operation` makes; `release` frees everything, whether the operation was done or not. Each
    /// does the same every time.
    pub fn new<P, S, T, E>(
        name: &'static str,
        setup: impl Fn() -> (S, T) + 'static,
        operation: impl Fn(&Space<P>, &mut T) -> Result<(), E> + 'static,
        release: impl Fn(&Space<P>, T) + 'static,
    ) -> Self
    where
        P: Simulated,
        S: Borrow<Space<P>>,
        E: fmt::Debug,
    {
        let walk = move |step, lasting| walk(step, lasting, &setup, &operation, &release);
        Self { name, walk: Box::new(walk), meets: Vec::new() }
    }

    /// Kinds of steps of which the operation is known to have some.
    #[must_use]
    pub fn meets(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.meets.extend(steps);
        self
    }

    /// Lets it fail at every step of every kind.
    ///
    /// # Panics
    /// As [`walk`](super::walk()); and when it has no steps, or none of a kind that it is known to
    /// have.
    pub fn walk(&self) -> Tally {
        let name = self.name;
        let _context = Context(name);
        let rows = Step::all().map(|step| {
            let [once, onward] = [Lasting::Once, Lasting::Onward].map(|lasting| (self.walk)(step, lasting));
            (step, once, onward)
        });
        let tally = Tally { name, rows: rows.collect() };
        assert!(tally.total() > 0, "{name}: nothing that could fail");
        let missed: Vec<Step> = self.meets.iter().copied().filter(|&step| tally.failed(step) == 0).collect();
        assert!(missed.is_empty(), "it has no steps of the kinds {missed:?}; it has: {tally}");
        tally
    }
}

struct Context(&'static str);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the case: {}", self.0);
        }
    }
}

/// The results of an operation, by the kind of step that failed.
#[derive(Clone, Debug)]
pub struct Tally {
    name: &'static str,
    rows: Vec<(Step, Walked, Walked)>,
}

impl Tally {
    /// Returns how many steps of this kind were made to fail, each once.
    pub fn failed(&self, step: Step) -> u64 {
        self.rows.iter().filter(|row| row.0 == step).map(|row| row.1.failed).sum()
    }

    /// Returns how many steps of all kinds were made to fail.
    pub fn total(&self) -> u64 {
        self.rows.iter().map(|row| row.1.failed).sum()
    }

    /// Returns how many runs ended in an error, when one step failed.
    pub fn refused(&self) -> u64 {
        self.rows.iter().map(|row| row.1.refused).sum()
    }

    /// Returns how many runs ended in an error, when all steps failed from one on.
    pub fn refused_onward(&self) -> u64 {
        self.rows.iter().map(|row| row.2.refused).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, refused, onward) = (self.total(), self.refused(), self.refused_onward());
        write!(f, "{:32} {total:5} steps; refused {refused:4}, onward {onward:4}; ", self.name)?;
        let met = self.rows.iter().filter(|row| row.1.failed > 0);
        for (nth, (step, once, _)) in met.enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            write!(f, "{comma}{step} {}", once.failed)?;
        }
        Ok(())
    }
}
