use super::*;
use proptest::prelude::*;

const REAL: &str = include_str!("../../../tests/data/vmallocinfo.txt");
const HASHED: &str = include_str!("../../../tests/data/vmallocinfo-hashed.txt");

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
         0x0000000080001000-0x0000000080003000    8192 - pages=1 vmalloc user\n\
         0x0000000090001000-0x0000000090003000    8192 percpu reserved\n",
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
            (6, None, "percpu reserved", Class::Percpu),
        ]
    );
    assert_eq!((info.lines, info.damaged.len()), (6, 0));
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

/// The remarks in words.
fn told(remarks: &[Remark]) -> Vec<(u64, String)> {
    remarks.iter().map(|remark| (remark.line, remark.reason.to_string())).collect()
}

#[test]
fn damaged_lines_are_told_by_number_and_skipped() {
    let good = "0xffffc90000020000-0xffffc90000025000 20480 f+0x1/0x2 pages=4 vmalloc";
    let text = format!(
        "{good}\nnonsense\n{}\n0xffffc90000020000-0xffffc90000026000 20480 f\n0xffffc90000020000-0x 3\n\
         +0x1-0x2 3\n0x1-0x2 many\n{good} pages=x\n{good}\n0x1ffffc90000020000-0x2 1 f\n",
        good.replace("c900", "c901"),
    );
    let info = read(&text);
    let expected = [
        (2, "it has no range"),
        (4, "the size is not that of the range"),
        (5, "it has no end address"),
        (6, "it begins with no address"),
        (7, "it has no size"),
        (8, "its number of pages is none"),
        (9, "it repeats line 1"),
        (10, "it begins with no address"),
    ];
    assert_eq!(told(&info.damaged), expected.map(|(line, reason)| (line, reason.to_owned())));
    assert_eq!((info.entries.len(), info.doubtful.len()), (2, 0));
}

/// Each range and size is valid, so the area counts.
#[test]
fn unknown_words_are_part_of_the_kind() {
    let info = read(
        "0xc0000000-0xc7a00000 127926272 map_lowmem+0x0/0x240 phys=80000000 lowmem\n\
         0xc7c00000-0xc7c02000 8192 of_iomap+0x28/0x34 phys=f9000000 ioremap sealed # mine\n",
    );
    let kinds: Vec<_> = info.entries.iter().map(|entry| &*entry.kind).collect();
    assert_eq!((kinds, info.damaged.len()), (vec!["lowmem", "ioremap sealed # mine"], 0));
    let words = ["the word 'lowmem' is not known", "the word 'sealed' is not known"];
    assert_eq!(told(&info.doubtful), [(1, words[0].to_owned()), (2, words[1].to_owned())]);
    assert_eq!((info.entries[0].class(), info.entries[1].class()), (Class::Other, Class::Ioremap));
}

#[test]
fn a_line_that_repeats_or_overlaps_an_earlier_one_is_told() {
    for text in [REAL, HASHED] {
        let (once, twice) = (read(text), read(&text.repeat(2)));
        assert_eq!((&twice.entries, twice.damaged.len()), (&once.entries, once.entries.len()));
        assert_eq!(twice.damaged[0].reason, Fault::Repeats(1));
    }
    let info = read(
        "0x9000-0xa000 4096 a vmap\n0x1000-0x8000 28672 b vmap\n0x2000-0x3000 4096 c vmap\n\
         0x7000-0x9000 8192 d vmap\n0x2000-0x3000 4096 c vmap lowmem\n0x2000-0x3000 4096 c vmap\n",
    );
    let overlaps = |line| format!("it overlaps line {line}");
    assert_eq!(told(&info.doubtful)[..2], [(3, overlaps(2)), (4, overlaps(2))]);
    assert_eq!((info.entries.len(), told(&info.damaged)), (5, vec![(6, "it repeats line 3".to_owned())]));
}

#[test]
fn a_margin_is_no_part_of_a_line() {
    let quoted = |margin: &dyn Fn(usize) -> String| -> String {
        REAL.lines().enumerate().map(|(index, line)| format!("{}{line}\n", margin(index))).collect()
    };
    let margins: [&dyn Fn(usize) -> String; 4] =
        [&|_| "> ".into(), &|_| "# ".into(), &|line| format!("{}:", line + 1), &|_| "[   12.345678] ".into()];
    for margin in margins {
        assert_eq!(read(&quoted(margin)), read(REAL), "{}", margin(0));
    }
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

#[test]
fn areas_whose_line_ends_were_lost_are_read_one_by_one() {
    let lines = "0xffffc90006404000-0xffffc90006406000    8192 a+0x1/0x2 [net] pages=1 vmalloc N0=1\n";
    let lines: String = (0..40_000).map(|nth| lines.replace("90006", &format!("{nth:05x}"))).collect();
    let (info, joined) = (read(&lines), read(&lines.replace('\n', "")));
    assert_eq!((info.entries.len(), info.lost()), (40_000, 0));
    assert_eq!((joined.entries.len(), joined.lost(), joined.damaged.len()), (40_000, 0, 0));
    let same = info.entries.iter().zip(&joined.entries).all(|(one, other)| {
        (one.start, one.end, &one.caller, &one.kind) == (other.start, other.end, &other.caller, &other.kind)
    });
    assert!(same);
}

#[test]
fn an_area_that_ends_with_the_addresses_has_its_bytes() {
    for text in [
        "0xffffffffffffe000-0x0000000000000000   8192 x+0x1/0x2 pages=1 vmalloc\n",
        "0xffffe000-0x00000000   8192 x+0x1/0x2 pages=1 vmalloc\n",
    ] {
        let info = read(text);
        assert_eq!((info.addresses, info.entries.len(), info.lost()), (Addresses::Real, 1, 0), "{text}");
        assert_eq!(info.entries[0].bytes, 8192);
        let strip = &info.strips()[0];
        assert!(strip.areas.iter().all(|area| area.start < area.end), "{strip:?}");
    }
}

#[test]
fn a_line_with_an_area_that_can_not_be_read_is_lost_and_another_is_not() {
    let whole = "0xc0000000-0xc0002000 8192 f ioremap\n".repeat(3);
    for (line, lost) in [("Hello,", 0), ("0xc0000000-0xc0", 1), ("0xc0004000-0xc0006000 819 f ioremap", 1)] {
        assert_eq!(read(&format!("{whole}{line}\n")).lost(), lost, "{line}");
    }
}

proptest! {
    /// Every line of a changed file is an area, damaged, or empty, or has several areas.
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
        let words = |line: &&[u8]| !String::from_utf8_lossy(line).trim().is_empty();
        let full = text.split(|&byte| byte == b'\n').filter(words).count();
        // A change may take the end of a line away: then it has two areas.
        let told = info.entries.len() + info.damaged.len();
        prop_assert!((full..=full + 40).contains(&told), "{} of {}", told, full);
        for strip in info.strips() {
            prop_assert!(strip.areas.iter().all(|area| area.start >= strip.start && area.end <= strip.end));
        }
    }
}
