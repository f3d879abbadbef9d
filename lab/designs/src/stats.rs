//! Medians and percentiles of a few numbers.

/// Returns the median; the mean of the middle two when their number is even.
///
/// # Panics
/// When `values` is empty.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Returns the smallest value that at least `per_mille` thousandths of `values` do not exceed
/// (nearest rank).
///
/// Returns `None` when there are too few values for ten of them to lie above it.
pub fn per_mille(values: &mut [u64], per_mille: u64) -> Option<u64> {
    let count = values.len() as u64;
    if count * (1000 - per_mille) < 10_000 {
        return None;
    }
    let rank = (count * per_mille).div_ceil(1000).max(1) as usize - 1;
    Some(*values.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn percentile_is_the_nearest_rank_and_needs_many_values() {
        let mut values: Vec<u64> = (1..=10_000).rev().collect();
        assert_eq!(per_mille(&mut values, 999), Some(9990));
        assert_eq!(per_mille(&mut values, 500), Some(5000));
        assert_eq!(per_mille(&mut values[1..], 999), None);
        assert_eq!(per_mille(&mut [], 500), None);
    }
}
