//! The drop-in for ax-memory-set answers as the original, calls its backends as the original, and keeps the same areas, for random programs.

mod played;

use played::{Played, Request, Seen, ours, theirs};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Returns the lowest free place by trying all: where the search begins, and the end of each area.
fn lowest_free(
    areas: &[Seen],
    hint: usize,
    size: usize,
    limit: (usize, usize),
    align: usize,
) -> Option<usize> {
    let is_valid = align.is_power_of_two() && size > 0 && size.is_multiple_of(align) && limit.0 < limit.1;
    let align_up = |address: usize| Some(address.checked_add(align - 1)? & !(align - 1));
    let from = if is_valid { align_up(hint.max(limit.0))? } else { return None };
    let ends = areas.iter().filter_map(|area| align_up(area.0 + area.1)).filter(|end| *end >= from);
    let is_free = |start: &usize| {
        let Some(end) = start.checked_add(size) else { return false };
        end <= limit.1 && areas.iter().all(|area| area.0 + area.1 <= *start || end <= area.0)
    };
    ends.chain([from]).filter(is_free).min()
}

/// What a program met.
#[derive(Debug, Default)]
struct Met {
    most: usize,
    /// How often the number of areas became large, and small again.
    turns: usize,
    found: usize,
    full: usize,
    /// Places of the original that are busy.
    busy: usize,
    refused: usize,
    repairs: usize,
}

const NAMES: [&str; 15] = [
    "protect",
    "protect_with_reported_flags",
    "extend_area",
    "rollback_extend_area",
    "unmap_exact",
    "unmap_metadata",
    "validate_unmap",
    "insert_prepared_area",
    "replace_area_metadata",
    "replace_exact_backend",
    "remember",
    "restore",
    "find",
    "overlaps",
    "clear",
];

/// A kind of programs.
struct Kind {
    /// The first address; the last is `GRAINS` grains above, or the very last of all.
    base: usize,
    /// Bounds of areas are multiples of one of these, the first far more often. The last is the smallest.
    grains: [usize; 2],
    /// The largest alignment that is asked for, as a power of two of the first grain.
    largest: u32,
}

const GRAINS: usize = 512;

fn play(kind: &Kind, seed: u64, met: &mut Met) {
    println!("grains {:x?} from {:#x}, seed {seed}", kind.grains, kind.base);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
    let [grain, fine] = kind.grains;
    let cells = GRAINS * grain / fine;
    let mut ours = ours::Set::new(kind.base, fine, cells);
    let mut theirs = theirs::Set::new(kind.base, fine, cells);
    let (mut grows, mut areas) = (true, Vec::new());
    for step in 0..6_000 {
        if (grows && areas.len() > 100) || (!grows && areas.len() < 20) || below(2_000) == 0 {
            (grows, met.turns) = (!grows, met.turns + 1);
        }
        // Few programs clear a set often.
        let names = NAMES.len() - usize::from(below(8) != 0);
        let name = match below(16) {
            0..8 if grows => "map",
            0..8 => "unmap",
            8..12 => ["map", "map", "unmap"][below(3)],
            _ => NAMES[below(names)],
        };
        let unit = if below(64) == 0 { fine } else { grain };
        let first = below(GRAINS * grain / unit);
        let size = (below(if name == "map" || grows { 4 } else { 9 }) * unit)
            .min((GRAINS * grain / unit - first) * unit);
        let mut request = Request {
            name,
            start: kind.base + first * unit,
            size,
            flags: 1 + below(60) as u8,
            word: below(1_000),
        };
        // Requests that name an area exactly.
        if let Some(area) = areas.get(below(2 * areas.len() + 1)).filter(|_| below(2) == 0) {
            let area: &Seen = area;
            (request.start, request.size) = (area.0, area.1);
            if name == "rollback_extend_area" {
                request.size = area.1 / 2;
            }
            if name == "extend_area" {
                let room = kind.base + (GRAINS * grain - fine) - (area.0 + area.1);
                request.size = (grain * below(3)).min(room / fine * fine);
            }
        } else if name == "extend_area" {
            continue;
        }
        let refusal = if below(4) == 0 { 1 + below(6) } else { 0 };
        ours.table().until_refusal.set(refusal);
        theirs.table().until_refusal.set(refusal);
        let (our, their) = (ours.play(request), theirs.play(request));
        let place = format!("step {step}, seed {seed}: {request:x?}, call {refusal} refused");
        assert_eq!(our, their, "{place}");
        assert_eq!(*ours.table().calls.borrow(), *theirs.table().calls.borrow(), "{place}");
        assert!(ours.table().cells == theirs.table().cells, "{place}");
        assert_eq!(ours.debug(), theirs.debug(), "{place}");
        areas = ours.areas();
        assert_eq!(areas, theirs.areas(), "{place}");
        ours.table().calls.borrow_mut().clear();
        theirs.table().calls.borrow_mut().clear();
        met.refused += usize::from(our == "Err(BadState)");
        met.repairs += usize::from(our == "Err(NeedsRepair)");
        met.most = met.most.max(areas.len());

        for _ in 0..4 {
            let unit = if below(3) == 0 { fine } else { grain };
            let address = |at: usize| kind.base.saturating_add(at * unit);
            let align = (unit << below(kind.largest as usize + 1)) >> below(2);
            let align = if below(40) == 0 { [0, 3, 1][below(3)] } else { align.max(1) };
            let size = align * [below(4), below(4), below(4), below(40)][below(4)];
            let size = if below(40) == 0 { size + 1 } else { size };
            let (hint, start) = (below(GRAINS * grain / unit + 20), below(GRAINS * grain / unit));
            let hint = address(hint) - usize::from(below(20) == 0);
            let mut limit = (address(start), address(start + below(GRAINS * grain / unit)));
            if below(3) != 0 {
                limit = (kind.base, kind.base.saturating_add(GRAINS * grain));
            }
            if below(20) == 0 {
                limit = (limit.1, limit.0);
            }
            let question =
                || format!("hint {hint:#x}, size {size:#x}, limit {limit:x?}, align {align:#x}; {place}");
            let our = ours.find_free(hint, size, limit, align);
            assert_eq!(our, lowest_free(&areas, hint, size, limit, align), "{}", question());
            let their = theirs.find_free(hint, size, limit, align);
            if our != their {
                // The original's only mistake: what it returns is not free.
                let start = their.unwrap_or_else(|| panic!("{}", question()));
                assert!(
                    areas.iter().any(|area| area.0 < start + size && start < area.0 + area.1),
                    "{}",
                    question()
                );
                assert!(align > fine, "{}", question());
                met.busy += 1;
            }
            met.found += usize::from(our.is_some());
            met.full += usize::from(our.is_none());
        }
    }
}

