//! Plain text tables: the first column to the left, numbers to the right.

/// Which way the cells of a column lean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lean {
    /// Names and notes.
    Left,
    /// Numbers.
    Right,
}

/// Lines of a table: `head`, then `rows`, all with as many cells as there are columns.
pub(crate) fn lines(leans: &[Lean], head: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let all: Vec<_> = std::iter::once(head).chain(rows.iter().map(Vec::as_slice)).collect();
    aligned(leans, &all)
}

/// Lines of a table of names and their numbers.
pub(crate) fn named(head: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let leans: Vec<_> =
        std::iter::once(Lean::Left).chain(std::iter::repeat(Lean::Right)).take(head.len()).collect();
    lines(&leans, head, rows)
}

/// Lines of a table without a head.
pub(crate) fn body(leans: &[Lean], rows: &[Vec<String>]) -> Vec<String> {
    aligned(leans, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn aligned(leans: &[Lean], rows: &[&[String]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..leans.len()).map(width).collect();
    let line = |cells: &&[String]| {
        let padded = cells.iter().zip(&widths).zip(leans).map(|((cell, &width), lean)| match lean {
            Lean::Left => format!("{cell:<width$}"),
            Lean::Right => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let cells = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let leans = [Lean::Left, Lean::Right, Lean::Left];
        let table = lines(&leans, &cells(["name", "µs", "note"]), &[cells(["a", "123", "slow"])]);
        assert_eq!(table, ["name   µs  note", "a     123  slow"]);
    }
}
