//! Makes many live guarded stacks, and prints what that takes.
//!
//! `cargo run --release -p vmalloc-stacks --example many [STACKS [KIB [touch|make|reserve]]]`
//!
//! By default a million stacks of 64 KiB are made, and the top page of each is touched: 4 GiB of
//! memory, and 0.2 GiB of page tables. With `make` they are made alone. With `reserve` each is
//! addresses without memory, which may grow: `many 10000000 64 reserve`.

use std::error::Error;
use std::fs;
use std::time::Instant;
use vmalloc_stacks::{Stack, StackError, Stacks, StacksOptions};

/// Returns how many mappings the program has.
fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

/// Returns a figure of /proc/self/status in MiB.
fn mib(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok()).unwrap_or(0) >> 10
}

fn print(what: &str, count: usize, since: Instant) {
    let (took, memory, tables) = (since.elapsed(), mib("VmRSS"), mib("VmPTE"));
    println!(
        "{count} stacks {what} in {took:.1?}: {} mappings, {memory} MiB of memory, {tables} MiB of page tables",
        mappings()
    );
}

/// Writes to the highest word of a stack.
fn touch(stack: &Stack) {
    let word = std::ptr::with_exposed_provenance_mut::<usize>(stack.top() - size_of::<usize>());
    // SAFETY: inside of the stack, which nothing else uses.
    unsafe { word.write(1) };
}

/// Makes `count` stacks, and drops them.
fn play<T>(what: &str, count: usize, make: impl Fn() -> Result<T, StackError>) -> Result<(), StackError> {
    let start = Instant::now();
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(make()?);
    }
    print(what, count, start);
    let start = Instant::now();
    drop(all);
    print("dropped", count, start);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let count = words.next().map_or(Ok(1_000_000), |word| word.parse())?;
    let bytes = words.next().map_or(Ok(64), |word| word.parse::<usize>())? << 10;
    let stacks = Stacks::open(&StacksOptions::new().stack_bytes(bytes))?;
    println!("{} mappings before", mappings());
    match words.next().as_deref() {
        None | Some("touch") => play("touched", count, || stacks.stack().inspect(touch))?,
        Some("make") => play("made", count, || stacks.stack())?,
        Some("reserve") => play("reserved", count, || stacks.request().bytes(0).growable(bytes))?,
        Some(other) => return Err(format!("{other}: neither touch nor make nor reserve").into()),
    }
    Ok(())
}
