//! The figures: a title that says what is seen, a plot, how it was measured, the numbers.

use super::data::{Data, DesignData};
use super::plot::{self, Axis, Line};
use super::{findings, tables, units};
use maud::{Markup, Render, html};
use vmalloc_lab::design::PAGE_SHIFT;
use vmalloc_lab::measure::{MOST_PAGES, fragmentation, latency, live, threads};
use vmalloc_lab::picture;
use vmalloc_lab::units::{counted, human_bytes};

/// Draws all figures, in order.
pub(super) fn all(data: &Data) -> Markup {
    html! {
        (section("live", "Many live areas", live(data)))
        (section("threads", "Many threads", threads(data)))
        (section("latency", "Single calls", latency(data)))
        (section("fragmentation", "Fragmentation", html! { (span(data)) (largest_free(data)) (lazy(data)) }))
        (section("maps", "What the spaces look like", maps(data)))
    }
}

fn section(id: &str, title: &str, body: Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } (body) } }
}

fn figure(data: &Data, title: &str, plot: Markup, how: impl Render, table: Markup) -> Markup {
    let designs = data.designs.iter().map(|design| (design.place, design.name));
    html! { figure { h3 { (title) } (plot::legend(designs)) (plot) figcaption { (how) } (table) } }
}

/// A line for each design.
fn lines(
    designs: &[DesignData],
    is_marked: bool,
    points: impl Fn(&DesignData) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let line = |design: &DesignData| {
        let (place, name, points) = (design.place, design.name, points(design));
        Line { place, name, points, is_marked, is_cut: false }
    };
    designs.iter().map(line).collect()
}

fn xs(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(|point| point.0)
}

fn ys(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(|point| point.1)
}

fn live(data: &Data) -> Markup {
    let mut lines = lines(&data.designs, true, |design| {
        design.live.points.iter().map(|point| (point.live as f64, point.pair_ns())).collect()
    });
    for (line, design) in lines.iter_mut().zip(&data.designs) {
        line.is_cut = design.live.stopped.is_some();
    }
    let x = Axis::powers("live areas", units::many, 10.0, xs(&lines));
    let y = Axis::powers("time of an allocation and a free", units::time, 10.0, ys(&lines));
    let plot = plot::lines(&x, &y, &lines);
    let how = format!(
        "Areas of 1 to {MOST_PAGES} pages, all sizes equally likely. In the steady state some are picked at random and freed, \
         and as many allocated: {} windows of {} a point, of which the median is told, in one thread, after a warm-up. Purges that frees start are \
         part of the time; the clock's own is taken off. Both axes are logarithmic.",
        live::WINDOWS,
        seconds(data.budget.point / live::WINDOWS),
    );
    let how = html! { (how) @for design in &data.designs { (stopped(design)) } };
    figure(data, &findings::live(&data.designs), plot, how, tables::live(&data.designs))
}

fn seconds(time: std::time::Duration) -> String {
    format!("{} s", units::digits(time.as_secs_f64()))
}

/// Says which points a design's line lacks, and why it ends early, if it does.
fn stopped(design: &DesignData) -> Markup {
    let at = design.live.points.last().map_or(0, |point| point.live);
    let unmeasured: Vec<_> = design.live.unmeasured.iter().map(|&live| counted(live, "area")).collect();
    html! {
        @if !unmeasured.is_empty() {
            " " strong { (design.name) } " has no point at " (unmeasured.join(", ")) ": its time was the clock's own."
        }
        @if let Some(reason) = &design.live.stopped {
            " " strong { (design.name) } " stops at " (counted(at, "area")) ": " (reason) "."
        }
    }
}

fn threads(data: &Data) -> Markup {
    let lines = lines(&data.designs, true, |design| {
        design.threads.iter().map(|point| (point.threads as f64, point.pairs_per_second)).collect()
    });
    let x = Axis::powers("threads", units::digits, 2.0, xs(&lines));
    let y = Axis::linear("pairs a second, all threads together", units::many, 0.0, ys(&lines));
    let plot = plot::lines(&x, &y, &lines);
    let how = format!(
        "Each thread allocates {} pages and frees them, again and again, {} for each number of threads, on {}: more \
         threads than that take turns, and a thread that loses its CPU with a lock held keeps the others waiting.",
        threads::PAGES,
        seconds(data.budget.threads),
        counted(data.machine.cpus as u64, "CPU"),
    );
    figure(data, &findings::threads(&data.designs), plot, how, tables::threads(&data.designs))
}

