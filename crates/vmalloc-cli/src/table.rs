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
    let widths: Vec<usize> = (0..leans.len()).map(|column| width(column, head, rows)).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).zip(leans).map(|((cell, &width), lean)| match lean {
            Lean::Left => format!("{cell:<width$}"),
            Lean::Right => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(line(&head.to_vec())).chain(rows.iter().map(line)).collect()
}

fn width(column: usize, head: &[String], rows: &[Vec<String>]) -> usize {
    let cells = std::iter::once(&head[column]).chain(rows.iter().map(|row| &row[column]));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
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
