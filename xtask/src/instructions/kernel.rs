//! `cargo xtask instructions --kernel`: what a whole vmalloc takes in a kernel, page tables and purges included, beside Linux's.

use crate::kernel::{self, Boot, Image, PASSED};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// A row of a table: our count by its name, Linux's, and how many at most.
struct Row {
    name: &'static str,
    linux_6_1: Option<u64>,
    linux_6_12: Option<u64>,
    most: Option<u64>,
}

const fn row(name: &'static str, linux_6_1: Option<u64>, linux_6_12: Option<u64>, most: Option<u64>) -> Row {
    Row { name, linux_6_1, linux_6_12, most }
}

/// Instructions for a pair of calls. Linux's were counted in the same way: one CPU, without mitigations.
const PAIRS: [Row; 16] = [
    row("unmapping/vmalloc/1", Some(3_700), Some(3_850), Some(1_000)),
    row("unmapping/vmalloc/16", Some(10_500), Some(12_400), Some(4_000)),
    row("unmapping/vmalloc/64", Some(32_600), Some(39_200), Some(12_000)),
    row("caching/vmalloc/1", Some(3_700), Some(3_850), None),
    row("caching/vmalloc/16", Some(10_500), Some(12_400), None),
    row("caching/vmalloc/64", Some(32_600), Some(39_200), None),
    row("scattered/vm_map_ram/1", None, Some(1_040), Some(350)),
    row("scattered/vm_map_ram/8", None, Some(1_780), None),
    row("scattered/vm_map_ram/16", None, Some(2_620), Some(1_200)),
    row("scattered/vm_map_ram/32", None, Some(4_260), None),
    row("scattered/vm_map_ram/64", None, Some(7_560), Some(4_000)),
    row("consecutive/vm_map_ram/1", None, Some(1_040), Some(350)),
    row("consecutive/vm_map_ram/8", None, Some(1_780), None),
    row("consecutive/vm_map_ram/16", None, Some(2_620), Some(1_200)),
    row("consecutive/vm_map_ram/32", None, Some(4_260), None),
    row("consecutive/vm_map_ram/64", None, Some(7_560), Some(4_000)),
];

/// Instructions of mapping 25,600 frames (100 MB) once, in runs of 2^order, by a list of them or by runs, and of unmapping them with a purge.
/// Linux's are not known. Without a look for runs each mapping took 473,525.
const VMAPS: [Row; 6] = [
    row("order-8/vmap", None, None, Some(160_000)),
    row("order-8/map_runs", None, None, Some(VMAP_BEFORE / 6)),
    row("order-9/vmap", None, None, Some(VMAP_BEFORE / 6)),
    row("order-9/map_runs", None, None, Some(VMAP_BEFORE / 20)),
    row("order-8/vunmap", None, None, None),
    row("order-9/vunmap", None, None, Some(20_000)),
];

const VMAP_BEFORE: u64 = 473_525;

/// Thousands of instructions for the driver's cases of 1000 turns: at most half of what the better of the two Linuxes takes.
const CASES: [Row; 16] = [
    case("unmapping/fix_size_alloc_test", Some(3_675), 3_808),
    case("unmapping/full_fit_alloc_test", Some(91_935), 89_983),
    case("unmapping/long_busy_list_alloc_test", Some(128_179), 142_656),
    case("unmapping/random_size_alloc_test", Some(27_446), 34_051),
    case("unmapping/fix_align_alloc_test", Some(26_885), 27_733),
    case("unmapping/random_size_align_alloc_test", Some(28_828), 28_470),
    case("unmapping/pcpu_alloc_test", Some(751_286), 737_093),
    case("unmapping/vm_map_ram_test", None, 1_033),
    case("caching/fix_size_alloc_test", Some(3_675), 3_808),
    case("caching/full_fit_alloc_test", Some(91_935), 89_983),
    case("caching/long_busy_list_alloc_test", Some(128_179), 142_656),
    case("caching/random_size_alloc_test", Some(27_446), 34_051),
    case("caching/fix_align_alloc_test", Some(26_885), 27_733),
    case("caching/random_size_align_alloc_test", Some(28_828), 28_470),
    case("caching/pcpu_alloc_test", Some(751_286), 737_093),
    case("caching/vm_map_ram_test", None, 1_033),
];

const fn case(name: &'static str, linux_6_1: Option<u64>, linux_6_12: u64) -> Row {
    let best = match linux_6_1 {
        Some(other) if other < linux_6_12 => other,
        _ => linux_6_12,
    };
    row(name, linux_6_1, Some(linux_6_12), Some(best / 2))
}

/// Counts, and prints the tables; or all counts as an object. Returns the counts.
pub(crate) fn run(json: bool) -> Result<BTreeMap<String, f64>> {
    kernel::find_qemu()?;
    let boot = Boot {
        cpus: 1,
        command_line: "count loops=1000",
        counts_instructions: true,
        limit: LIMIT,
        is_shown: false,
    };
    let run = Image::build()?.boot(boot)?;
    if !run.ended_with(PASSED) {
        bail!("the machine did not end well: {}", run.lines.join("\n"));
    }
    let counts = counts(&run.lines);
    let told = counts.iter().map(|(name, value)| ((*name).to_owned(), *value as f64)).collect();
    if json {
        let object: serde_json::Map<_, _> =
            counts.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        println!("{}", serde_json::Value::from(object));
        return Ok(told);
    }
    let pairs = print("instructions of a pair of calls", &PAIRS, &counts)?;
    println!();
    let vmaps = print("instructions of 100 MB in runs", &VMAPS, &counts)?;
    println!();
    match pairs + vmaps + print("thousands of instructions, 1000 turns", &CASES, &counts)? {
        0 => Ok(told),
        over => bail!("{over} rows take more instructions than they may"),
    }
}

/// The lines `count NAME VALUE`.
fn counts(lines: &[String]) -> HashMap<&str, u64> {
    lines.iter().filter_map(|line| count(line)).collect()
}

fn count(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.strip_prefix("count ")?.split_once(' ')?;
    Some((name, value.parse().ok()?))
}

/// Prints a table; how many of its rows are over their limits.
fn print(title: &str, rows: &[Row], counts: &HashMap<&str, u64>) -> Result<usize> {
    let mut rows_over = 0;
    println!("{title:42} {:>8} {:>8} {:>10} {:>9}", "vmalloc", "at most", "Linux 6.12", "Linux 6.1");
    for Row { name, linux_6_1, linux_6_12, most } in rows {
        let value = *counts.get(name).with_context(|| format!("there is no count of {name}"))?;
        let [most_text, new, old] = [most, linux_6_12, linux_6_1]
            .map(|cell| cell.map_or_else(|| "–".to_owned(), |cell| cell.to_string()));
        let is_over = most.is_some_and(|most| value > most);
        let remark = if is_over { "  too many" } else { "" };
        println!("{name:42} {value:>8} {most_text:>8} {new:>10} {old:>9}{remark}");
        rows_over += usize::from(is_over);
    }
    Ok(rows_over)
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn lines_that_count_are_read_and_others_are_not() {
        let lines = ["1 CPUs", "count a/b 17", "count c", "ok count x 1"].map(str::to_owned);
        assert_eq!(counts(&lines).into_iter().collect::<Vec<_>>(), [("a/b", 17)]);
    }
}
