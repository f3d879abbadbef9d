//! Many areas as ascending ranges with neighbours joined, as a platform is asked to unmap them.

use crate::PageRange;
use crate::wait::{BATCH, clear, has_piece};
use alloc::vec::Vec;

/// Calls `act` with the pages of lists of areas, which are disjoint, until it fails: with all of them at
/// once, or where that would take a large piece of memory with one part after the other. `ranges`,
/// which has room for some, is memory for them. O(n log n).
pub(crate) fn coalesce<'a, E>(
    lists: impl Iterator<Item = &'a [PageRange]>,
    ranges: &mut Vec<PageRange>,
    mut act: impl FnMut(&[PageRange]) -> Result<(), E>,
) -> Result<(), E> {
    let mut finish = |ranges: &mut Vec<PageRange>| {
        sort(ranges);
        join(ranges);
        let result = if ranges.is_empty() { Ok(()) } else { act(ranges) };
        clear(ranges, BATCH);
        result
    };
    // A platform that panicked left some there.
    ranges.clear();
    for list in lists {
        for area in list {
            // Areas often come beside each other, in either order: then there is less to sort.
            if let Some(last) = ranges.last_mut() {
                let (start, end) = (last.start().min(area.start()), last.end().max(area.end()));
                if end - start == last.len() + area.len() {
                    *last = PageRange::of(start, end);
                    continue;
                }
            }
            if ranges.len() == ranges.capacity() && !has_piece(ranges, 1) {
                finish(ranges)?;
            }
            ranges.push(*area);
        }
    }
    finish(ranges)
}

/// Ranges that are sorted by putting one after the other in its place.
const FEW: usize = 24;
/// Bits of a digit.
const DIGIT: usize = 4;

/// Sorts by the first page, in place, by one digit after the other from the highest in which two
/// differ. O(n) for ranges that ascend, O(n · digits) for others.
///
/// The sorts of `core` recurse, and take more than the whole stack of a kernel's thread. This one
/// has no list of what is still to do: behind a part that is sorted follows the part that agrees in
/// all digits with its first range, up to the one that tells that from the range before it.
///
/// ```text
///      sorted    next part
///   │ 310  312 │ 337  331  330  336 │ 350  341 │ 402 …       2 and 7 differ in the digit of eights: all 33· follow
/// ```
pub(crate) fn sort(ranges: &mut [PageRange]) {
    if ranges.is_sorted_by_key(PageRange::start) {
        return;
    }
    let digit_of = |differ: u64| differ.ilog2() as usize / DIGIT;
    let differ = ranges.iter().fold(0, |differ, range| differ | (range.start() ^ ranges[0].start()));
    let (mut part, mut digits) = (0..ranges.len(), digit_of(differ) + 1);
    loop {
        while part.len() > FEW && digits > 0 {
            digits -= 1;
            part.end = part.start + distribute(&mut ranges[part.clone()], digits * DIGIT);
        }
        insert_each(&mut ranges[part.clone()]);
        part.start = part.end;
        let Some(next) = ranges.get(part.start) else { return };
        let differ = |range: &PageRange| range.start() ^ next.start();
        digits = digit_of(differ(&ranges[part.start - 1]));
        let agrees = |range: &&PageRange| differ(range) >> (digits * DIGIT) == 0;
        part.end += ranges[part.start..].iter().take_while(agrees).count();
    }
}

/// Brings ranges into the order of one digit of their first pages. Returns how many have the lowest
/// one.
fn distribute(ranges: &mut [PageRange], shift: usize) -> usize {
    let digit = |range: &PageRange| (range.start() >> shift) as usize % (1 << DIGIT);
    // For each digit where the next range with it goes, and the end of all of them.
    let (mut next, mut ends, mut sum) = ([0; 1 << DIGIT], [0; 1 << DIGIT], 0);
    ranges.iter().for_each(|range| ends[digit(range)] += 1);
    for (next, end) in next.iter_mut().zip(&mut ends) {
        (*next, *end) = (sum, sum + *end);
        sum = *end;
    }
    for place in 0..1 << DIGIT {
        while next[place] < ends[place] {
            let to = digit(&ranges[next[place]]);
            ranges.swap(next[place], next[to]);
            next[to] += 1;
        }
    }
    ends[digit(&ranges[0])]
}

