//! `vmalloc map`: pictures of a kernel's areas, and what is said where there can be none.

use crate::common::{json, run, text, vmalloc};
use std::io::Write;
use std::process::Stdio;

const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmallocinfo.txt");
const HASHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmallocinfo-hashed.txt");

/// Runs the command on `input` as stdin.
fn piped(line: &str, input: impl AsRef<[u8]>) -> std::process::Output {
    let mut command = vmalloc(line);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    child.stdin.take().expect("a pipe").write_all(input.as_ref()).expect("a reader");
    child.wait_with_output().expect("an end")
}

#[test]
fn the_map_fits_the_terminal_and_says_what_is_where() {
    for columns in ["60", "80", "200"] {
        let output = vmalloc("map").arg(REAL).env("COLUMNS", columns).output().expect("the program");
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
        let cut = piped_in(&bytes[..bytes.len() - 20]);
        let stderr = String::from_utf8_lossy(&cut.stderr);
        assert_eq!((cut.status.code(), stderr.lines().count()), (Some(2), 1), "{ending}: {stderr}");
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
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        for told in [addresses, "kernel.kptr_restrict=1", "as root"] {
            assert!(stderr.contains(told), "{stderr}");
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

#[test]
fn damaged_lines_are_counted_and_with_strict_an_error() {
    let text = "0x1000-0x3000 8192 f pages=1 vmalloc\nwhat\n0x4000-0x5000 409\n";
    for (line, code) in [("map -", 0), ("map - --strict", 1)] {
        let output = piped(line, text);
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(stderr, "vmalloc: 2 damaged lines skipped; first line 2: it has no range\n");
        assert!(String::from_utf8_lossy(&output.stdout).contains("\n1 area, 8 KiB\n"));
    }
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
        let output = piped(line, input);
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.starts_with("vmalloc: ") && stderr.contains(reason), "{stderr}");
    }
}
