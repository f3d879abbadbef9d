//! Where the trace itself had its areas: the widest that each window was ever in use.

use super::live::Live;
use vmalloc::PageRange;

/// Windows of the trace; those that overlap are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed(Vec<Window>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    range: PageRange,
    peak_span: u64,
}

impl Placed {
    /// An area was allocated in a window, and is among the live ones.
    pub(super) fn see(&mut self, within: PageRange, live: &Live) {
        let index = match self.0.iter().position(|window| window.range.covers(&within)) {
            Some(index) => index,
            None => self.add(within),
        };
        let window = &mut self.0[index];
        window.peak_span = window.peak_span.max(live.span(&window.range));
    }

    /// Returns how many windows there are so far.
    pub(super) fn windows(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, within: PageRange) -> usize {
        let mut new = Window { range: within, peak_span: 0 };
        self.0.retain(|old| {
            let apart = old.range.intersection(&new.range).is_none();
            if !apart {
                let (start, end) = (old.range.start(), old.range.end());
                let joined = PageRange::new(start.min(new.range.start()), end.max(new.range.end()));
                new = Window {
                    range: joined.unwrap_or(new.range),
                    peak_span: old.peak_span.max(new.peak_span),
                };
            }
            apart
        });
        self.0.push(new);
        self.0.len() - 1
    }

    /// Returns the widest that a joined window was in use, in pages, if the trace names windows.
    pub(super) fn peak_span(&self, joined: &PageRange) -> Option<u64> {
        let inside = self.0.iter().filter(|window| window.range.intersection(joined).is_some());
        inside.map(|window| window.peak_span).max()
    }
}

#[cfg(test)]
mod tests {
    use super::super::live::Area;
    use super::*;

    #[test]
    fn windows_that_overlap_are_joined_and_keep_their_widest() {
        let range = |start, end| PageRange::new(start, end).expect("not empty");
        let (mut placed, mut live) = (Placed::default(), Live::default());
        for (window, start) in
            [((100, 200), 110), ((150, 300), 250), ((150, 300), 160), ((400, 500), 450), ((150, 160), 155)]
        {
            live.put(Area { start, end: start + 5, slot: 0, shape: 0 });
            placed.see(range(window.0, window.1), &live);
        }
        assert_eq!(placed.peak_span(&range(100, 300)), Some(145));
        assert_eq!(placed.peak_span(&range(400, 500)), Some(5));
        assert_eq!(placed.peak_span(&range(600, 700)), None);
    }
}
