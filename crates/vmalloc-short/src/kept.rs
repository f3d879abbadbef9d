//! Runs that a CPU keeps mapped after they were returned, for the next caller.
//!
//! ```text
//!   places, by first frame and pages                 spares, by pages
//!   │ 7 → f40… │ none │ 9 → f12… │ …                 │ 3 → f88… │ none │ …
//! ```
//! A caller that maps the same frames again finds them mapped. A caller of other frames, whose
//! place another run has, gets the **spare**: the run of so many pages that was returned last. So
//! frames that come once go through one run, whose entries the machine has just had in its caches,
//! and leave the places alone. Runs in turn take a twentieth longer (`memory -- mappings`,
//! "scattered, others"). One return in [`EACH`] takes a place from another run all the same, so
//! that the places follow what is mapped again.

use vmalloc::sync::size;

/// Places of a CPU.
const PLACES: usize = size(64, 4) as usize;

/// A returned run takes the place of another once in so many times.
const EACH: u32 = 16;

/// The most pages of a run that is kept.
pub(crate) const MOST_KEPT: u64 = 32;

/// Bits of a [`Key`] for the pages.
const PAGES_BITS: u32 = 6;
const _: () = assert!(MOST_KEPT < 1 << PAGES_BITS);

/// The number of a run's first frame, and its pages; 0 for no run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(frame: u64, pages: u64) -> Self {
        Self(frame << PAGES_BITS | pages)
    }

    fn pages(self) -> usize {
        self.0 as usize % (1 << PAGES_BITS)
    }

    /// Returns the place of such a run.
    fn place(self) -> usize {
        // Fibonacci hashing: the top bits of a product with 2^64 over the golden ratio.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
    }

    fn spare(self) -> usize {
        PLACES + self.pages()
    }
}

/// A run that is kept, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) key: Key,
    /// Its first page; 0 for none.
    pub(crate) page: u64,
}

/// The runs that a CPU keeps mapped: in places, and behind these one spare for each number of
/// pages.
pub(crate) struct KeptRuns {
    runs: [Kept; PLACES + MOST_KEPT as usize + 1],
    returned: u32,
}

impl Default for KeptRuns {
    fn default() -> Self {
        Self { runs: [Kept::default(); PLACES + MOST_KEPT as usize + 1], returned: 0 }
    }
}

impl KeptRuns {
    /// Returns the run that the caller of `key` shall map: the one that shows its frames if there
    /// is one. `None` where a new run shall get a place.
    pub(crate) fn best(&mut self, key: Key) -> Option<&mut Kept> {
        let (place, spare) = (key.place(), key.spare());
        let [there, other] = [place, spare].map(|index| self.runs[index].key);
        let best = match () {
            () if there == key => place,
            () if other == key => spare,
            () if there == Key::default() => return None,
            () if other != Key::default() => spare,
            () if there.pages() == key.pages() => place,
            () => return None,
        };
        Some(&mut self.runs[best])
    }

    /// Keeps `run`. Returns the first page of the one that it displaces, or 0.
    pub(crate) fn put(&mut self, run: Kept) -> u64 {
        let (place, spare) = (run.key.place(), run.key.spare());
        self.returned = self.returned.wrapping_add(1);
        let there = self.runs[place].key;
        if self.runs[spare].key != Key::default() {
            return core::mem::replace(&mut self.runs[place], run).page;
        }
        let is_turn = there.pages() == run.key.pages() && self.returned % EACH == 0;
        self.runs[spare] = if is_turn { core::mem::replace(&mut self.runs[place], run) } else { run };
        0
    }

    /// Returns the first pages of all runs.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().map(|run| run.page).filter(|page| *page != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps and returns the frames of a list in turn. Returns for each its run, 0 for a new one.
    fn play(kept: &mut KeptRuns, frames: impl IntoIterator<Item = u64>, pages: u64) -> std::vec::Vec<u64> {
        let mut fresh = 1 << 20;
        let turn = |frame| {
            let key = Key::new(frame, pages);
            let page = kept.best(key).map_or(0, |run| core::mem::take(run).page);
            fresh += 64;
            kept.put(Kept { key, page: if page == 0 { fresh } else { page } });
            page
        };
        frames.into_iter().map(turn).collect()
    }

    #[test]
    fn frames_that_come_again_find_their_run() {
        let mut kept = KeptRuns::default();
        let first = play(&mut kept, [5, 5, 5], 4);
        assert!(first[0] == 0 && first[1] != 0 && first[1] == first[2]);
        assert_eq!(play(&mut kept, [5], 3), [0], "another number of pages");
        assert_eq!(play(&mut kept, [5], 4), first[1..2]);
        let two = play(&mut kept, (0..20).map(|turn| 1000 + turn % 2), 2);
        assert!(two[18] != two[19] && two[4..].iter().zip(&two[2..]).all(|(page, before)| page == before));
    }

    #[test]
    fn frames_that_come_once_go_through_one_run() {
        let mut kept = KeptRuns::default();
        // Enough to fill every place, but for one in e^31.
        play(&mut kept, 0..32 * PLACES as u64, 4);
        let runs = kept.pages().count();
        let once = play(&mut kept, 1 << 20..(1 << 20) + 160, 4);
        let changes = once.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 160 / EACH as usize, "{once:?}");
        assert_eq!(kept.pages().count(), runs, "none is lost, and none is new");
    }

    #[test]
    fn places_follow_what_is_mapped_again() {
        let mut kept = KeptRuns::default();
        play(&mut kept, 0..32 * PLACES as u64, 4);
        // Frames of places of their own: the checkers' builds have few places.
        let at = |place| (1 << 20..).find(|frame| Key::new(*frame, 4).place() == place).unwrap();
        let frames = [0, 1, 2].map(at);
        let again = |kept: &mut KeptRuns| play(kept, frames, 4);
        (0..4 * EACH * frames.len() as u32).for_each(|_| drop(again(&mut kept)));
        let (before, after) = (again(&mut kept), again(&mut kept));
        assert!(before == after && before[0] != before[1] && before[1] != before[2], "{before:?}");
    }

    #[test]
    fn runs_of_other_sizes_and_runs_beyond_are_displaced() {
        let mut kept = KeptRuns::default();
        let key = Key::new(7, 4);
        let run = |page| Kept { key, page };
        assert_eq!([1, 2, 3].map(|page| kept.put(run(page))), [0, 0, 2], "a spare, a place, and no more");
        assert_eq!(kept.best(key).map(core::mem::take), Some(run(3)));
        assert_eq!(kept.best(key).map(core::mem::take), Some(run(1)));
        assert_eq!(kept.best(key), None);
    }
}
