//! `vmalloc-lab report`: the page is written, and the numbers are told. How fast anything is, no test
//! says.

use crate::common::{assert_refused, json, run, text};

#[test]
fn a_quick_report_is_one_file_with_a_line_for_each_design_in_each_plot() {
    let path = std::env::temp_dir().join(format!("vmalloc-report-{}.html", std::process::id()));
    let line =
        format!("report --quick --live-max 1000 --design vmalloc --design nodes --out {}", path.display());
    let told = text(&line);
    let page = std::fs::read_to_string(&path).expect("the page");
    std::fs::remove_file(&path).expect("a file of our own");
    assert!(told.starts_with("ns a pair, by live areas "), "{told}");
    assert!(told.ends_with(&format!("\nWritten to {}\n", path.display())), "{told}");
    let plots: Vec<_> = page.split("<svg").skip(1).collect();
    assert_eq!(plots.len(), 5);
    for plot in plots {
        let svg = format!("<svg{}</svg>", plot.split("</svg>").next().unwrap_or_default());
        let svg = roxmltree::Document::parse(&svg).expect("well-formed");
        for design in ["nodes", "vmalloc"] {
            let key = |node: &roxmltree::Node<'_, '_>| node.text().is_some_and(|text| text.trim() == design);
            assert!(svg.descendants().any(|node| key(&node)), "{design}");
        }
        assert!(svg.descendants().filter(|node| node.has_tag_name("polyline")).count() >= 2);
    }
}

#[test]
fn the_plot_of_live_areas_is_written_alone_where_the_name_says_so() {
    let path = std::env::temp_dir().join(format!("vmalloc-report-{}.svg", std::process::id()));
    text(&format!("report --quick --live-max 1000 --design vmalloc --out {}", path.display()));
    let plot = std::fs::read_to_string(&path).expect("the plot");
    std::fs::remove_file(&path).expect("a file of our own");
    let svg = roxmltree::Document::parse(&plot).expect("well-formed");
    let is_axis =
        |node: &roxmltree::Node<'_, '_>| node.text().is_some_and(|text| text.trim() == "live areas");
    assert!(svg.root_element().has_tag_name("svg") && svg.descendants().any(|node| is_axis(&node)));
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
    assert_eq!(designs[0]["live"]["points"][0][0], 100);
    assert_eq!(data["replays"][0]["calls"], data["budget"]["events"]);
}

#[test]
fn bad_usage_is_told_in_one_line() {
    for (line, reason) in [
        ("report --design frob", "no design is named 'frob'; there are "),
        ("report --live-max 1", "1 is not in 100..="),
        ("report --quick --out /nowhere/at/all", "can't write /nowhere/at/all: "),
    ] {
        assert_refused(&run(line), 2, reason);
    }
}
