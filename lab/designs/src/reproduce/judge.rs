//! When a claim about times holds, does not hold, or can't be judged.
//!
//! Both designs are measured in turn, some times each. A sample is *disturbed* if other programs
//! took much of the CPUs meanwhile.
//!
//! * `J1` Times of a thread's own are compared by their middle, disturbed or not: others don't
//!   count in them. Times by the clock on the wall, and waits for threads that may not have run,
//!   are compared by the middle of undisturbed samples.
//! * `J2` A claim also holds if the worst sample of the newer design beats the best of the older
//!   one by as much as it has to: then no choice of samples would say otherwise.
//! * `J3` A claim is refuted by [`FEW`] undisturbed samples of each design at least. These must
//!   agree with each other, within [`NOISE`], or be too bad in every combination.
//! * `J4` Else the machine is too busy to judge. That is no failure, and no success.

use super::Verdict;
use std::time::{Duration, Instant};

/// Samples that refute a claim: with three the middle is not the worst.
const FEW: usize = 3;
/// How much longer a repeated measurement may take on a machine that can judge.
const NOISE: f64 = 1.25;

/// Something measured once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    /// Others took much of the CPUs meanwhile.
    pub(crate) disturbed: bool,
}

/// The clock of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clock {
    /// The time that a thread ran.
    Own,
    /// The time that passed, or what threads did to each other.
    Wall,
}

/// How samples are compared.
pub(crate) struct Rule<'a> {
    pub(crate) clock: Clock,
    /// The number that stands for many.
    pub(crate) middle: fn(&[f64]) -> f64,
    /// The gain from one value to another: more, if the first is more or the second less.
    pub(crate) gain: &'a dyn Fn(f64, f64) -> f64,
    /// The least gain.
    pub(crate) bar: f64,
}

impl Rule<'_> {
    /// Returns the values that are compared, before and after.
    pub(crate) fn middles(&self, before: &[Sample], after: &[Sample]) -> [f64; 2] {
        let judged = self.judged(before, after);
        judged.map(|values| (self.middle)(&values))
    }

    /// Judges samples of both designs, of each at least one.
    pub(crate) fn judge(&self, before: &[Sample], after: &[Sample]) -> Verdict {
        let reaches = |[before, after]: [f64; 2]| (self.gain)(before, after) >= self.bar;
        let calm =
            self.clock == Clock::Own || [before, after].iter().all(|samples| !quiet(samples).is_empty());
        let (all_before, all_after) = (values(before), values(after));
        let worst = [least(&all_before), most(&all_after)];
        if calm && reaches(self.middles(before, after)) || reaches(worst) {
            return Verdict::Reproduced;
        }
        let quiet = [quiet(before), quiet(after)];
        let best = [most(&quiet[0]), least(&quiet[1])];
        let agree = || quiet.iter().all(|values| most(values) <= NOISE * least(values));
        let refuted = quiet.iter().all(|values| values.len() >= FEW) && (!reaches(best) || agree());
        if refuted { Verdict::NotReproduced } else { Verdict::TooBusy }
    }

    /// `J1`: all values, or the undisturbed ones if there are some of both.
    fn judged(&self, before: &[Sample], after: &[Sample]) -> [Vec<f64>; 2] {
        let quiet = [quiet(before), quiet(after)];
        let some = quiet.iter().all(|values| !values.is_empty());
        if self.clock == Clock::Wall && some { quiet } else { [values(before), values(after)] }
    }
}

/// How often a figure is measured again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Rounds in any case.
    pub(super) least: usize,
    /// Rounds at most.
    pub(super) most: usize,
    /// The time that all rounds may have taken when another one begins. On a busy machine rounds
    /// take longer, and more of them say no more.
    pub(super) time: Duration,
}

impl Patience {
    /// Does rounds until there are enough to decide.
    pub(super) fn rounds<T>(
        &self,
        mut round: impl FnMut() -> T,
        is_decided: impl Fn(&[T]) -> bool,
    ) -> Vec<T> {
        let (began, mut all) = (Instant::now(), Vec::new());
        let may_go_on = |rounds: usize| rounds < self.most && began.elapsed() < self.time;
        while all.len() < self.least || may_go_on(all.len()) && !is_decided(&all) {
            all.push(round());
        }
        all
    }
}

fn values(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.value).collect()
}

fn quiet(samples: &[Sample]) -> Vec<f64> {
    samples.iter().filter(|sample| !sample.disturbed).map(|sample| sample.value).collect()
}

