//! Numbers with their units, three digits each.

/// Nanoseconds: `312 ns`, `31.2 µs`, `4.1 ms`.
pub(super) fn time(nanoseconds: f64) -> String {
    scaled(nanoseconds, &["ns", "µs", "ms", "s"])
}

/// Things a second, in words of ten: `3.2 M`.
pub(super) fn many(count: f64) -> String {
    scaled(count, &["", "k", "M", "G"]).trim_end().to_owned()
}

/// Three digits and one of the units, a thousand apart.
fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        if value < 999.5 || units.peek().is_none() {
            return format!("{} {unit}", digits(value));
        }
        value /= 1000.0;
    }
    unreachable!("there is a unit")
}

/// Three digits: `312`, `31.2`, `3.12`, `0.312`, and no zeros at the end of a fraction.
pub(super) fn digits(value: f64) -> String {
    let decimals =
        if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with its thousands apart.
pub(super) fn whole(count: u64) -> String {
    vmalloc_lab::units::counted(count, "").trim_end_matches('s').trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let told = [0.0, 0.5, 9.87, 31.25, 312.4, 999.6, 31_200.0, 4_100_000.0, 2e10].map(time);
        assert_eq!(
            told,
            ["0 ns", "0.5 ns", "9.87 ns", "31.2 ns", "312 ns", "1 µs", "31.2 µs", "4.1 ms", "20 s"]
        );
        assert_eq!([10.0, 1000.0, 25_310_000.0].map(many), ["10", "1 k", "25.3 M"]);
        assert_eq!([0, 999, 1000, 10_000_000].map(whole), ["0", "999", "1,000", "10,000,000"]);
    }
}
