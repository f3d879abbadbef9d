//! The command line: what it explains, what it refuses, and pipes that close.

use crate::common::program::{assert_refused, json, program, run, text};

const LISTING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmallocinfo.txt");

#[test]
fn without_a_command_help_fits_one_screen_and_is_bad_usage() {
    let output = run("");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true));
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.lines().count() <= 24, "{text}");
    for word in ["Usage: vmalloc", "explain ", "top ", "map ", "why ", "Examples", "--json"] {
        assert!(text.contains(word), "{word}");
    }
    let (overview, code) = json("--json");
    assert_eq!((&overview["name"], code), (&"vmalloc".into(), Some(2)));
    assert_eq!(overview["commands"][0], "explain");
}

#[test]
fn version_and_help_are_there() {
    assert_eq!(text("--version"), format!("vmalloc {}\n", env!("CARGO_PKG_VERSION")));
    assert!(text("--help").contains("Usage: vmalloc"));
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    for (line, reason) in [
        ("frobnicate", "frobnicate"),
        ("frobnicate", "; see 'vmalloc --help'"),
        ("explain 1 zzz", "; see 'vmalloc explain --help'"),
        ("top zzz", "; see 'vmalloc top --help'"),
        ("explain", "<CORE|PID> <ADDRESS>; see 'vmalloc explain --help'"),
        ("--frobnicate", "--frobnicate"),
        ("top 1 extra", "extra"),
        ("explian", "'explian', did you mean 'explain'?; see 'vmalloc --help'"),
        ("map --stritc list", "did you mean '--strict'?"),
        ("why --bytes 4Q list", "4Q is no size"),
        ("top --lines 0.5 1", "--lines"),
    ] {
        let output = run(line);
        assert_refused(&output, 2, reason);
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn control_characters_of_the_command_line_are_escaped() {
    let output = program("map").arg("two\nlines").output().expect("the program");
    assert_refused(&output, 2, "can't read two\\nlines: ");
}

#[test]
fn a_refusal_is_json_where_json_was_asked_for() {
    for line in ["--json frobnicate", "explain --json 1 zzz", "top 2147483647 --json"] {
        let (object, code) = json(line);
        assert_eq!(code, Some(2), "{line}");
        let stderr = String::from_utf8_lossy(&run(line).stderr).into_owned();
        assert_eq!(format!("vmalloc: {}\n", object["error"].as_str().expect(line)), stderr);
    }
}

#[test]
fn a_closed_pipe_is_told_in_one_line() {
    for line in ["--json", "--help", "man", &format!("map {LISTING}"), &format!("map --json {LISTING}")] {
        // Closed before the program starts, or it could be done writing first.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = program(line).stdout(writer).output().expect("the program");
        assert_refused(&output, 2, "can't write the output: ");
    }
}

#[test]
fn sizes_have_letters() {
    let (told, _) = json(&format!("why --json --bytes 420k {LISTING}"));
    assert_eq!(told["refused"][0]["bytes"], 430_080);
}

#[test]
fn shells_and_man_are_told() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&format!("completions {shell}")).contains("explain"), "{shell}");
    }
    let page = text("man");
    assert!(page.contains(".TH vmalloc 1") && page.contains("explain"), "{page}");
}
