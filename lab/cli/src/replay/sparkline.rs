//! Numbers over time, in a line of blocks: ▁▂▃▄▅▆▇█.

use std::ops::RangeInclusive;

/// Blocks of a line: two lines and a name fit into 80 columns.
const WIDTH: usize = 28;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Which of the numbers that share a block is shown: the worst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick {
    Least,
    Most,
}

/// Draws `values`; the lowest block is the lower of `bounds`, the full block the upper.
pub(super) fn draw(values: &[u64], pick: Pick, bounds: RangeInclusive<u64>) -> String {
    let width = WIDTH.min(values.len());
    let shared = |block: usize| &values[block * values.len() / width..(block + 1) * values.len() / width];
    let shown = |block| match pick {
        Pick::Least => shared(block).iter().min(),
        Pick::Most => shared(block).iter().max(),
    };
    (0..width).filter_map(shown).map(|&value| block(value, &bounds)).collect()
}

fn block(value: u64, bounds: &RangeInclusive<u64>) -> char {
    let above = u128::from(value.saturating_sub(*bounds.start()));
    let height = u128::from(bounds.end() - bounds.start()).max(1);
    // Rounded; bounds that are one number make a flat line.
    let index = (above * (BLOCKS.len() as u128 - 1) * 2 + height) / (height * 2);
    BLOCKS[(index as usize).min(BLOCKS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparkline_blocks_span_the_bounds() {
        let values: Vec<_> = (0..8).collect();
        assert_eq!(draw(&values, Pick::Most, 0..=7), "▁▂▃▄▅▆▇█");
        assert_eq!(draw(&[u64::MAX, 0], Pick::Most, 0..=u64::MAX), "█▁");
        assert_eq!(draw(&[5, 5], Pick::Least, 5..=5), "▁▁");
        assert_eq!(draw(&[], Pick::Least, 0..=0), "");
    }

    #[test]
    fn sparkline_shows_the_worst_of_each_block() {
        let mut values = vec![1; 10 * WIDTH];
        values[95] = 9;
        let most = draw(&values, Pick::Most, 1..=9);
        assert_eq!((most.chars().count(), most.find('█')), (WIDTH, Some(9 * '▁'.len_utf8())));
        assert!(!draw(&values, Pick::Least, 1..=9).contains('█'));
    }
}
