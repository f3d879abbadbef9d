//! `vmalloc-lab replay`: what it reads, refuses and prints. How fast anything is, no test says.

use crate::common::{assert_refused, json, piped, run, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A trace that the lab has.
fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../designs/tests/data").join(name);
    path.to_str().expect("text").into()
}

/// A file of our own that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("vmalloc-replay-{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("a place for files");
        Self(path)
    }

    fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A trace with two damaged lines.
fn damaged(name: &str) -> Scratch {
    let whole = std::fs::read_to_string(data("short.txt")).expect("there");
    let lines: Vec<_> = whole.lines().enumerate().collect();
    let damaged = lines.iter().map(|&(index, line)| match index {
        19 => "garbage\n".into(),
        29 => format!("{}\n", &line[..line.len() - 9]),
        _ => format!("{line}\n"),
    });
    Scratch::new(name, damaged.collect::<String>().as_bytes())
}

#[test]
fn traces_of_all_formats_are_told_and_replayed() {
    let names = ["short.txt", "short.txt.xz", "la57.txt.xz", "modules.txt.zst", "program.txt.gz"];
    let files = names.map(data).join(" ");
    let (report, code) = json(&format!("replay --json --design all {files}"));
    assert_eq!((code, &report["ok"]), (Some(0), &Value::Bool(true)), "{report}");
    let inputs = report["inputs"].as_array().expect("inputs");
    let told: Vec<_> = inputs
        .iter()
        .map(|input| {
            (input["format"].as_str(), input["compression"].as_str(), input["lines"]["total"].as_u64())
        })
        .collect();
    let expected = [
        ("ftrace", "plain", 400),
        ("ftrace", "xz", 400),
        ("ftrace", "xz", 825),
        ("ftrace", "zstd", 514),
        ("strace", "gzip", 521),
    ];
    assert_eq!(told, expected.map(|(format, packed, lines)| (Some(format), Some(packed), Some(lines))));
    for input in inputs {
        assert_eq!(input["lines"]["damaged"], 0);
        for design in input["designs"].as_array().expect("designs") {
            check(design);
        }
    }
}

/// Numbers of a design that must fit together.
fn check(design: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}: {design}"));
    let calls = number(&design["alloc"]["count"]) + number(&design["free"]["count"]);
    assert_eq!(number(&design["calls"]), calls);
    for call in ["alloc", "free"] {
        let of = |name| number(&design[call][name]);
        assert!(["p50", "p99", "p99.9", "p99.99", "max"].map(of).is_sorted(), "{design}");
    }
    for window in design["windows"].as_array().expect("windows") {
        assert!(number(&window["peak_busy_pages"]) <= number(&window["peak_span_pages"]));
        assert!(!window["samples"].as_array().expect("samples").is_empty());
    }
}

