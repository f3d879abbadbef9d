//! What goes to stdout, all of it at once, and to stderr, a line at a time.

use crate::error::Failure;
use serde::Serialize;
use std::io::Write;

/// Writes `text`. That nobody took it, because the disk is full or the reader of a pipe went away, is a failure.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(format!("can't write the output: {error}")))
}

/// Writes `value` as one JSON object.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let object = serde_json::to_string_pretty(value);
    let object = object.map_err(|error| Failure::new(format!("can't write the output as JSON: {error}")))?;
    text(&format!("{object}\n"))
}

/// Writes `line` to stderr; when nobody reads it, it is dropped.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "vmalloc: {line}");
}

/// `bytes` in the largest binary unit that leaves at least one: `64.0 TiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = (bytes.max(1).ilog2() / 10).checked_sub(1) else { return format!("{bytes} B") };
    let tenths = (u128::from(bytes) * 10) >> (10 * (power + 1));
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power as usize])
}

#[cfg(test)]
mod tests {
    use super::human_bytes;

    #[test]
    fn bytes_are_told_in_the_largest_unit() {
        let told = [0, 1, 1023, 1024, 1536, 64 << 20, 1 << 46, u64::MAX].map(human_bytes);
        assert_eq!(told, ["0 B", "1 B", "1023 B", "1.0 KiB", "1.5 KiB", "64.0 MiB", "64.0 TiB", "15.9 EiB"]);
    }
}
