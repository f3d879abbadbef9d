//! `vmalloc map`: pictures of a kernel's areas, and what is said where there can be none.

use crate::common::program::{assert_refused, json, piped, program, run, text};

const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmallocinfo.txt");
const HASHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmallocinfo-hashed.txt");

#[test]
fn the_map_fits_the_terminal_and_says_what_is_where() {
    for columns in ["60", "80", "200"] {
        let output = program("map").arg(REAL).env("COLUMNS", columns).output().expect("the program");
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).expect("text");
        let (map, summary) = text.split_once("small letters").expect("a legend");
        assert!(map.lines().all(|line| line.chars().count() <= columns.parse().expect("a number")), "{map}");
        for told in
            ["vmalloc, ", "modules, ", "0xffffc90000000000  ", " free ~", "V vmalloc: ", "R vm_map_ram: "]
        {
            assert!(map.contains(told), "{told}: {map}");
        }
        assert!(!text.contains('\x1b'), "no colours in a pipe");
        for told in
            ["83 areas", "By kind:", "unpurged vm_area", "Top callers:", "kernel_clone", "largest hole"]
        {
            assert!(summary.contains(told), "{told}: {summary}");
        }
    }
}

#[test]
fn compressed_copies_are_read_from_files_and_stdin() {
    let plain = text(&format!("map {REAL}"));
    for ending in ["xz", "gz", "zst"] {
        let file = format!("{REAL}.{ending}");
        assert_eq!(text(&format!("map {file}")), plain, "{ending}");
        let bytes = std::fs::read(&file).expect("there");
        let piped_in = |bytes: &[u8]| piped("map -", bytes);
        assert_eq!(String::from_utf8_lossy(&piped_in(&bytes).stdout), plain, "{ending}");
        assert_refused(&piped_in(&bytes[..bytes.len() - 20]), 2, "can't read -: ");
    }
}

#[test]
fn the_summary_is_json_too() {
    let (summary, code) = json(&format!("map {REAL} --json"));
    assert_eq!(code, Some(0));
    assert_eq!((&summary["addresses"], &summary["areas"]), (&"real".into(), &83.into()));
    let bytes: u64 =
        summary["kinds"].as_array().expect("kinds").iter().filter_map(|kind| kind["bytes"].as_u64()).sum();
    assert_eq!(summary["bytes"], bytes);
    assert_eq!(summary["windows"][0]["start"], "0xffffc90000000000");
    assert_eq!(summary["windows"][1]["name"], "modules");
}

#[test]
fn the_picture_is_written_and_well_formed() {
    let path = std::env::temp_dir().join(format!("vmalloc-map-{}.svg", std::process::id()));
    text(&format!("map {REAL} --svg {}", path.display()));
    let svg = std::fs::read_to_string(&path).expect("the picture");
    std::fs::remove_file(&path).expect("a file of our own");
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let panes = document.descendants().filter(|node| node.attribute("class") == Some("pane")).count();
    assert_eq!(panes, 2);
    assert!(svg.contains("kernel_clone+0xc2/0x430, vmalloc"));
}

#[test]
fn hidden_addresses_are_explained_and_sizes_still_told() {
    let zero: String =
        std::fs::read_to_string(HASHED).expect("a file").lines().fold(String::new(), |text, line| {
            let rest = line.split_once(' ').expect("words").1;
            text + &format!("0x{:016}-0x{:016} {rest}\n", 0, 0)
        });
    for (output, addresses) in [(run(&format!("map {HASHED}")), "hashed"), (piped("map -", &zero), "zero")] {
        for told in [addresses, "kernel.kptr_restrict=1", "as root"] {
            assert_refused(&output, 1, told);
        }
        let stdout = String::from_utf8(output.stdout).expect("text");
        assert!(stdout.starts_with("33 areas, ") && stdout.contains("kernel_clone"), "{stdout}");
    }
    let (summary, code) = json(&format!("map {HASHED} --json"));
    assert_eq!(
        (code, &summary["addresses"], summary["windows"].as_array().map(Vec::len)),
        (Some(1), &"hashed".into(), Some(0))
    );
}

/// The first two are of a phone's kernel: a vendor's word, and 89 % of what the file has.
#[test]
fn lines_that_are_odd_are_told_and_with_strict_an_error() {
    let lowmem = "0xc0000000-0xc7a00000 127926272 map_lowmem+0x0/0x240 phys=80000000 lowmem\n\
                  0xd1800000-0xd1802000    8192 of_iomap+0x28/0x34 phys=f9000000 ioremap\n";
    let broken = "0x1000-0x3000 8192 f pages=1 vmalloc\nwhat\n0x4000-0x5000 409\n";
    let overlapping = "0x1000-0x3000 8192 f vmap\n0x2000-0x4000 8192 g vmap\n";
    for (input, areas, note) in [
        (broken, "1 area, 8 KiB", "2 lines skipped; first line 2: it has no range"),
        (lowmem, "2 areas, 122 MiB", "1 line in doubt; first line 1: the word 'lowmem' is not known"),
        (overlapping, "2 areas, 16 KiB", "1 line in doubt; first line 2: it overlaps line 1"),
        (&lowmem.repeat(2), "2 areas, 122 MiB", "2 lines skipped; first line 3: it repeats line 1"),
    ] {
        for (line, code) in [("map -", 0), ("map - --strict", 1)] {
            let output = piped(line, input);
            // A line that was an area is missing.
            let code = if input == broken { 1 } else { code };
            let stderr = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(code), "{stderr}");
            assert!(stderr.starts_with(&format!("vmalloc: {note}\n")), "{stderr}");
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(stdout.contains(&format!("\n{areas}\n")), "{stdout}");
        }
    }
    let summary = String::from_utf8(piped("map -", lowmem).stdout).expect("text");
    assert!(summary.contains("1 area  lowmem"), "{summary}");
}

#[test]
fn missing_file_is_reported_in_one_line() {
    for (line, input, reason) in [
        ("map /nowhere", "", "can't read /nowhere: "),
        ("map -", "", "stdin has no line that is an area"),
        ("map -", "hello\nworld\n", "stdin has no line that is an area"),
        ("map", "", "required arguments"),
        ("map - --svg /nowhere/at/all", "0x1000-0x2000 4096 vmap\n", "can't write /nowhere/at/all: "),
    ] {
        assert_refused(&piped(line, input), 2, reason);
    }
}

#[test]
fn a_part_of_a_listing_is_no_success() {
    let line = "/proc/vmallocinfo:0xc0000000-0xc0002000    8192 of_iomap+0x30/0x38 ioremap\n";
    let lines =
        |count: u32| (0..count).map(|nth| line.replace("c000", &format!("c{nth:03}"))).collect::<String>();
    let whole = piped("map -", lines(3));
    let told = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(whole.status.success() && told.contains("3 areas, 24 KiB"), "{told}");
    let beside = piped("map -", format!("Hello,\n{}", lines(3)));
    assert_eq!(beside.status.code(), Some(0), "a line that has no area is none that is lost");
    for command in ["map -", "why - --bytes 1"] {
        let part = piped(command, format!("{}0xc0008000-0xc000a000 819", lines(3)));
        let said = String::from_utf8_lossy(&part.stderr).into_owned();
        assert_eq!(part.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("1 line with an area could not be read"), "{command}: {said}");
    }
}
