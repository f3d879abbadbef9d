//! The command line: what it explains, what it refuses, and pipes that close.

use crate::common::{assert_refused, json, program, run, text};

#[test]
fn without_a_command_help_fits_one_screen_and_is_bad_usage() {
    let output = run("");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true));
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.lines().count() <= 24, "{text}");
    for word in ["Usage: vmalloc-lab", "test ", "latency ", "Examples", "--json"] {
        assert!(text.contains(word), "{word}");
    }
    let (overview, code) = json("--json");
    assert_eq!((&overview["name"], code), (&"vmalloc-lab".into(), Some(2)));
}

#[test]
fn version_and_help_are_there() {
    assert_eq!(text("--version"), format!("vmalloc-lab {}\n", env!("CARGO_PKG_VERSION")));
    assert!(text("--help").contains("Usage: vmalloc-lab"));
    let help = text("test --help");
    for word in ["nr_threads", "test_loop_count", "performance", "pcpu_alloc_test", "vrealloc_test"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn the_table_of_cases_is_listed() {
    assert_eq!(text("test --list").lines().count(), 14);
    let (list, _) = json("test --list --json");
    assert_eq!(list["cases"][1]["name"], "full_fit_alloc_test");
    assert_eq!(list["cases"][7]["bit"], 128);
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    for (line, reason) in [
        ("frobnicate", "frobnicate"),
        ("frobnicate", "; see 'vmalloc-lab --help'"),
        ("--frobnicate", "--frobnicate"),
        ("latency extra", "extra"),
        ("test --strategy hoard", "hoard"),
        ("test --nodes 0", "'--nodes <N>': 0 is not in 1..=128"),
        ("latency --nodes 129", "'--nodes <N>': 129 is not in 1..=128"),
        ("test quick", "'quick' is no preset, no case and no parameter"),
        ("tset", "'tset', did you mean 'test'?; see 'vmalloc-lab --help'"),
        ("latency --statregy unmap", "did you mean '--strategy'?"),
        ("test smok", "did you mean 'smoke'?"),
        ("test fix_size_aloc_test", "did you mean 'fix_size_alloc_test'?"),
        ("test nr_threadz=1", "did you mean 'nr_threads'?"),
        ("test test_loop_count=100x", "test_loop_count=100x is not a number"),
        ("latency --threads 0", "'--threads <N>': 0 is not in 1..=65535"),
        ("latency --seconds 0.5", "--seconds"),
    ] {
        let output = run(line);
        assert_refused(&output, 2, reason);
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn control_characters_of_the_command_line_are_escaped() {
    let output = program("test").arg("two\nlines").output().expect("the program");
    assert_refused(&output, 2, "'two\\nlines' is no preset");
}

#[test]
fn a_refusal_is_json_where_json_was_asked_for() {
    for line in
        ["--json frobnicate", "test --json nr_pages=0", "test speed=1 --json", "latency --json --frobnicate"]
    {
        let (object, code) = json(line);
        assert_eq!(code, Some(2), "{line}");
        let stderr = String::from_utf8_lossy(&run(line).stderr).into_owned();
        assert_eq!(format!("vmalloc-lab: {}\n", object["error"].as_str().expect(line)), stderr);
    }
}

#[test]
fn a_closed_pipe_is_told_in_one_line() {
    for line in
        ["--json", "--help", "test --list", "test run_test_mask=1 test_loop_count=1", "replay --synthetic 20"]
    {
        // Closed before the program starts, or it could be done writing first.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = program(line).stdout(writer).output().expect("the program");
        assert_refused(&output, 2, "can't write the output: ");
    }
}

#[test]
fn counts_have_letters() {
    let (report, _) = json("test --json fix_size_alloc_test test_loop_count=2k");
    assert_eq!(report["parameters"]["test_loop_count"], 2000);
}

#[test]
fn shells_and_man_are_told() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&format!("completions {shell}")).contains("reproduce"), "{shell}");
    }
    let page = text("man");
    assert!(page.contains(".TH vmalloc-lab 1") && page.contains("reproduce"), "{page}");
}
