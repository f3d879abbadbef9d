//! `cargo xtask instructions --kernel`: what a whole vmalloc takes in a kernel, page tables and purges included.

use crate::kernel::{self, Architecture, Boot, Image, MEMORY, PASSED};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// Boots the kernel on a machine that counts. Returns the counts of its rows.
pub(crate) fn run() -> Result<BTreeMap<String, f64>> {
    kernel::find_qemu(Architecture::X86.qemu())?;
    let boot = Boot {
        cpus: 1,
        memory: MEMORY[0],
        command_line: "count loops=1000",
        devices: "",
        counts_instructions: true,
        limit: LIMIT,
        is_shown: false,
    };
    let run = Image::build(Architecture::X86)?.boot(boot)?;
    ensure!(run.ended_with(PASSED), "the machine did not end well: {}", run.lines.join("\n"));
    let counts = run.lines.iter().filter_map(|line| count(line));
    Ok(counts.inspect(|(name, count)| println!("{name} {count}")).collect())
}

/// Returns what a line `count NAME VALUE` tells.
fn count(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.strip_prefix("count ")?.split_once(' ')?;
    Some((name.to_owned(), value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn lines_that_count_are_read_and_others_are_not() {
        let lines = ["1 CPUs", "count a/b 17", "count c", "ok count x 1"];
        assert_eq!(lines.into_iter().find_map(count), Some(("a/b".to_owned(), 17.0)));
        assert_eq!(lines.into_iter().filter_map(count).count(), 1);
    }
}
