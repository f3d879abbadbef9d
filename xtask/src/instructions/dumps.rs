//! The files that Callgrind writes, one for each window of a run.

use std::path::Path;
use std::{fs, io};

/// A window: its label and the instructions in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    label: String,
    instructions: u64,
}

/// Returns all windows in a folder, in no order.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<Window>> {
    let mut windows = Vec::new();
    for entry in fs::read_dir(folder)? {
        windows.extend(parse(&String::from_utf8_lossy(&fs::read(entry?.path())?)));
    }
    Ok(windows)
}

/// The label and total of a dump; `None` for the dump at exit, which no client request asked for.
fn parse(dump: &str) -> Option<Window> {
    let field = |name| dump.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let label = field("desc: Trigger: Client Request:")?.to_owned();
    Some(Window { label, instructions: field("totals:")?.parse().ok()? })
}

/// The instructions of one operation: of the whole loop without the empty loop, shared among `operations`;
/// or of the worst single call without an empty window.
pub(crate) fn per_operation(windows: &[Window], operations: u64) -> Option<f64> {
    let largest = |labels: &[&str]| {
        let named = windows.iter().filter(|window| labels.contains(&window.label.as_str()));
        named.map(|window| window.instructions).max()
    };
    if let (Some(run), Some(idle)) = (largest(&["run"]), largest(&["loop"])) {
        return Some((run as f64 - idle as f64) / operations as f64);
    }
    Some((largest(&["allocate", "free"])? - largest(&["empty"])?) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(label: &str, instructions: u64) -> Window {
        Window { label: label.to_owned(), instructions }
    }

    #[test]
    fn a_dump_is_its_label_and_total() {
        let dump = "version: 1\ndesc: Trigger: Client Request: run\nevents: Ir\ntotals: 4711\n";
        assert_eq!(parse(dump), Some(window("run", 4711)));
        assert_eq!(parse("desc: Trigger: Program termination\ntotals: 9\n"), None);
    }

    #[test]
    fn the_empty_loop_is_subtracted_and_the_worst_call_counts() {
        let windows = [window("loop", 130), window("run", 1130)];
        let calls = [window("before", 8), window("empty", 11), window("allocate", 500), window("free", 90)];
        let counted = [&windows[..], &windows[..1], &calls].map(|windows| per_operation(windows, 10));
        assert_eq!(counted, [Some(100.0), None, Some(489.0)]);
    }
}
