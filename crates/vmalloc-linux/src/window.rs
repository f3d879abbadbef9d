//! Where a span may lie: at an address, near one, below one, aligned.
//!
//! The kernel chooses a place by itself where nothing is asked for. Else the place is chosen here,
//! from the list of mappings, and taken by a call that never replaces a mapping
//! (`MAP_FIXED_NOREPLACE`). So where another thread was quicker, nothing is lost, and the next
//! place is looked for.

use crate::error::ReserveError;
use crate::os::gaps::{LOWEST, each_gap};
use crate::os::limits::machine_bytes;
use crate::os::reservation::{Access, Mapping};
use rustix::io::Errno;
use std::ops::Range;

/// How often other threads may take the place that was found before the next smaller size is tried.
const RACES: usize = 64;

/// The addresses in which a span may lie, and the start that it is to have, or be near to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) within: Range<u64>,
    pub(crate) align: u64,
    pub(crate) to: To,
}

/// The start that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    /// Any: the kernel chooses.
    Any,
    /// Exactly this.
    At(u64),
    /// The one nearest to this, the higher of two.
    Near(u64),
}

impl Window {
    /// Reserves `bytes` bytes.
    ///
    /// # Errors
    /// `EEXIST` where the window has no such place; else what the kernel says.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Mapping, Errno> {
        match self.to {
            To::Any => return Mapping::new(bytes, Access::None),
            To::At(start) => {
                // The caller knows what is there: a place below the stack may be meant.
                let place = self.place(start..start.saturating_add(bytes as u64), bytes as u64);
                return Mapping::at(place.ok_or(Errno::EXIST)? as usize, bytes, Access::None);
            }
            To::Near(_) => {}
        }
        for _ in 0..RACES {
            let start = self.find(bytes as u64)?.ok_or(Errno::EXIST)?;
            match Mapping::at(start as usize, bytes, Access::None) {
                Err(Errno::EXIST) => {}
                result => return result,
            }
        }
        Err(Errno::EXIST)
    }

    /// Returns the error for a window in which no place has so many bytes.
    pub(crate) fn refusal(&self, bytes: usize) -> ReserveError {
        let Range { start, end } = match self.to {
            To::At(start) => start..start.saturating_add(bytes as u64),
            _ => self.within.clone(),
        };
        ReserveError::NoWindow { bytes, start, end, largest: self.largest() }
    }

    /// Returns the bytes of the largest place in the window, or 0 where `/proc` does not tell.
    pub(crate) fn largest(&self) -> u64 {
        let mut largest = 0;
        let seen =
            each_gap(|gap| largest = largest.max(self.room(&gap).map_or(0, |room| room.end - room.start)));
        if seen.is_ok() { largest } else { 0 }
    }

    /// Returns the place for so many bytes, by the list of mappings.
    fn find(&self, bytes: u64) -> Result<Option<u64>, Errno> {
        let mut best: Option<u64> = None;
        each_gap(|gap| {
            let found = self.place(gap, bytes);
            best = best.into_iter().chain(found).min_by_key(|&at| self.rank(at));
        })?;
        Ok(best)
    }

    /// Returns the part of a gap that is in the window, from its first aligned address on.
    fn room(&self, gap: &Range<u64>) -> Option<Range<u64>> {
        let first = match self.to {
            To::At(start) if gap.contains(&start) && start >= self.within.start => start,
            To::At(_) => return None,
            _ => gap.start.max(self.within.start).checked_next_multiple_of(self.align)?,
        };
        let room = first..gap.end.min(self.within.end);
        (room.start < room.end).then_some(room)
    }

    /// Returns the place in a gap for so many bytes: of the starts in it the nearest.
    fn place(&self, gap: Range<u64>, bytes: u64) -> Option<u64> {
        let room = self.room(&gap)?;
        let last = room.end.checked_sub(bytes)? / self.align * self.align;
        let To::Near(to) = self.to else { return (room.start <= last).then_some(room.start) };
        if last < room.start {
            return None;
        }
        let below = to.clamp(room.start, last) / self.align * self.align;
        let above = below.saturating_add(self.align).min(last);
        [below, above].into_iter().min_by_key(|&at| self.rank(at))
    }

    /// Orders starts: how far they are from the one asked for, and the higher of two first.
    fn rank(&self, at: u64) -> (u64, bool) {
        let (To::At(to) | To::Near(to)) = self.to else { return (at, false) };
        (at.abs_diff(to), at < to)
    }
}

/// Returns the addresses of a program, as a window.
pub(crate) fn anywhere() -> Window {
    Window { within: LOWEST..machine_bytes(), align: 1, to: To::Any }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a place with trying every start.
    #[test]
    fn the_nearest_place_agrees_with_trying_every_start() {
        let mut places = 0;
        for (align, bytes) in [(1, 1), (1, 5), (4, 1), (4, 7), (8, 16)] {
            for to in (0..70).step_by(3).chain([u64::MAX]) {
                let window = Window { within: 9..55, align, to: To::Near(to) };
                for gap in [0..80, 3..20, 20..41, 30..36, 50..70, 0..9, 55..90] {
                    let fits = |at: &u64| {
                        at.is_multiple_of(align) && *at >= 9.max(gap.start) && at + bytes <= 55.min(gap.end)
                    };
                    let want = (0..80).filter(fits).min_by_key(|at| (at.abs_diff(to), *at < to));
                    assert_eq!(window.place(gap.clone(), bytes), want, "{window:?} {bytes} in {gap:?}");
                    places += usize::from(want.is_some());
                }
            }
        }
        assert!(places > 100, "{places}");
    }

    #[test]
    fn an_address_is_met_exactly_or_not_at_all() {
        let at = |start| Window { within: 10..100, align: 4, to: To::At(start) };
        assert_eq!(at(20).place(20..30, 10), Some(20));
        assert_eq!(at(20).place(12..30, 10), Some(20));
        for (start, gap, bytes) in [(20, 21..40, 5), (20, 20..30, 11), (96, 96..110, 8)] {
            assert_eq!(at(start).place(gap.clone(), bytes), None, "{start} in {gap:?}");
        }
        assert_eq!(at(20).room(&(12..30)), Some(20..30));
    }
}