pub(super) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    const QUIET: bool = false;
    const DISTURBED: bool = true;

    fn samples(disturbed: bool, values: &[f64]) -> Vec<Sample> {
        values.iter().map(|&value| Sample { value, disturbed }).collect()
    }

    fn judged(clock: Clock, before: &[Sample], after: &[Sample]) -> Verdict {
        Rule { clock, middle: median, gain: &|before, after| before / after, bar: 4.0 }.judge(before, after)
    }

    #[test]
    fn quiet_samples_decide_by_their_middle() {
        let before = samples(QUIET, &[8.0, 8.1, 40.0]);
        for clock in [Clock::Own, Clock::Wall] {
            assert_eq!(judged(clock, &before, &samples(QUIET, &[2.0, 1.9, 9.0])), Verdict::Reproduced);
            assert_eq!(
                judged(clock, &samples(QUIET, &[8.0, 8.1, 8.2]), &samples(QUIET, &[2.2, 2.3, 2.1])),
                Verdict::NotReproduced
            );
        }
    }

    #[test]
    fn a_claim_that_fails_in_every_combination_is_refuted_however_noisy_it_is() {
        let (before, after) = (samples(QUIET, &[1.0, 2.0, 4.0]), samples(QUIET, &[3.0, 2.0, 1.5]));
        assert_eq!(judged(Clock::Wall, &before, &after), Verdict::NotReproduced);
    }

    #[test]
    fn the_same_thing_measured_again_must_be_the_same_to_refute() {
        // The middles fail; some combinations would not.
        let (before, after) = (samples(QUIET, &[4.0, 4.0, 9.0]), samples(QUIET, &[2.0, 2.0, 2.0]));
        assert_eq!(judged(Clock::Wall, &before, &after), Verdict::TooBusy);
        assert_eq!(judged(Clock::Own, &before, &after), Verdict::TooBusy);
    }

    #[test]
    fn few_samples_refute_nothing() {
        let (before, after) = (samples(QUIET, &[4.0, 4.0]), samples(QUIET, &[2.0, 2.0]));
        assert_eq!(judged(Clock::Wall, &before, &after), Verdict::TooBusy);
        assert_eq!(judged(Clock::Wall, &before[..1], &samples(QUIET, &[1.0])), Verdict::Reproduced);
    }

    #[test]
    fn disturbed_samples_refute_nothing_and_reproduce_only_in_every_combination() {
        let before = samples(DISTURBED, &[8.0, 9.0, 8.5]);
        let fails = samples(DISTURBED, &[7.0, 7.1, 7.2]);
        assert_eq!(
            [Clock::Own, Clock::Wall].map(|clock| judged(clock, &before, &fails)),
            [Verdict::TooBusy; 2]
        );
        let mixed = samples(DISTURBED, &[1.0, 1.0, 2.5]);
        // Others don't count in the time of a thread's own, so the middle stands.
        assert_eq!(judged(Clock::Own, &before, &mixed), Verdict::Reproduced);
        assert_eq!(judged(Clock::Wall, &before, &mixed), Verdict::TooBusy);
        let clear = samples(DISTURBED, &[1.0, 1.0, 2.0]);
        assert_eq!(judged(Clock::Wall, &before, &clear), Verdict::Reproduced);
    }

    #[test]
    fn disturbed_samples_beside_quiet_ones_do_not_count() {
        let with = |mut quiet: Vec<Sample>, disturbed: &[f64]| {
            quiet.extend(samples(DISTURBED, disturbed));
            quiet
        };
        let before = with(samples(QUIET, &[8.0; 3]), &[100.0, 200.0]);
        assert_eq!(
            judged(Clock::Wall, &before, &with(samples(QUIET, &[3.0; 3]), &[1.0])),
            Verdict::NotReproduced
        );
        assert_eq!(
            judged(Clock::Wall, &before, &with(samples(QUIET, &[1.0; 3]), &[99.0])),
            Verdict::Reproduced
        );
        let rule = Rule { clock: Clock::Wall, middle: median, gain: &|_, _| 0.0, bar: 1.0 };
        assert_eq!(rule.middles(&before, &with(samples(QUIET, &[1.0]), &[99.0])), [8.0, 1.0]);
    }

    #[test]
    fn rounds_end_when_they_decide_or_take_too_long() {
        let count = |decided: usize, time| {
            let mut nth = 0;
            let round = || {
                nth += 1;
                nth
            };
            Patience { least: 2, most: 5, time }.rounds(round, |all| all.len() >= decided).len()
        };
        let decided = [0, 1, 2, 3, 5, 9];
        assert_eq!(decided.map(|it| count(it, Duration::MAX)), [2, 2, 2, 3, 5, 5]);
        assert_eq!(decided.map(|it| count(it, Duration::ZERO)), [2; 6]);
    }
}
