//! Sets of addresses.

use std::ops::Range;

/// A set of addresses, as ranges that are ascending and apart.
pub(crate) struct Ranges(Vec<Range<usize>>);

impl Ranges {
    /// Returns an empty set.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a range. Returns false if there is no memory for it.
    pub(crate) fn add(&mut self, range: Range<usize>) -> bool {
        if !self.remove(range.clone()) || self.0.try_reserve(1).is_err() {
            return false;
        }
        let at = self.touching(&range).start;
        self.0.insert(at, range);
        true
    }

    /// Removes a range. Returns false, and removes nothing, if there is no memory for the parts of
    /// another range that it cuts in two.
    pub(crate) fn remove(&mut self, range: Range<usize>) -> bool {
        let touched = self.touching(&range);
        if touched.is_empty() {
            return true;
        }
        if self.0.try_reserve(1).is_err() {
            return false;
        }
        let before = self.0[touched.start].start..range.start;
        let after = range.end..self.0[touched.end - 1].end;
        self.0.splice(touched, [before, after].into_iter().filter(|part| !part.is_empty()));
        true
    }

    /// Returns true if some address of a range is in the set.
    pub(crate) fn meets(&self, range: &Range<usize>) -> bool {
        !self.touching(range).is_empty()
    }

    /// Returns the ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }

    /// Returns the places of the ranges that have an address in common with this one.
    fn touching(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.0.partition_point(|other| other.end <= range.start);
        let end = self.0.partition_point(|other| other.start < range.end);
        first..end.max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each range of 12 addresses is added or removed, in all orders of three, beside one bit for
    /// each address.
    #[test]
    fn a_set_has_the_addresses_that_were_added_and_not_removed() {
        let ranges: Vec<_> = (0..12).flat_map(|start| (start + 1..13).map(move |end| start..end)).collect();
        for (nth, first) in ranges.iter().enumerate() {
            for second in &ranges {
                let third = &ranges[(nth * 7 + second.end) % ranges.len()];
                let (mut set, mut bits) = (Ranges::new(), [false; 12]);
                for (range, member) in [(first, true), (second, nth % 2 == 0), (third, nth % 3 == 0)] {
                    assert!(if member { set.add(range.clone()) } else { set.remove(range.clone()) });
                    bits[range.clone()].fill(member);
                    let met = std::array::from_fn(|addr| set.meets(&(addr..addr + 1)));
                    assert_eq!(bits, met, "{first:?} {second:?} {third:?}");
                    assert!(set.iter().all(|range| !range.is_empty()));
                    assert!(set.0.is_sorted_by(|one, next| one.end <= next.start));
                }
            }
        }
    }
}
