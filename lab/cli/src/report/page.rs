//! The page.

use super::data::{Data, DesignData};
use super::{figures, findings, plot, tables};
use maud::{Markup, html};
use vmalloc_lab::picture::{printable, svg};
use vmalloc_lab::units::{counted, human_bytes};

const TEMPLATE: &str = include_str!("report.html");
const CSS: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The whole page.
pub(super) fn page(data: &Data) -> String {
    // One pass: what is put in may hold braces of its own.
    let mut page = String::new();
    let mut pieces = TEMPLATE.split("{{");
    page.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap_or((piece, ""));
        page.push_str(&value(data, name));
        page.push_str(rest);
    }
    page
}

fn value(data: &Data, name: &str) -> String {
    match name {
        "style" => [svg::CSS, CSS, &hiding()].concat(),
        "date" => data.date.clone(),
        "facts" => facts(data).into_string(),
        "findings" => summary(data).into_string(),
        "designs" => designs(&data.designs).into_string(),
        "figures" => figures::all(data).into_string(),
        "script" => [SCRIPT, svg::SCRIPT].concat(),
        _ => unreachable!("the template names {name}"),
    }
}

/// How a design's button hides its lines.
fn hiding() -> String {
    let rule = |look| format!(".off-s{look} .series.s{look} {{ display: none; }}\n");
    (0..plot::LOOKS).map(rule).collect()
}

fn facts(data: &Data) -> Markup {
    let machine = &data.machine;
    let commit = data.commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    let facts = [
        ("Machine", format!("{}, {}", machine.cpu, counted(machine.cpus as u64, "CPU"))),
        ("Memory", human_bytes(machine.memory_bytes)),
        ("Kernel", machine.kernel.clone()),
        ("Program", format!("vmalloc {}{commit}", env!("CARGO_PKG_VERSION"))),
        ("Command", printable(&data.command_line)),
        ("Measured", format!("{}, in {:.0} s", data.date, data.seconds)),
    ];
    html! { @for (name, fact) in facts { div { dt { (name) } dd { (fact) } } } }
}

fn summary(data: &Data) -> Markup {
    let designs = &data.designs;
    let findings = [
        ("live", findings::live(designs)),
        ("threads", findings::threads(designs)),
        ("latency", findings::latency(designs)),
        ("fragmentation", findings::span(designs)),
    ];
    html! {
        ul { @for (id, finding) in findings { li { a href={ "#" (id) } { (finding) } "." } } }
        p.noise { (findings::noise(data)) ". Small differences mean nothing." }
    }
}

fn designs(designs: &[DesignData]) -> Markup {
    let rows: Vec<_> = designs.iter().map(|it| vec![it.name.to_owned(), it.about.to_owned()]).collect();
    tables::table(&["design".into(), "what it is".into()], &rows)
}
