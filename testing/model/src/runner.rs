//! Runs whole programs: a given list of operations, or as many as a generator makes.

use crate::failure::Failure;
use crate::generator::Generator;
use crate::map::Map;
use crate::mismatch::Mismatch;
use crate::op::Op;
use crate::profile::Profile;
use crate::session::{Checks, Session, Tally};
use crate::source::{Seeded, Source};

/// Runs `ops` on `map`, then frees everything.
///
/// # Errors
/// The index of the operation that went wrong (their number, when it was the end), and what did.
pub fn run<M: Map>(map: M, ops: &[Op], checks: Checks) -> Result<Tally, (usize, Mismatch)> {
    let mut session = Session::new(map, checks);
    for (index, op) in ops.iter().enumerate() {
        session.step(op).map_err(|mismatch| (index, mismatch))?;
    }
    session.finish().map(|(_, tally)| tally).map_err(|mismatch| (ops.len(), mismatch))
}

/// Runs generated programs on maps that it makes as needed: again and again, when it shrinks a
/// failure.
#[derive(Clone, Debug)]
pub struct Runner<F> {
    make: F,
    checks: Checks,
}

impl<M: Map, F: Fn() -> M> Runner<F> {
    /// Tests what `make` makes: an empty map over the span of the profiles that will be run.
    pub const fn new(make: F, checks: Checks) -> Self {
        Self { make, checks }
    }

    /// Runs `count` operations of `profile` from `seed`.
    ///
    /// # Errors
    /// The shrunk program that shows the difference.
    pub fn seeded(&self, profile: Profile, seed: u64, count: usize) -> Result<Tally, Failure> {
        let generator = Generator::new(profile, Seeded::new(seed));
        self.generated(generator, count).map_err(|failure| failure.with_seed(seed))
    }

    /// Runs up to `count` operations of `generator`.
    ///
    /// # Errors
    /// The shrunk program that shows the difference.
    pub fn generated<S: Source>(&self, mut generator: Generator<S>, count: usize) -> Result<Tally, Failure> {
        let mut session = Session::new((self.make)(), self.checks);
        let mut ops = Vec::new();
        while ops.len() < count
            && let Some(op) = generator.next(session.live())
        {
            ops.push(op);
            if let Err(mismatch) = session.step(&op) {
                return Err(self.shrunk(&generator, ops, mismatch));
            }
        }
        match session.finish() {
            Ok((_, tally)) => Ok(tally),
            Err(mismatch) => Err(self.shrunk(&generator, ops, mismatch)),
        }
    }

    fn shrunk<S: Source>(&self, generator: &Generator<S>, ops: Vec<Op>, mismatch: Mismatch) -> Failure {
        let rerun = |ops: &[Op]| run((self.make)(), ops, self.checks).err();
        Failure::new(generator.profile().name, ops, mismatch).shrink(rerun)
    }
}
