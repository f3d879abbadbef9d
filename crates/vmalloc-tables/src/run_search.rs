//! Runs in lists of frames.
//!
//! Page tables take a run with a fraction of the steps that its single frames take, and one that
//! fills a large page with a single entry. So long lists are looked through once. A list of
//! scattered frames is told by its first dozens.

use alloc::vec::Vec;
use vmalloc::{Frame, FrameRun};
use wide::u64x2;

/// Frames of a list that is looked through: twice as many as blocks of short mappings serve, so
/// that short mappings, which are made often, never are.
const RUNS_FROM: usize = 128;
/// Frames that a run has on average for runs to be worth while.
const MEAN_RUN: usize = 8;
/// Frames that are compared at a time, without a branch for each: as many as registers hold, and
/// many times that, so that long runs take fewer branches.
const SMALL: usize = 16;
const LARGE: usize = 256;

/// Returns how many of the first of `frames` follow each other from number `first` on, in chunks of
/// `N`. They are compared as vectors: a branch for each frame would double the instructions.
fn chunks_in_run<const N: usize>(frames: &[Frame], first: u64) -> usize {
    let pair = |nth: usize| u64x2::new([0, 1].map(|odd| first.wrapping_add(2 * nth as u64 + odd)));
    let mut wanted: [u64x2; SMALL / 2] = core::array::from_fn(pair);
    let is_run = |(nth, chunk): &(usize, &[Frame])| {
        // Most that are no run don't begin as one: then they are not looked through.
        if chunk[0].0 != first.wrapping_add((nth * N) as u64) {
            return false;
        }
        let mut differing = u64x2::ZERO;
        for part in chunk.chunks_exact(SMALL) {
            for (wanted, pair) in wanted.iter_mut().zip(part.chunks_exact(2)) {
                differing |= u64x2::new([pair[0].0, pair[1].0]) ^ *wanted;
                *wanted += u64x2::splat(SMALL as u64);
            }
        }
        differing.to_array() == [0, 0]
    };
    frames.chunks_exact(N).enumerate().take_while(is_run).count() * N
}

/// Returns how many of the first of `frames` follow each other.
fn run_len(frames: &[Frame]) -> usize {
    let Some(first) = frames.first() else { return 0 };
    let number = |place: usize| first.0.wrapping_add(place as u64);
    let goes_on = |len: usize| frames.get(len).is_some_and(|frame| frame.0 == number(len));
    if !goes_on(1) {
        return 1;
    }
    let mut len = chunks_in_run::<LARGE>(frames, first.0);
    if goes_on(len) {
        len += chunks_in_run::<SMALL>(&frames[len..], number(len));
    }
    while goes_on(len) {
        len += 1;
    }
    len
}

/// Returns the runs that `frames` are made of; `None` where there are few frames, or the runs are
/// too short, or memory is.
pub(crate) fn runs_of(frames: &[Frame]) -> Option<Vec<FrameRun>> {
    if frames.len() < RUNS_FROM {
        return None;
    }
    let (mut runs, mut rest) = (Vec::new(), frames);
    runs.try_reserve(frames.len() / LARGE).ok()?;
    while let Some(&first) = rest.first() {
        let seen = frames.len() - rest.len();
        if runs.len() * MEAN_RUN > seen + RUNS_FROM || runs.try_reserve(1).is_err() {
            return None;
        }
        let len = run_len(rest);
        runs.push(FrameRun { first, count: len as u64 });
        rest = &rest[len..];
    }
    Some(runs)
}

/// Returns whether one of `runs` fills a whole aligned 2^order pages of an area that begins at such
/// a place.
pub(crate) fn fills(runs: &[FrameRun], order: u32) -> bool {
    let (size, mut place) = (1_u64 << order, 0_u64);
    runs.iter().any(|run| {
        let skipped = run.first.0.wrapping_neg() & (size - 1);
        let is_in_step = (run.first.0 ^ place) & (size - 1) == 0;
        place = place.saturating_add(run.count);
        is_in_step && run.count >= skipped.saturating_add(size)
    })
}

#[cfg(test)]
mod tests {
    use super::{LARGE, RUNS_FROM, fills, run_len, runs_of};
    use alloc::vec::Vec;
    use vmalloc::{Frame, FrameRun};

    fn run(first: u64, count: u64) -> FrameRun {
        FrameRun { first: Frame(first), count }
    }

    fn list(runs: &[FrameRun]) -> Vec<Frame> {
        runs.iter().flat_map(|run| run.frames()).collect()
    }

    #[test]
    fn a_run_ends_at_the_first_frame_that_does_not_follow() {
        let ends = (1..70).chain(LARGE as u64 - 3..LARGE as u64 + 70);
        for end in ends.step_by(if cfg!(miri) { 47 } else { 1 }) {
            for next in [0, 7 + end - 1, 7 + end + 1, u64::MAX] {
                let frames = list(&[run(7, end), run(next, 40)]);
                assert_eq!(run_len(&frames), end as usize, "then {next}");
            }
            assert_eq!(run_len(&list(&[run(u64::MAX - end, end)])), end as usize, "at the end of numbers");
        }
        assert_eq!(run_len(&[]), 0);
    }

    #[test]
    fn lists_of_runs_are_found_and_scattered_ones_are_given_up() {
        let runs = [run(512, 512), run(5, 1), run(7, 100), run(100, 200)];
        assert_eq!(runs_of(&list(&runs)).as_deref(), Some(&runs[..]));
        let scattered: Vec<Frame> = (0..RUNS_FROM as u64).map(|nth| Frame(2 * nth)).collect();
        assert_eq!(runs_of(&scattered), None);
    }

    #[test]
    fn areas_are_aligned_where_a_run_fills_a_huge_page() {
        let fills = |runs: &[FrameRun]| fills(runs, 9);
        assert!(
            fills(&[run(512, 512)])
                && fills(&[run(512, 513)])
                && fills(&[run(511, 1), run(0, 511)]).eq(&false)
        );
        assert!(!fills(&[run(512, 511)]), "too short");
        assert!(
            !fills(&[run(513, 1023)]),
            "out of step: the area's first page would be the second of a huge one"
        );
        assert!(fills(&[run(3, 1), run(513, 1023)]), "in step, and long enough behind the skipped frames");
        assert!(!fills(&[run(3, 1), run(513, 1022)]), "in step, and one short");
        assert!(fills(&[run(9, 512), run(1024, 512)]));
    }
}
