//! `vmalloc-lab latency`: what it measures and prints. How fast anything is, no test says.

use crate::common::{json, text};
use serde_json::Value;

/// The distribution of this name.
fn distribution<'a>(report: &'a Value, name: &str) -> Option<&'a Value> {
    report["distributions"].as_array().expect("distributions").iter().find(|line| line["name"] == name)
}

/// Counts agree, and quantiles ascend.
fn check(line: &Value) {
    let columns = ["p50", "p99", "p99.9", "p99.99", "max"];
    let values = columns.map(|name| line[name].as_f64().expect(name));
    assert!(line["count"].as_u64() > Some(0) && values.is_sorted(), "{line}");
    let mean = line["mean"].as_f64().expect("a mean");
    assert!(0.0 < mean && mean <= values[4], "{line}");
}

#[test]
fn wake_ups_and_pairs_are_told_and_the_space_is_whole_again() {
    for line in ["", "--strategy unmap", "--threads 3 --nodes 1"] {
        let (report, code) = json(&format!("latency --json --seconds 1 {line}"));
        assert_eq!((code, &report["ok"]), (Some(0), &Value::Bool(true)), "{line}: {report}");
        for name in ["wake-up", "pair"] {
            check(distribution(&report, name).expect(name));
        }
        assert!(report["pairs"].as_u64() > Some(0));
        let strategy = if line == "--strategy unmap" { "unmap" } else { "retain" };
        assert_eq!((&report["strategy"], &report["period_us"]), (&strategy.into(), &1000.into()));
    }
}

#[test]
fn the_table_has_a_line_for_each_distribution() {
    let text = text("latency --seconds 1 --threads 1");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "vmalloc latency: strategy=retain threads=1 seconds=1 bytes=8192 period_us=1000");
    let names = ["µs", "count", "mean", "p50", "p99", "p99.9", "p99.99", "max"];
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), names);
    for (line, name) in lines[2..].iter().zip(["wake-up", "pair"]) {
        assert!(line.starts_with(name) && line.split_whitespace().count() == names.len(), "{line}");
    }
    assert!(text.contains("The workers made ") && text.ends_with("The space is whole again\n"), "{text}");
}
