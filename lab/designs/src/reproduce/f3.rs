//! F3: blocks of short mappings at the tail of their queue (2015).

use super::{Claim, Effort, Figure, Outcome, Progress, Table};
use crate::blocks::Variant;
use crate::blocks::scenarios::{self, FunctionProfile, Outcome as Blocks};
use crate::table::figure;

/// Slots of a block: where it was published, and in the kernels that were measured since.
const SLOTS: [u64; 2] = [1024, 256];
const SCENARIOS: [u8; 3] = [1, 2, 3];
const VARIANTS: [Variant; 3] = [Variant::Head, Variant::Tail, Variant::Ours];

/// A scenario with one queue policy: blocks made and freed, and what that may be off by.
struct Known {
    source: &'static str,
    slots: u64,
    scenario: u8,
    /// Head, then tail.
    blocks: [[u64; 2]; 2],
    off_by: [[u64; 2]; 2],
}

const EXACT: [[u64; 2]; 2] = [[0; 2]; 2];

/// The second published scenario is drawn at random from a seed that is not told: a tenth either
/// way for what is made; of the blocks at the tail all but 3 were freed. With the generator of the
/// measurements since, all counts are exact.
const KNOWN: [Known; 8] = [
    known("published", 1024, 1, [[1000, 0], [993, 992]], EXACT),
    known("published", 1024, 2, [[420, 37], [414, 412]], [[42, 37], [41, 41]]),
    known("published", 1024, 3, [[7001, 6993], [7000, 7000]], [[1, 1], [1, 1]]),
    known("Linux 6.1 and 6.12", 1024, 1, [[1000, 0], [993, 992]], EXACT),
    known("Linux 6.1 and 6.12", 1024, 2, [[423, 51], [417, 414]], EXACT),
    known("Linux 6.1 and 6.12", 256, 1, [[1000, 0], [969, 968]], EXACT),
    known("Linux 6.1 and 6.12", 256, 2, [[1735, 762], [1667, 1663]], EXACT),
    known("Linux 6.1 and 6.12", 256, 3, [[7001, 6993], [7000, 7000]], EXACT),
];

const fn known(
    source: &'static str,
    slots: u64,
    scenario: u8,
    blocks: [[u64; 2]; 2],
    off_by: [[u64; 2]; 2],
) -> Known {
    Known { source, slots, scenario, blocks, off_by }
}

/// One run of a scenario.
struct Row {
    slots: u64,
    scenario: u8,
    variant: Variant,
    blocks: Blocks,
}

pub(super) fn steps() -> u64 {
    (SLOTS.len() * SCENARIOS.len() * VARIANTS.len()) as u64
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let mut rows = Vec::new();
    for slots in SLOTS {
        for scenario in SCENARIOS {
            for variant in VARIANTS {
                rows.push(Row { slots, scenario, variant, blocks: scenarios::run(scenario, slots, variant) });
                progress.step();
            }
        }
    }
    let claims = KNOWN.iter().flat_map(|known| claims(known, &rows)).collect();
    let head = ["slots, scenario, variant", "function", "Hit", "Time", "Avg", "s^2", "made / freed"];
    let title = "A profile of both functions, in µs: calls, their time, its mean and variance";
    let table = Table::new(title, &head, rows.iter().flat_map(profile).collect());
    Outcome::new(Figure::F3, effort, claims, vec![table], &NOTES)
}

fn claims(known: &Known, rows: &[Row]) -> Vec<Claim> {
    let claim = |(index, variant): (usize, Variant)| {
        let row = rows
            .iter()
            .find(|row| (row.slots, row.scenario, row.variant) == (known.slots, known.scenario, variant));
        let blocks = &row.expect("every scenario is run").blocks;
        let what =
            format!("{}: {} slots, scenario {}, {}", known.source, known.slots, known.scenario, variant);
        Claim::of_counts(what, known.blocks[index], [blocks.made, blocks.freed], known.off_by[index])
    };
    [Variant::Head, Variant::Tail].into_iter().enumerate().map(claim).collect()
}

fn profile(row: &Row) -> [Vec<String>; 2] {
    let name = format!("{}, {}, {}", row.slots, row.scenario, row.variant);
    let line = |name: &str, function: &str, it: &FunctionProfile, blocks: String| {
        vec![
            name.to_owned(),
            function.to_owned(),
            it.hit.to_string(),
            figure(it.time_us),
            format!("{:.3}", it.avg_us),
            format!("{:.3}", it.s2_us2),
            blocks,
        ]
    };
    let blocks = format!("{} / {}", row.blocks.made, row.blocks.freed);
    [line(&name, "map", &row.blocks.map, blocks), line("", "unmap", &row.blocks.unmap, String::new())]
}

const NOTES: [&str; 2] = [
    "Scenario 1: 1,000 × (16 pages, then as many times 8 pages as one block has room for, less one). 2: 10,000 × 1 to 64 pages at random. 3: 1,000 × (for \
     each order 0 to 6 a block's worth less one, then one of each order). Each mapping is unmapped at once.",
    "Ours hands slots out again after a flush, so it makes few blocks and keeps them. Times hold two readings of the clock for each call.",
];
