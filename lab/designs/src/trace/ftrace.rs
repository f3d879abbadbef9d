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
use super::fields::{Base, Cursor, check_room, page, seconds};
use vmalloc::PageRange;

/// Reads a line.
pub(super) fn line(line: &str) -> Result<Result<Event, Known>, Reason> {
    match Head::find(line) {
        Some(head) => event(&head),
        None => apart(line).map(Err).ok_or(Reason::Strange),
    }
}

/// Lines that are no events.
fn apart(line: &str) -> Option<Known> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Some(Known::Header);
    }
    if line.starts_with("=> ") {
        // A stack, where that is recorded.
        return Some(Known::Other);
    }
    lost(line).map(Known::Lost)
}

/// `CPU:1 [LOST 123 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    let mut rest = Cursor(line.strip_prefix("CPU:")?);
    rest.number(Base::AsMarked, "cpu").ok()?;
    rest.skip_spaces();
    let events = rest.0.strip_prefix("[LOST ")?.strip_suffix(" EVENTS]")?;
    events.parse().ok()
}

/// The part of a line that all tracepoints have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head<'a> {
    task: u32,
    cpu: u32,
    time_ns: Option<u64>,
    name: &'a str,
    fields: &'a str,
}

impl<'a> Head<'a> {
    fn find(line: &'a str) -> Option<Self> {
        line.match_indices('[').find_map(|(at, _)| {
            let task = thread(&line[..at])?;
            Self::behind(task, &line[at + 1..])
        })
    }

    /// Reads the part that follows the bracket of the CPU.
    fn behind(task: u32, text: &'a str) -> Option<Self> {
        let (cpu, rest) = text.split_once(']')?;
        let cpu = digits(cpu)?;
        let mut rest = Cursor(rest.strip_prefix(' ')?);
        rest.skip_spaces();
        let mut word = rest.until(|c| c == ' ');
        if !word.ends_with(':') {
            flags(word)?;
            rest.skip_spaces();
            word = rest.until(|c| c == ' ');
        }
        let time_ns = time(word.strip_suffix(':')?)?;
        rest.skip_spaces();
        let name = rest.until(|c| c == ':');
        let good = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (good && rest.eat(":")).then_some(Self { task, cpu, time_ns, name, fields: rest.0 })
    }
}

/// The number behind the name of a task, before the parentheses of its group if they are there.
fn thread(text: &str) -> Option<u32> {
    let text = text.strip_suffix(' ')?.trim_end();
    let text = match text.strip_suffix(')') {
        Some(inner) => {
            let (text, group) = inner.rsplit_once('(')?;
            group.bytes().all(|b| b == b' ' || b == b'-' || b.is_ascii_digit()).then_some(())?;
            text.trim_end()
        }
        None => text,
    };
    digits(text.rsplit_once('-')?.1)
}

fn digits(text: &str) -> Option<u32> {
    // A sign would be read too.
    if digits_only(text) { text.parse().ok() } else { None }
}

fn digits_only(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `d..1.` and the like: a character each, of which new kernels have more.
fn flags(word: &str) -> Option<()> {
    let good = (4..=8).contains(&word.len())
        && word.bytes().all(|b| b == b'.' || b == b'#' || b.is_ascii_alphanumeric());
    good.then_some(())
}

/// Seconds. Some clocks count something else, without a point: they tell no time.
fn time(text: &str) -> Option<Option<u64>> {
    if text.contains('.') { seconds(text).map(Some) } else { digits_only(text).then_some(None) }
}

fn event(head: &Head<'_>) -> Result<Result<Event, Known>, Reason> {
    let rest = Cursor(head.fields);
    let kind = match head.name {
        "alloc_vmap_area" => alloc(rest)?,
        "free_vmap_area_noflush" => free(rest)?,
        "purge_vmap_area_lazy" => purge(rest)?,
        "percpu_create_chunk" => Kind::ChunkMade { base: chunk(rest)? },
        "percpu_destroy_chunk" => Kind::ChunkGone { base: chunk(rest)? },
        // Other tracepoints. Those of objects inside per-CPU chunks move no addresses.
        _ => return Ok(Err(Known::Other)),
    };
    Ok(Ok(Event { time_ns: head.time_ns, cpu: head.cpu, task: head.task, kind }))
}

fn alloc(mut rest: Cursor<'_>) -> Result<Kind, Reason> {
    rest.skip_spaces();
    rest.expect("va_start:", "va_start")?;
    rest.skip_spaces();
    let addr = rest.number(Base::AsMarked, "va_start")?;
    let size = rest.value("size", Base::AsMarked)?;
    let align = rest.value("align", Base::AsMarked)?;
    let vstart = rest.value("vstart", Base::AsMarked)?;
    let vend = rest.value("vend", Base::AsMarked)?;
    let failed = rest.value("failed", Base::AsMarked)?;
    rest.end()?;
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

fn free(mut rest: Cursor<'_>) -> Result<Kind, Reason> {
    let addr = rest.value("va_start", Base::AsMarked)?;
    rest.value("nr_lazy", Base::AsMarked)?;
    rest.value("nr_lazy_max", Base::AsMarked)?;
    rest.end()?;
    Ok(Kind::Free { start: page(addr, "va_start")? })
}

fn purge(mut rest: Cursor<'_>) -> Result<Kind, Reason> {
    let start = rest.value("start", Base::AsMarked)?;
    let end = rest.value("end", Base::AsMarked)?;
    let areas = rest.value("num_purged", Base::AsMarked)?;
    rest.end()?;
    let areas = u32::try_from(areas).map_err(|_| Reason::Field("num_purged"))?;
    let hull = PageRange::new(start >> crate::design::PAGE_SHIFT, pages_of(end).min(PAGES));
    Ok(Kind::Purge { hull, areas })
}

fn chunk(mut rest: Cursor<'_>) -> Result<u64, Reason> {
    let base = rest.value("base_addr", Base::Hexadecimal)?;
    rest.end()?;
    page(base, "base_addr")
}

#[cfg(test)]
mod tests;
