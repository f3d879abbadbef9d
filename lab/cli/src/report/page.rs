//! The page.

use super::data::{Data, DesignData};
use super::{figures, findings, series, tables};
use vmalloc_lab::picture::escape::xml;
use vmalloc_lab::picture::svg;
use vmalloc_lab::units::human_bytes;

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
        "date" => xml(&data.date),
        "facts" => facts(data),
        "findings" => summary(data),
        "designs" => designs(&data.designs),
        "figures" => figures::all(data),
        "script" => [SCRIPT, svg::SCRIPT].concat(),
        _ => unreachable!("the template names {name}"),
    }
}

/// How a design's button hides its lines.
fn hiding() -> String {
    let rule = |look| {
        format!(
            ".off-s{look} .series.s{look}, .off-s{look} .s{look} > .name, .off-s{look} .s{look} > .leader {{ display: none; }}\n"
        )
    };
    (0..series::LOOKS).map(rule).collect()
}

fn facts(data: &Data) -> String {
    let machine = &data.machine;
    let commit = data.commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    let cpus = format!("{}, {}", machine.cpu, vmalloc_lab::units::counted(machine.cpus as u64, "CPU"));
    let rows = [
        ("Machine", cpus),
        ("Memory", human_bytes(machine.memory_bytes)),
        ("Kernel", machine.kernel.clone()),
        ("Program", format!("vmalloc {}{commit}", data.version)),
        ("Command", data.command_line.clone()),
        ("Measured", format!("{}, in {:.0} s", data.date, data.seconds)),
    ];
    rows.map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", xml(&value))).concat()
}

fn summary(data: &Data) -> String {
    let designs = &data.designs;
    let linked = [
        ("live", findings::live(designs)),
        ("threads", findings::threads(designs)),
        ("latency", findings::latency(designs)),
        ("fragmentation", findings::span(designs)),
    ];
    let items = linked.map(|(id, finding)| format!("<li><a href=\"#{id}\">{}</a>.</li>", xml(&finding)));
    format!(
        "<ul>{}</ul><p class=\"noise\">{}. Small differences mean nothing.</p>",
        items.concat(),
        xml(&findings::noise(data))
    )
}

fn designs(designs: &[DesignData]) -> String {
    let rows: Vec<_> =
        designs.iter().map(|design| vec![design.name.to_owned(), design.about.to_owned()]).collect();
    tables::table(&["design".into(), "what it is".into()], &rows)
}
