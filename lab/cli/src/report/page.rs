//! The page.

use super::measure::{MOST_PAGES, STACK_PAGES};
use super::plot::{Axes, Lines, plot};
use super::{Data, DesignData};
use maud::{DOCTYPE, PreEscaped, html};
use vmalloc_lab::design::PAGE_SHIFT;
use vmalloc_lab::replay::{Outcome, Sample, WindowOutcome};
use vmalloc_lab::units::counted;

const CSS: &str =
    "body { max-width: 1040px; margin: 0 auto; padding: 24px; font: 16px/1.5 system-ui, sans-serif; }
svg { width: 100%; height: auto; } pre { overflow-x: auto; font-size: 13px; } figcaption { color: #59636e; }";

/// The whole page; `tables` is what is printed.
pub(super) fn page(data: &Data, tables: &str) -> String {
    let figures = figures(data);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8" {}
                title { "vmalloc: designs side by side" }
                style { (PreEscaped(CSS)) }
            }
            body {
                h1 { "Designs of an address allocator, side by side" }
                p {
                    "Each hands out ranges of addresses and takes them back lazily, as kernels do. No memory is behind \
                     them: what differs is the design alone. Measured by vmalloc " (env!("CARGO_PKG_VERSION")) " on "
                    (counted(data.cpus as u64, "CPU")) "."
                }
                dl { @for design in &data.designs { dt { (design.name) } dd { (design.about) } } }
                @for (title, how, svg) in &figures {
                    figure { h2 { (title) } (PreEscaped(svg)) figcaption { (how) } }
                }
                h2 { "The numbers" }
                pre { (tables) }
            }
        }
    }
    .into_string()
}

/// The plot of many live areas.
pub(super) fn live(data: &Data) -> String {
    powers(data, "live areas", "ns of an allocation and a free", |it| &it.live.points)
}

fn powers(data: &Data, x: &str, y: &str, points: fn(&DesignData) -> &[(u64, f64)]) -> String {
    let points = |it| points(it).iter().map(|point| (point.0 as f64, point.1)).collect();
    let lines: Lines = data.designs.iter().map(|it| (it.name, points(it))).collect();
    plot(x, y, Axes::Logarithmic, &lines)
}

/// A title, how it was measured, and the plot.
fn figures(data: &Data) -> [(&'static str, String, String); 5] {
    let over_time = |y, pages: fn(&WindowOutcome, &Sample) -> u64| {
        let mib = |pages| pages as f64 / (1 << (20 - PAGE_SHIFT)) as f64;
        let points = |it: &WindowOutcome| {
            it.samples.iter().map(|sample| (sample.calls as f64, mib(pages(it, sample)))).collect()
        };
        let line = |it: &Outcome| (it.design, it.main_window().map(points).unwrap_or_default());
        plot("calls", y, Axes::Linear, &data.replays.iter().map(line).collect())
    };
    [
        (
            "Many live areas",
            format!("Areas of 1 to {MOST_PAGES} pages, all sizes equally likely; some are picked at random and replaced."),
            live(data),
        ),
        (
            "Many threads",
            format!("Each thread allocates {STACK_PAGES} pages and frees them, again and again."),
            powers(data, "threads", "million pairs a second, all together", |it| &it.threads),
        ),
        (
            "Holes",
            "A made-up trace: the span from the first live page to the last, less what is live.".into(),
            over_time("MiB in the span that are not live", |_, it| it.span_pages.saturating_sub(it.busy_pages)),
        ),
        (
            "The largest free range",
            "The same runs. An area that is larger than this range has to wait for a purge, or is refused.".into(),
            over_time("MiB of the space outside of it", |window, it| {
                window.end - window.start - it.largest_free_pages
            }),
        ),
        (
            "Waiting for a purge",
            "The same runs. A saw-tooth is a design that waits until much is lazy, and then gives all of it back.".into(),
            over_time("MiB freed, and not yet reusable", |_, it| it.lazy_pages),
        ),
    ]
}
