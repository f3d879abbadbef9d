//! The text of Linux's tracepoints: of `/sys/kernel/tracing/trace`, and of `trace-cmd report`.
//!
//! ```text
//!  bash-157     [001] .....     9.992079: alloc_vmap_area: va_start: 18446683600572006400 size=20480 align=16384
//!  task-thread  [cpu] flags     seconds   event                      \ vstart=0xffffc90000000000 vend=0xffffe8ffffffffff failed=0
//!  bpfld-182    [001] .....    10.057813: free_vmap_area_noflush: va_start=0xffffc90000129000 nr_lazy=7 nr_lazy_max=16384
//!  <...>-9      [000] .N...     0.000000: purge_vmap_area_lazy: start=0xffffffffffffffff end=0x0 num_purged=0
//!  kworker/0:0-9 [000] .....   34.860413: percpu_create_chunk: base_addr=ffffee4bbfa00000
//! ```
//!
//! - Each event has its own base: allocations print a decimal address, frees and purges `0x…`, per-CPU chunks bare
//!   hexadecimal.
//! - A task's name may hold anything, `-`, `[`, `:` and spaces too. A line is split at the first ` [cpu] ` that has a
//!   thread number before and a time and an event name behind it. The flags may be missing, and a group of threads in
//!   parentheses may precede the CPU.
//! - Sizes include the guard page. `vend` is the last byte of one window and the first byte behind another; rounded up to a
//!   page both are the page behind the window.
//! - An allocation with `failed=1` has no address; Linux purges then and tries again.
//! - A purge is printed after its effect. One without areas has an empty range.

use super::account::{Known, Reason};
use super::event::{Event, Kind, PAGES, pages_of};
use super::fields::{check_room, number, page, seconds};
use regex::{Captures, Regex};
use std::sync::LazyLock;
use vmalloc::PageRange;

/// The part of a line that all tracepoints have, and the rest. The flags are a character each, of
/// which new kernels have more. Some clocks count no seconds, without a point: they tell no time.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^.*?-(?<task>\d+) *(?:\([ \d-]*\))? +\[(?<cpu>\d+)\] +(?:[.#[:alnum:]]{4,8} +)?",
        r"(?<time>\d+(?:\.\d+)?): +(?<name>\w+):(?<fields>.*)$"
    ))
    .expect("a pattern")
});
/// Lines that are no events: headers, stacks where those are recorded, and what was lost.
static APART: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:(?<header>#.*)?|=> .*|CPU:\d+ *\[LOST (?<lost>\d+) EVENTS\])\s*$").expect("a pattern")
});

/// Reads a line.
pub(super) fn line(line: &str) -> Result<Result<Event, Known>, Reason> {
    match LINE.captures(line) {
        Some(parts) => event(&parts),
        None => apart(line).map(Err).ok_or(Reason::Strange),
    }
}

fn apart(line: &str) -> Option<Known> {
    let parts = APART.captures(line)?;
    match parts.name("lost") {
        Some(events) => events.as_str().parse().ok().map(Known::Lost),
        None if parts.name("header").is_some() || line.trim().is_empty() => Some(Known::Header),
        None => Some(Known::Other),
    }
}

fn event(parts: &Captures<'_>) -> Result<Result<Event, Known>, Reason> {
    let time = &parts["time"];
    let time_ns = if time.contains('.') { Some(seconds(time).ok_or(Reason::Strange)?) } else { None };
    let [task, cpu] = ["task", "cpu"].map(|name| parts[name].parse().map_err(|_| Reason::Strange));
    let rest = &parts["fields"];
    let kind = match &parts["name"] {
        "alloc_vmap_area" => alloc(rest)?,
        "free_vmap_area_noflush" => free(rest)?,
        "purge_vmap_area_lazy" => purge(rest)?,
        "percpu_create_chunk" => Kind::ChunkMade { base: chunk(rest)? },
        "percpu_destroy_chunk" => Kind::ChunkGone { base: chunk(rest)? },
        // Other tracepoints. Those of objects inside per-CPU chunks move no addresses.
        _ => return Ok(Err(Known::Other)),
    };
    Ok(Ok(Event { time_ns, cpu: cpu?, task: task?, kind }))
}

/// Takes `key=value` words apart: these, in this order, and nothing behind them.
fn words<'a, const N: usize>(text: &'a str, keys: [&'static str; N]) -> Result<[&'a str; N], Reason> {
    let mut words = text.split_ascii_whitespace();
    let mut values = [""; N];
    for (key, value) in keys.into_iter().zip(&mut values) {
        let word = words.next().and_then(|word| word.strip_prefix(key)?.strip_prefix('='));
        *value = word.ok_or(Reason::Field(key))?;
    }
    if words.next().is_none() { Ok(values) } else { Err(Reason::Trailing) }
}

fn values<const N: usize>(text: &str, keys: [&'static str; N]) -> Result<[u64; N], Reason> {
    let mut values = [0; N];
    for ((key, word), value) in keys.into_iter().zip(words(text, keys)?).zip(&mut values) {
        *value = number(word, key)?;
    }
    Ok(values)
}

fn alloc(rest: &str) -> Result<Kind, Reason> {
    let rest = rest.replacen("va_start: ", "va_start=", 1);
    let keys = ["va_start", "size", "align", "vstart", "vend", "failed"];
    let [addr, size, align, vstart, vend, failed] = values(&rest, keys)?;
    let pages = pages_of(size);
    check_room(0, pages, "size")?;
    let align = if align.is_power_of_two() { pages_of(align) } else { return Err(Reason::Field("align")) };
    let within = PageRange::new(pages_of(vstart), pages_of(vend)).ok_or(Reason::Field("vstart and vend"))?;
    if failed != 0 {
        return Ok(Kind::Failed { pages });
    }
    let start = page(addr, "va_start")?;
    check_room(start, pages, "va_start")?;
    Ok(Kind::Alloc { start, pages, align, within: Some(within) })
}

fn free(rest: &str) -> Result<Kind, Reason> {
    let [addr, ..] = values(rest, ["va_start", "nr_lazy", "nr_lazy_max"])?;
    Ok(Kind::Free { start: page(addr, "va_start")? })
}

fn purge(rest: &str) -> Result<Kind, Reason> {
    let [start, end, areas] = values(rest, ["start", "end", "num_purged"])?;
    let areas = u32::try_from(areas).map_err(|_| Reason::Field("num_purged"))?;
    let hull = PageRange::new(start >> crate::design::PAGE_SHIFT, pages_of(end).min(PAGES));
    Ok(Kind::Purge { hull, areas })
}

/// Hexadecimal, without `0x`.
fn chunk(rest: &str) -> Result<u64, Reason> {
    let [base] = words(rest, ["base_addr"])?;
    page(number(&format!("0x{base}"), "base_addr")?, "base_addr")
}

#[cfg(test)]
mod tests;
