use super::data::{Data, DesignData};
use super::{findings, page};
use roxmltree::{Document, Node, ParsingOptions};
use std::time::Duration;
use vmalloc_lab::designs::Name;
use vmalloc_lab::measure::machine::{self, Machine};
use vmalloc_lab::measure::{Budget, fragmentation, latency, live, threads};

/// Names of designs that there may be one day: more than there are looks.
const NAMES: [&str; 11] = [
    "busy-list",
    "free-list",
    "augmented",
    "nodes",
    "vmalloc",
    "vmalloc-cached",
    "buddy",
    "slab",
    "bitmap",
    "\"<odd>\" & 'so'",
    "one-too-many",
];

/// A quick run of a real design under other names, each somewhat slower than the one before.
fn data(count: usize) -> Data {
    let tiny = Duration::from_millis(2);
    let budget = Budget {
        live_max: 10_000,
        point: tiny,
        threads: tiny,
        latency: tiny * 10,
        replacements: 2000,
        ..Budget::QUICK
    };
    let (live, threads) = (live::measure(Name::Vmalloc, &budget), threads::measure(Name::Vmalloc, &budget));
    let (latency, fragmentation) =
        (latency::measure(Name::Vmalloc, &budget), fragmentation::measure(Name::Vmalloc, &budget));
    let design = |place: usize| {
        let (mut live, mut threads, slow) = (live.clone(), threads.clone(), 1.0 + place as f64);
        live.points.iter_mut().for_each(|point| point.alloc_ns *= slow);
        threads.iter_mut().for_each(|point| point.pairs_per_second /= slow);
        if place == 0 {
            live.points.pop();
            live.stopped = Some("only 3 areas <could> be allocated".into());
            live.unmeasured = vec![10, 1000];
        }
        let (latency, fragmentation) = (latency.clone(), fragmentation.clone());
        DesignData {
            place,
            name: NAMES[place],
            about: "a design & so on",
            live,
            threads,
            latency,
            fragmentation,
        }
    };
    Data {
        commit: None,
        date: "2025-11-22 00:00 UTC".into(),
        command_line: "vmalloc report --design '<script>'".into(),
        machine: Machine::this(),
        noise: machine::noise(10),
        budget,
        seconds: 1.0,
        designs: (0..count).map(design).collect(),
    }
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    for count in [0, 1, NAMES.len()] {
        let page = page::page(&data(count));
        let document = parse(&page);
        for node in document.descendants().filter(Node::is_element) {
            assert!(
                !["link", "img", "iframe", "object", "base"].contains(&node.tag_name().name()),
                "{node:?}"
            );
            for attribute in node.attributes() {
                let inside = attribute.value().starts_with('#');
                assert!(
                    inside || !["src", "href", "srcset", "data"].contains(&attribute.name()),
                    "{attribute:?}"
                );
            }
        }
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http", "@import", "url(//", "url(\"", "{{"] {
            assert!(!rest.contains(outside), "{outside}");
        }
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("script")).count(), 1);
    }
}

#[test]
fn identifiers_are_unique() {
    let page = page::page(&data(4));
    let document = parse(&page);
    let mut seen = std::collections::HashSet::new();
    for id in document.descendants().filter_map(|node| node.attribute("id")) {
        assert!(seen.insert(id), "{id}");
    }
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        assert!(seen.contains(&link[1..]), "{link}");
    }
}

#[test]
fn every_figure_has_a_title_a_legend_a_plot_and_a_word_on_how() {
    let page = page::page(&data(3));
    let document = parse(&page);
    let figures: Vec<_> = document.descendants().filter(|node| node.has_tag_name("figure")).collect();
    let (maps, plots): (Vec<_>, Vec<_>) = figures.into_iter().partition(|node| node.has_attribute("class"));
    assert_eq!((maps.len(), plots.len()), (3, 6));
    for plot in plots {
        let has = |name: &str| plot.descendants().filter(|node| node.tag_name().name() == name).count();
        assert_eq!((has("h3"), has("figcaption"), has("table"), has("button")), (1, 1, 1, 3));
        let is_series =
            |node: &Node<'_, '_>| node.attribute("class").is_some_and(|it| it.starts_with("series "));
        assert_eq!(plot.descendants().filter(is_series).count(), 3);
    }
}

#[test]
fn findings_name_the_extremes_and_the_designs_that_stopped() {
    let data = data(3);
    let live = findings::live(&data.designs);
    assert!(
        live.starts_with("With 10,000 areas live, ") && live.ends_with("; busy-list did not get that far"),
        "{live}"
    );
    assert!(findings::threads(&data.designs).starts_with("With 16 threads, busy-list makes "));
    assert!(findings::latency(&data.designs).ends_with(" in all designs"));
    assert!(findings::text(&data).lines().count() == 6);
    let page = page::page(&data);
    assert!(page.contains("has no point at 10 areas, 1,000 areas: its time was the clock"), "no points");
    assert!(page.contains("stops at 1,000 areas: only 3 areas &lt;could&gt; be allocated."));
}

/// With `VMALLOC_REPORT_SAMPLE=FILE` the page is written there, to be looked at.
#[test]
fn a_page_of_many_designs_names_each() {
    let page = page::page(&data(8));
    for name in &NAMES[..8] {
        assert!(page.contains(&format!("data-name=\"{name}\"")), "{name}");
    }
    if let Some(path) = std::env::var_os("VMALLOC_REPORT_SAMPLE") {
        std::fs::write(path, page).expect("a place");
    }
}
