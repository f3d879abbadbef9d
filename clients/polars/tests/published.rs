//! polars-core's own unit tests, with each block of memory in our space.

use vmalloc_client_polars::published::{cargo, prepare};

/// polars-core's unit tests with the features of this client, and the one of ours.
const TESTS: usize = 103;

#[test]
fn polars_core_s_own_tests_pass_on_our_memory() {
    let features = ["--features", "checked_arithmetic"];
    let output = cargo(&prepare()).args(["test", "--release", "--lib"]).args(features).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().find(|line| line.starts_with("test result:")).unwrap_or("no tests");
    println!("polars-core: {summary}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = summary.split_whitespace().nth(3).and_then(|count| count.parse().ok());
    assert_eq!(passed, Some(TESTS));
    for arithmetic in [
        "test_arithmetic_series",
        "test_chunk_mismatch",
        "test_checked_div",
        "on_vmalloc::series_and_their_sums",
    ] {
        assert!(text.contains(arithmetic), "{arithmetic} did not run");
    }
}
