//! `vmalloc report`: the page is written, and the numbers are told. How fast anything is, no test
//! says.

use crate::common::{assert_refused, json, run, text};

#[test]
fn a_quick_report_is_one_well_formed_file() {
    let path = std::env::temp_dir().join(format!("vmalloc-report-{}.html", std::process::id()));
    let told = text(&format!("report --quick --live-max 1000 --design vmalloc --out {}", path.display()));
    let page = std::fs::read_to_string(&path).expect("the page");
    std::fs::remove_file(&path).expect("a file of our own");
    assert!(told.starts_with("1 design measured in "), "{told}");
    assert!(told.ends_with(&format!("Written to {}\n", path.display())), "{told}");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).expect("well-formed");
    let titles: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("h3"))
        .filter_map(|node| node.text())
        .collect();
    assert!(titles[0].starts_with("With 1,000 areas live, vmalloc takes "), "{titles:?}");
    assert_eq!(titles.len(), 6);
}

#[test]
fn the_numbers_are_json_too() {
    let (data, code) = json("report --json --quick --live-max 100 --design vmalloc-cached");
    assert_eq!(
        (code, &data["command"], &data["budget"]["live_max"]),
        (Some(0), &"report".into(), &100.into())
    );
    let designs = data["designs"].as_array().expect("designs");
    assert_eq!((designs.len(), &designs[0]["name"]), (1, &"vmalloc-cached".into()));
    let live: Vec<_> =
        designs[0]["live"]["points"].as_array().expect("points").iter().map(|it| &it["live"]).collect();
    assert_eq!(live, [10, 100]);
    assert!(designs[0]["latency"]["alloc"]["quantiles_ns"]["p99.9"].as_u64() > Some(0));
}

#[test]
fn bad_usage_is_told_in_one_line() {
    for (line, reason) in [
        ("report --design frob", "no design is named 'frob'; there are "),
        ("report --live-max 1", "1 is not in 10..="),
        ("report --quick --out /nowhere/at/all", "can't write /nowhere/at/all: "),
    ] {
        assert_refused(&run(line), 2, reason);
    }
}
