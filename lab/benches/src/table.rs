//! Plain text tables: the first column to the left, numbers to the right, notes to the left again.

/// What stands where there is no figure.
pub const NONE: &str = "–";

/// A figure with as many decimals as its size deserves.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => NONE.to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) if value < 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// Lines of the table: `head`, then `rows`; the first column and those from `text_from` on align left.
pub fn lines(head: &[&str], rows: &[Vec<String>], text_from: usize) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 || column >= text_from {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(head.to_vec())).chain(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [vec!["a".to_owned(), figure(Some(123.4)), "slow".to_owned()]];
        assert_eq!(lines(&["name", "ns", "note"], &rows, 2), ["name   ns  note", "a     123  slow"]);
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(figure(Some(1.2345)), "1.23");
        assert_eq!(figure(Some(12.345)), "12.3");
        assert_eq!(figure(Some(12345.6)), "12346");
        assert_eq!(figure(None), "–");
    }
}