/// Sorts a few ranges.
fn insert_each(ranges: &mut [PageRange]) {
    for index in 1..ranges.len() {
        let (range, mut place) = (ranges[index], index);
        while place > 0 && ranges[place - 1].start() > range.start() {
            ranges[place] = ranges[place - 1];
            place -= 1;
        }
        ranges[place] = range;
    }
}

/// Joins neighbours among ascending ranges.
pub(crate) fn join(ranges: &mut Vec<PageRange>) {
    ranges.dedup_by(|next, last| {
        let joins = last.end() == next.start();
        if joins {
            *last = PageRange::of(last.start(), next.end());
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers below `count` in an order of chance.
    fn shuffled(count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        let mut random = 7u64;
        for last in (1..numbers.len()).rev() {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            numbers.swap(last, (random >> 33) as usize % (last + 1));
        }
        numbers
    }

    #[test]
    fn ranges_are_sorted_whatever_their_order_was() {
        let orders: [fn(u64, u64) -> u64; 7] = [
            |number, _| number,
            |number, count| count - number,
            |number, _| number ^ 1,
            |number, _| number % 3,
            |number, _| number.reverse_bits() >> 1,
            |number, _| 1 << (number % 60),
            |_, _| 5,
        ];
        let most = if cfg!(miri) { 100 } else { 100_000 };
        for count in [0, 1, 2, 3, 16, 17, 33, 1000, 100_000].into_iter().filter(|&count| count <= most) {
            for (order, start_of) in orders.iter().enumerate() {
                for numbers in [(0..count).collect(), shuffled(count)] {
                    let start = |number: &u64| start_of(*number, count);
                    let mut ranges: Vec<_> = numbers
                        .iter()
                        .map(|number| PageRange::of(start(number), u64::MAX - number))
                        .collect();
                    let mut expected = ranges.clone();
                    expected.sort_by_key(|range| (range.start(), range.end()));
                    sort(&mut ranges);
                    assert!(ranges.is_sorted_by_key(PageRange::start), "{count} ranges, order {order}");
                    ranges.sort_by_key(|range| (range.start(), range.end()));
                    assert_eq!(ranges, expected, "{count} ranges, order {order}: one was lost");
                }
            }
        }
    }

    #[test]
    fn areas_become_ascending_ranges_with_neighbours_joined() {
        let area = |start, end| PageRange::of(start, end);
        let areas = [
            area(50, 60),
            area(40, 50),
            area(60, 61),
            area(9, 12),
            area(30, 31),
            area(100, 20_000),
            area(12, 13),
            area(1 << 45, 1 << 46),
            area(20_000, 20_001),
            area(1 << 40, 1 << 45),
        ];
        let mut ranges = Vec::new();
        let long = [area(100, 20_001), area(1 << 40, 1 << 46)];
        let is_right = |ranges: &[PageRange]| {
            assert_eq!(ranges[..3], [area(9, 13), area(30, 31), area(40, 61)]);
            assert_eq!(ranges[3..], long);
            Err(7)
        };
        assert_eq!(coalesce([&areas[..]].into_iter(), &mut ranges, is_right), Err(7));
        assert_eq!(coalesce([].into_iter(), &mut ranges, |_| Err(7)), Ok(()), "nothing is no call");
    }

    /// More ranges than one piece of memory holds are told one part after the other, each once, and
    /// none after one that was refused.
    #[test]
    fn many_ranges_are_told_in_parts() {
        let areas: Vec<PageRange> =
            shuffled(10_000).into_iter().map(|number| PageRange::of(2 * number, 2 * number + 1)).collect();
        let (mut told, mut parts, mut memory) = (Vec::new(), 0, Vec::new());
        let note = |ranges: &[PageRange]| {
            told.extend_from_slice(ranges);
            parts += 1;
            if parts < 4 { Ok(()) } else { Err(()) }
        };
        assert_eq!(coalesce([&areas[..]].into_iter(), &mut memory, note), Ok(()));
        sort(&mut told);
        assert_eq!((parts, told), (3, (0..10_000).map(|n| PageRange::of(2 * n, 2 * n + 1)).collect()));
        let mut calls = 0;
        let refuse = |_: &[PageRange]| {
            calls += 1;
            Err(())
        };
        assert_eq!((coalesce([&areas[..]].into_iter(), &mut memory, refuse), calls), (Err(()), 1));
    }
}