#[test]
fn the_text_names_what_was_read_and_each_design() {
    let text = text(&format!("replay --design all {}", data("la57.txt.xz")));
    let (design, _) = json(&format!("replay --json --design all {}", data("la57.txt.xz")));
    for name in design["inputs"][0]["designs"].as_array().expect("designs") {
        assert!(text.contains(name["design"].as_str().expect("a name")), "{text}");
    }
    for words in [
        "la57.txt.xz: ftrace in xz, 825 lines",
        "813 events, 12 headers, 0 others, 0 damaged",
        "by kind: 395 allocations, 385 frees, 33 purges",
        "777 events replayed as 777 calls on 2 CPUs, purges at thresholds",
        "unmatched: 3 frees of areas from before the trace",
        "ignored: 33 purges",
        "areas: 13 live at the end",
        "largest free: least",
        "over time",
        "lazy, 0 to ",
        "▁",
        "Window 0xff5e56a740000000-0xff9056a740000000, 12.5 PiB",
        "Everything was free again, and whole",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn damage_is_counted_or_stops() {
    let file = damaged("damaged");
    let text = text(&format!("replay {}", file.path()));
    for words in ["2 damaged", "line 20: not a line of this format", "line 30: no valid "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for line in ["", "--json"] {
        let output = run(&format!("replay --strict {line} {}", file.path()));
        assert_refused(&output, 1, "line 20: not a line of this format");
        assert_eq!(output.stdout.is_empty(), line.is_empty());
    }
    assert_eq!(run(&format!("replay --strict {}", data("short.txt"))).status.code(), Some(0));
}

#[test]
fn purges_of_the_trace_can_be_chosen() {
    for (line, counted) in [("", false), ("--purges trace", true)] {
        let (report, code) = json(&format!("replay --json {line} {}", data("modules.txt.zst")));
        assert_eq!(code, Some(0), "{report}");
        let input = &report["inputs"][0];
        assert_eq!(input["events"]["ignored"]["purges"] == 0, counted, "{report}");
    }
}

#[test]
fn spans_with_both_kinds_of_purges_are_side_by_side() {
    let line = format!("--purges both --design nodes --design augmented {}", data("modules.txt.zst"));
    let (report, code) = json(&format!("replay --json {line}"));
    assert_eq!((code, &report["purges"]), (Some(0), &"both".into()), "{report}");
    let inputs = report["inputs"].as_array().expect("inputs");
    assert_eq!(inputs.iter().map(|input| &input["purges"]).collect::<Vec<_>>(), ["own", "trace"]);
    let hits = |design: usize| &inputs[0]["designs"][design]["hits"];
    assert!(hits(0)["allocs"].as_u64() > hits(0)["kept"].as_u64() && hits(1).is_null(), "{report}");
    let text = text(&format!("replay {line}"));
    for words in
        ["purges at thresholds", "purges as in the trace", "÷ traced", "own purges:", "traced purges:"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (pressed, code) = json(&format!("replay --json --pressure 10 {}", data("modules.txt.zst")));
    let calls = |report: &Value| report["inputs"][0]["calls"].as_u64().expect("calls");
    assert_eq!((code, calls(&pressed)), (Some(0), calls(&report) + calls(&report) / 10));
}

#[test]
fn standard_input_is_read() {
    let output = piped("replay --json -", std::fs::read(data("la57.txt.xz")).expect("there"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["inputs"][0]["name"], output.status.code()), (&"standard input".into(), Some(0)));
}

/// Runs `replay -` with `--json`, and returns the account of the lines, stderr, and the exit code.
fn account(line: &str, input: impl AsRef<[u8]>) -> (Value, String, Option<i32>) {
    let output = piped(&format!("replay --json {line} -"), input);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stderr = String::from_utf8(output.stderr).expect("text");
    (report["inputs"][0]["lines"].clone(), stderr, output.status.code())
}

const CALLS: &str = "1795256477.579630 mmap(NULL, 139264, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000\n\
                     1795256477.579730 munmap(0x7f0000000000, 139264) = 0\n";

#[test]
fn quoted_and_numbered_traces_are_read_in_every_encoding() {
    let utf_16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{CALLS}").encode_utf16().flat_map(order).collect()
    };
    let mut inputs =
        vec![utf_16(u16::to_le_bytes), utf_16(u16::to_be_bytes), format!("\u{feff}{CALLS}").into()];
    for margin in ["> ", "> > ", "# ", "12:", "[    1.200000] "] {
        inputs.push(CALLS.lines().map(|line| format!("{margin}{line}\n")).collect::<String>().into());
    }
    for input in inputs {
        let (lines, stderr, code) = account("--strict", &input);
        let told = [&lines["events"], &lines["total"]].map(Value::as_u64);
        assert_eq!((told, code), ([Some(2); 2], Some(0)), "{}: {stderr}", String::from_utf8_lossy(&input));
    }
}

#[test]
fn a_quoted_call_among_others_is_no_frame_of_a_stack() {
    let frame = " > /usr/lib/libc.so.6(mmap64+0x1) [0x1]\n";
    let (lines, _, code) = account("", format!("{CALLS}{frame}> {CALLS}"));
    assert_eq!(
        [&lines["events"], &lines["other"], &lines["damaged"]].map(Value::as_u64),
        [4, 1, 0].map(Some)
    );
    assert_eq!(code, Some(0));
}

#[test]
fn processes_that_share_one_space_in_a_replay_are_told() {
    let fork = format!("7 {CALLS}7 clone(child_stack=NULL, flags=SIGCHLD) = 8\n8 {CALLS}");
    let thread = fork.replace("=SIGCHLD", "=CLONE_VM|CLONE_THREAD");
    for (input, spaces) in [(fork, 2), (thread, 1)] {
        let (lines, stderr, code) = account("", input);
        assert_eq!((lines["spaces"].as_u64(), code), (Some(spaces), Some(0)));
        assert_eq!(stderr.contains("the calls of 2 address spaces"), spaces == 2, "{stderr}");
    }
}

#[test]
fn a_made_up_trace_is_replayed() {
    let (report, code) = json("replay --json --synthetic 30000");
    let input = &report["inputs"][0];
    assert_eq!(
        (code, &input["events"]["replayed"], &input["calls"]),
        (Some(0), &30_000.into(), &30_000.into())
    );
    // Whatever its length, areas are freed and their memory becomes others'.
    for events in [20, 1000, 20_000] {
        let text = text(&format!("replay --synthetic {events}"));
        let frees = (events - events / 4u64).div_ceil(2);
        assert!(text.contains(&format!("{} allocations, {frees} frees", events - frees)), "{text}");
    }
}

#[test]
fn bad_usage_and_files_that_are_no_traces_are_one_line() {
    let (empty, text) = (Scratch::new("empty", b""), Scratch::new("text", b"once upon a time\n"));
    let eventless = Scratch::new("eventless", b"7 exit_group(0) = ?\nwhat\n");
    let (empty, text, short, eventless) = (empty.path(), text.path(), data("short.txt"), eventless.path());
    for (line, reason) in [
        ("replay".to_owned(), "a trace is needed"),
        ("replay /nowhere/at/all".to_owned(), "/nowhere/at/all can't be read"),
        ("replay /".to_owned(), "can't be read"),
        (format!("replay {empty}"), "is empty"),
        (format!("replay {eventless}"), "has no event: of 2 lines 1 can't be read"),
        (format!("replay {text}"), "it begins with 'once upon a time'"),
        (format!("replay {}", data("vmallocinfo.txt")), "a listing from /proc/vmallocinfo"),
        (format!("replay --design slab {short}"), "no design is named 'slab'; there are "),
        (format!("replay --purges never {short}"), "never"),
        (format!("replay --pressure 0 {short}"), "zero"),
        (format!("replay --synthetic 5 {short}"), "takes the place of a FILE"),
        ("replay --synthetic 0".to_owned(), "0 is not in 1..="),
        ("replay - -".to_owned(), "read once only"),
    ] {
        let output = run(&line);
        assert_refused(&output, 2, reason);
        assert!(output.stdout.is_empty(), "{line}");
    }
}
