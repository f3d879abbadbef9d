use super::*;
use proptest::prelude::*;

const REAL: &str = include_str!("../../../cli/tests/data/vmallocinfo.txt");
const HASHED: &str = include_str!("../../../cli/tests/data/vmallocinfo-hashed.txt");

fn read(text: &str) -> Vmallocinfo {
    Vmallocinfo::read(text.as_bytes()).expect("nothing fails in memory")
}

#[test]
fn every_line_is_accounted_for() {
    for text in [REAL, HASHED] {
        let info = read(text);
        assert_eq!((info.entries.len(), info.damaged.len()), (text.lines().count(), 0));
        assert_eq!((info.lines, info.page_bytes()), (text.lines().count() as u64, 4096));
    }
}

#[test]
fn a_line_tells_its_range_caller_and_kind() {
    let info = read(
        "0xffffc90000020000-0xffffc90000025000   20480 kernel_clone+0xc2/0x430 pages=4 vmalloc N0=4\n\
         0xffffc90000045000-0xffffc90000047000    8192 map+0x140/0x270 [virtio_pci] phys=0x00000000fe000000 ioremap\n\
         0xffffc90000470000-0xffffc90000475000   20480 unpurged vm_area\n\
         \n\
         0x0000000080001000-0x0000000080003000    8192 - pages=1 vmalloc user\n",
    );
    let told: Vec<_> =
        info.entries.iter().map(|it| (it.line, it.caller.as_deref(), &*it.kind, it.class())).collect();
    assert_eq!(
        told,
        [
            (1, Some("kernel_clone+0xc2/0x430"), "vmalloc", Class::Vmalloc),
            (2, Some("map+0x140/0x270 [virtio_pci]"), "ioremap", Class::Ioremap),
            (3, None, "unpurged vm_area", Class::Lazy),
            (5, None, "vmalloc user", Class::User),
        ]
    );
    assert_eq!((info.lines, info.damaged.len()), (5, 0));
    assert_eq!(info.entries[0].guard_bytes(4096), Some(4096));
}

#[test]
fn hidden_addresses_are_recognized() {
    assert_eq!(read(REAL).addresses, Addresses::Real);
    assert_eq!((read(HASHED).addresses, read(HASHED).strips()), (Addresses::Hashed, Vec::new()));
    for hidden in ["0x0000000000000000", "0x(____ptrval____)", "0x00000000"] {
        let text: String = REAL
            .lines()
            .map(|line| format!("{hidden}-{hidden} {}\n", line.split_once(' ').expect("words").1))
            .collect();
        let info = read(&text);
        assert_eq!((info.addresses, info.damaged.len()), (Addresses::Zero, 0));
        assert_eq!(info.entries.len(), read(REAL).entries.len());
    }
}

#[test]
fn windows_are_strips_of_their_own() {
    let info = read(REAL);
    let strips = info.strips();
    let names: Vec<_> = strips.iter().map(|strip| (strip.name.as_str(), strip.start)).collect();
    assert_eq!(names[0], ("vmalloc", 0xffff_c900_0000_0000));
    assert_eq!((names.len(), names[1].0), (2, "modules"));
    let areas: usize = strips.iter().map(|strip| strip.areas.len()).sum();
    assert_eq!(areas, info.entries.len());
}

#[test]
fn damaged_lines_are_told_by_number_and_skipped() {
    let good = "0xffffc90000020000-0xffffc90000025000 20480 f+0x1/0x2 pages=4 vmalloc";
    let text = format!(
        "{good}\nnonsense\n{good}\n0xffffc90000020000-0xffffc90000026000 20480 f\n0xffffc90000020000-0x 3\n\
         +0x1-0x2 3\n0x1-0x2 many\n{good} pages=x\n{good} more words\n0x1ffffc90000020000-0x2 1 f\n"
    );
    let told: Vec<_> = read(&text).damaged.iter().map(|it| (it.line, it.reason)).collect();
    assert_eq!(
        told,
        [
            (2, "it has no range"),
            (4, "the size is not that of the range"),
            (5, "it has no end address"),
            (6, "it begins with no address"),
            (7, "it has no size"),
            (8, "its number of pages is none"),
            (9, "it has a word too many"),
            (10, "it begins with no address"),
        ]
    );
}

#[test]
fn a_line_without_end_is_one_damaged_line() {
    let text = format!("0x1-{}\n0x1000-0x2000 4096 f vmap\n", "0".repeat(1 << 20));
    let info = read(&text);
    assert_eq!((info.lines, info.entries.len(), info.damaged.len()), (2, 1, 1));
}

#[test]
fn pages_of_64_kib_are_recognized() {
    let info =
        read("0x100000-0x150000 327680 f pages=4 vmalloc\n0x200000-0x220000 131072 f pages=1 vmalloc\n");
    assert_eq!(info.page_bytes(), 64 << 10);
}

proptest! {
    /// Every line of a changed file is an area, damaged, or empty.
    #[test]
    fn mutated_files_are_read(
        changes in prop::collection::vec((0..REAL.len(), any::<u8>(), 0..3), 0..40),
    ) {
        let mut text = REAL.as_bytes().to_vec();
        for (place, byte, how) in changes {
            let place = place.min(text.len() - 1);
            match how {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                _ => drop(text.remove(place)),
            }
        }
        let info = Vmallocinfo::read(&*text).expect("nothing fails in memory");
        prop_assert!(info.entries.len() + info.damaged.len() <= info.lines as usize);
        let words = |line: &&[u8]| !String::from_utf8_lossy(line).trim().is_empty();
        let full = text.split(|&byte| byte == b'\n').filter(words).count();
        prop_assert_eq!(info.entries.len() + info.damaged.len(), full);
        for strip in info.strips() {
            prop_assert!(strip.areas.iter().all(|area| area.start >= strip.start && area.end <= strip.end));
        }
    }
}
