//! What `vmalloc` alone says: what it is, in one screen.

use crate::error::Failure;
use crate::output;
use serde::Serialize;

/// For people.
const TEXT: &str = "\
vmalloc - a virtual-address allocator, Linux's vmalloc rebuilt as a library, on the memory of this machine

This program runs the allocator on real memory: each area has its own pages and an unmapped guard page behind
them, is freed lazily, and is taken from one reserved span of addresses.

Commands:
  vmalloc test [PRESET] [KEY=VALUE]...   run the field's test driver: presets performance, smoke, stress
  vmalloc info                           run a small session, show its areas, counts and the platform's choices
  vmalloc latency                        measure wake-ups beside allocating threads, or single pairs (--pairs)
  vmalloc reproduce [f1...f5]            measure the five published results again, on the designs they are about
  vmalloc replay FILE...                 replay traces of kernels or programs on designs of address allocators
  vmalloc map FILE                       draw the areas of a kernel's /proc/vmallocinfo (--svg writes a picture)
  vmalloc report                         measure all designs of the lab, and write one page with plots and maps

Options: --json (one JSON object instead of text), --help (also of each command), --version
Exit codes: 0 all went well, 1 a test or replay failed, 2 bad usage, or a file or machine
            that does not allow it

Examples:
  vmalloc test smoke run_test_mask=7     the first three cases, 10 times, 10000 loops each
  vmalloc info --strategy unmap          a session whose freed areas are unmapped, not kept for reuse
";

#[derive(Serialize)]
struct Overview {
    name: &'static str,
    version: &'static str,
    about: &'static str,
    commands: [&'static str; 7],
}

/// Says what the program is.
pub(crate) fn show(json: bool) -> Result<(), Failure> {
    if !json {
        return output::text(TEXT);
    }
    output::json(&Overview {
        name: "vmalloc",
        version: env!("CARGO_PKG_VERSION"),
        about: env!("CARGO_PKG_DESCRIPTION"),
        commands: ["test", "info", "latency", "reproduce", "replay", "map", "report"],
    })
}