fn programs(kind: Kind) -> Met {
    let mut met = Met::default();
    (0..6).for_each(|seed| play(&kind, seed, &mut met));
    println!("{met:?}");
    assert!(met.most > 100 && met.turns > 6 && met.refused > 0 && met.repairs > 0, "{met:?}");
    assert!(met.found > 1_000 && met.full > 1_000, "{met:?}");
    met
}

#[test]
fn a_set_of_pages_is_the_originals() {
    programs(Kind { base: 0, grains: [0x1000, 0x1000], largest: 0 });
}

#[test]
fn a_set_below_the_last_address_is_the_originals() {
    let base = usize::MAX - GRAINS * 0x1000 + 1;
    programs(Kind { base, grains: [0x1000, 0x1000], largest: 2 });
    programs(Kind { base: usize::MAX - GRAINS, grains: [1, 1], largest: 2 });
}

/// Areas of pages first, then some of 128 bytes, and areas of single bytes.
#[test]
fn a_set_of_finer_areas_is_the_originals() {
    programs(Kind { base: 0x40_0000, grains: [0x1000, 0x80], largest: 3 });
    programs(Kind { base: 0x40_0000, grains: [16, 1], largest: 3 });
}

/// The original returns addresses of an area that starts between the end of the area at the hint and the next multiple
/// of the alignment.
#[test]
fn an_alignment_larger_than_areas_finds_free_addresses() {
    let met = programs(Kind { base: 0, grains: [0x1000, 0x1000], largest: 4 });
    assert!(met.busy > 0, "{met:?}");

    let (mut ours, mut theirs) = (ours::Set::new(0, 0x1000, 16), theirs::Set::new(0, 0x1000, 16));
    for (start, size) in [(0, 0x3000), (0x3000, 0x3000)] {
        let map = Request { name: "map", start, size, flags: 1, word: 5 };
        assert_eq!((ours.play(map), theirs.play(map)), ("Ok(())".to_owned(), "Ok(())".to_owned()));
    }
    // The area at the hint ends at 0x3000, and the next area covers 0x4000.
    assert_eq!(theirs.find_free(0x2000, 0x2000, (0, 0x1_0000), 0x2000), Some(0x4000), "not free");
    assert_eq!(ours.find_free(0x2000, 0x2000, (0, 0x1_0000), 0x2000), Some(0x6000));
}
