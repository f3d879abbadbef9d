//! Bytes and counts in words.

/// `bytes` in the largest binary unit that leaves at least one: `64 TiB`, `1.5 KiB`.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = (bytes.max(1).ilog2() / 10).checked_sub(1) else { return format!("{bytes} B") };
    let tenths = (u128::from(bytes) * 10) >> (10 * (power + 1));
    let unit = UNITS[power as usize];
    if tenths % 10 == 0 {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// `count` of a thing, with thousands apart: `1 area`, `12,345 areas`.
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    let digits = count.to_string();
    let mut told = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            told.push(',');
        }
        told.push(digit);
    }
    let plural = if count == 1 { "" } else { "s" };
    format!("{told} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::{counted, human_bytes};

    #[test]
    fn counts_have_their_thousands_apart() {
        let told = [0, 1, 999, 1000, 1_234_567].map(|count| counted(count, "gap"));
        assert_eq!(told, ["0 gaps", "1 gap", "999 gaps", "1,000 gaps", "1,234,567 gaps"]);
    }

    #[test]
    fn bytes_are_told_in_the_largest_unit() {
        let told = [0, 1023, 1024, 1536, 64 << 20, u64::MAX].map(human_bytes);
        assert_eq!(told, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "64 MiB", "15.9 EiB"]);
    }
}
