//! Plain text tables.

/// The cell of a figure that does not exist.
pub const NONE: &str = "–";

/// Writes a figure with as many decimals as its size deserves; [`NONE`] if there is none.
#[must_use]
pub fn figure(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into() else { return NONE.to_owned() };
    match value.abs() {
        size if size < 1.0 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns a table: `head`, then `rows`, aligned as by [`aligned`].
#[must_use]
pub fn table<S: AsRef<str>>(leans: &str, head: &[S], rows: Vec<Vec<String>>) -> String {
    let head = head.iter().map(|cell| cell.as_ref().to_owned()).collect();
    aligned(leans, &std::iter::once(head).chain(rows).collect::<Vec<_>>()).join("\n")
}

/// Returns the lines of `rows`, all of which have the same number of cells, in columns.
///
/// `leans` has a letter for each column, the last of which is also for all that follow: `r` for
/// numbers, which align right, and `l` for names and notes, which align left.
#[must_use]
pub fn aligned(leans: &str, rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let leans = leans.as_bytes();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            match leans[column.min(leans.len() - 1)] {
                b'r' => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!([0.1234, 1.2345, 12.345, 12345.6].map(figure), ["0.123", "1.23", "12.3", "12346"]);
        assert_eq!(figure(None), "–");
    }

    #[test]
    fn columns_align_and_the_last_letter_is_for_all_that_follow() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = vec![row(["a", "123", "slow", ""]), row(["long", "1", "x", "1"])];
        let expected = "name   µs  note\na     123  slow\nlong    1  x     1";
        assert_eq!(table("lrl", &["name", "µs", "note", ""], rows), expected);
        assert_eq!(aligned("r", &[]), [""; 0]);
    }
}