fn latency(data: &Data) -> Markup {
    let how = format!(
        "One thread replaces areas of a live set of {}, for {}; another one drains, rests {}, and drains again. Every call is \
         timed by itself, the clock's own time (some 20 ns) included. Bars are a quarter of an octave wide; the rings are p50, p99, \
         p99.9, p99.99 and the slowest call. What other programs on the machine did is in the slowest calls too.",
        counted(latency::LIVE, "area"),
        seconds(data.budget.latency),
        units::time(latency::PAUSE.as_nanos() as f64),
    );
    let svg = plot::ridges(&data.designs);
    figure(data, &findings::latency(&data.designs), svg, how, tables::latency(&data.designs))
}

/// Values over time, of each design.
fn timeline(
    data: &Data,
    y: &str,
    floor: f64,
    write: fn(f64) -> String,
    values: impl Fn(&DesignData) -> Vec<f64>,
) -> (Markup, Markup) {
    let points = |design: &DesignData| {
        let at = design.fragmentation.samples.iter().map(|sample| sample.replaced as f64);
        at.zip(values(design)).collect::<Vec<_>>()
    };
    let lines = lines(&data.designs, false, points);
    let x = Axis::linear("areas replaced", units::many, 0.0, xs(&lines));
    let y = Axis::linear(y, write, floor, ys(&lines));
    let told = |design: &DesignData| points(design).into_iter().map(|(x, y)| (x, write(y))).collect();
    (plot::lines(&x, &y, &lines), tables::samples(&data.designs, told))
}

fn span(data: &Data) -> Markup {
    let times = |value| format!("{value:.2}");
    let (plot, table) = timeline(data, "span of the live set ÷ its size", 1.0, times, findings::spans);
    let how = format!(
        "{} of 1 to {MOST_PAGES} pages are live in a space of {}. One picked at random is freed, and another one of random size \
         allocated. The span reaches from the first live page to the last; 1 would be perfect. Designs that choose the same addresses \
         have the same line, of which one is seen.",
        counted(fragmentation::LIVE, "area"),
        human_bytes(fragmentation::SPAN_PAGES << PAGE_SHIFT)
    );
    figure(data, &findings::span(&data.designs), plot, how, table)
}

fn largest_free(data: &Data) -> Markup {
    let percent = |value: f64| format!("{} %", units::digits(value));
    let (plot, table) = timeline(data, "largest free range, part of the space", 0.0, percent, |design| {
        let samples = design.fragmentation.samples.iter();
        samples
            .map(|sample| sample.largest_free_pages as f64 / fragmentation::SPAN_PAGES as f64 * 100.0)
            .collect()
    });
    let how = "The same runs. An area that is larger than the largest free range has to wait for a purge, or is refused.";
    figure(data, "How large is the largest range that is still free?", plot, how, table)
}

fn lazy(data: &Data) -> Markup {
    const PAGES_PER_MIB: f64 = (1 << (20 - PAGE_SHIFT)) as f64;
    let mib = |value: f64| format!("{} MiB", units::digits(value));
    let (plot, table) = timeline(data, "freed, and not yet reusable", 0.0, mib, |design| {
        design.fragmentation.samples.iter().map(|sample| sample.lazy_pages as f64 / PAGES_PER_MIB).collect()
    });
    let how = "The same runs. Freed areas are lazy until a purge has flushed them; a saw-tooth is a design that waits until much \
               is lazy, and then gives all of it back. Areas kept for reuse as they are, or in pools, are not lazy.";
    figure(data, "How much of the space waits for a purge?", plot, how, table)
}

fn maps(data: &Data) -> Markup {
    html! {
        p.how {
            "The spaces of the runs above, in the end. Point at an area to see where it is; zoom with the buttons, with + \
             and \u{2212}, or with the wheel after a click; drag to move."
        }
        @for design in &data.designs {
            figure class={ "map " (plot::class(design.place)) } { div.scroll { (map(design)) } }
        }
    }
}

fn map(design: &DesignData) -> Markup {
    let strips = std::slice::from_ref(&design.fragmentation.strip);
    let title = format!("{}: {}", design.name, design.about);
    picture::svg::picture(&title, strips, picture::svg::Place::Page(&format!("map{}", design.place)))
}
