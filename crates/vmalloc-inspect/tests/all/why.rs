//! `vmalloc why`: a refused allocation beside a kernel's areas.

use crate::common::program::{assert_refused, json, piped, run, text};

const HASHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmallocinfo-hashed.txt");
/// A log and a listing in one file, as a report has them.
const PASTED: &str = "\
[    0.000000]     vmalloc : 0xf0000000 - 0xf0100000   (   1 MB)
[    0.000000]     modules : 0xbf000000 - 0xbf200000   (   2 MB)
[   13.998495] vmap allocation for size 430080 failed: use vmalloc=<size> to increase size
[   14.998495] vmap allocation for size 36864 failed: use vmalloc=<size> to increase size
[   15.998495] vmap allocation for size 36864 failed: use vmalloc=<size> to increase size

0xbf000000-0xbf010000   65536 load_module+0x1/0x2 pages=15 vmalloc
0xf0000000-0xf0040000  262144 big+0x1/0x2 pages=63 vmalloc
0xf0050000-0xf00f8000  688128 bigger+0x1/0x2 pages=167 vmalloc
";

#[test]
fn each_window_is_told_with_its_largest_hole_and_its_callers() {
    let output = piped("why -", PASTED);
    let told = String::from_utf8(output.stdout).expect("text");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
    for words in [
        "420 KiB (430080 bytes), once\n  36 KiB (36864 bytes), 2 times\n",
        "vmalloc 0xf0000000-0xf0100000: 2 areas, 928 KiB; largest hole 64 KiB at 0xf0040000\n",
        "420 KiB: all holes together have 96 KiB\n",
        "36 KiB: the largest hole has room for it: ",
        "modules 0xbf000000-0xbf200000: 1 area, 64 KiB; largest hole 1.9 MiB at 0xbf010000\n",
        "672 KiB  1 area  bigger+0x1/0x2",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = String::from_utf8(piped("why - --bytes 81920", PASTED).stdout).expect("text");
    assert!(told.contains("80 KiB: the largest hole lacks 16 KiB; all holes together have 96 KiB"), "{told}");
}

#[test]
fn without_windows_in_the_log_those_of_the_listing_are_told() {
    let (_, listing) = PASTED.split_once("\n\n").expect("two parts");
    let told = String::from_utf8(piped("why - --bytes 4096", listing).stdout).expect("text");
    assert!(told.contains("the log names no window"), "{told}");
    let real = HASHED.replace("-hashed", "");
    let (report, code) = json(&format!("why {real} --bytes 1073741824 --json"));
    assert_eq!((code, report["windows"].as_array().map(Vec::len)), (Some(0), Some(2)), "{report}");
    assert_eq!(
        (&report["refused"][0]["bytes"], &report["windows"][0]["from_log"]),
        (&(1 << 30).into(), &false.into())
    );
    assert!(text(&format!("why {real} --bytes 4096")).contains("Top callers there"));
}

#[test]
fn what_is_missing_is_told_in_one_line() {
    let hidden = run(&format!("why {HASHED} --bytes 4096"));
    let stdout = String::from_utf8_lossy(&hidden.stdout);
    assert!(stdout.contains("4 KiB (4096 bytes), once") && stdout.contains("kernel_clone"), "{stdout}");
    let log = piped("why -", PASTED.split_once("\n\n").expect("two parts").0);
    let listing = run(&format!("why {}", HASHED.replace("-hashed", "")));
    for (output, code, reason) in [
        (hidden, 1, "addresses are hashed"),
        (log, 2, "stdin has no line that is an area"),
        (listing, 2, "has no line 'vmap allocation for size N failed'; --bytes N takes its place"),
    ] {
        assert_refused(&output, code, reason);
    }
}

/// Two regions of a 32-bit machine, with the linear map between them.
const SPLIT: &str = "\
0xbf000000-0xbf7f0000 8323072 load_module+0x1/0x2 pages=2031 vmalloc
0xbf800000-0xbfdf8000 6258688 load_module+0x1/0x2 pages=1527 vmalloc
0xf0800000-0xf8800000 134217728 devm_ioremap+0x1/0x2 phys=0x10000000 ioremap
0xf8a00000-0xff700000 114294784 devm_ioremap+0x1/0x2 phys=0x20000000 ioremap
";

#[test]
fn each_size_is_judged_in_the_window_that_its_line_names() {
    let log = "\
[   10.0] vmalloc_node_range for size 77824 failed: Address range restricted to 0xbf000000 - 0xbfe00000
[   20.0] vmalloc_node_range for size 4198400 failed: Address range restricted to 0xf0800000 - 0xff800000
";
    let told = String::from_utf8(piped("why -", format!("{SPLIT}{log}")).stdout).expect("text");
    let (modules, vmalloc) = told.split_once("restricted 0xf0800000-0xff800000").expect("two windows");
    let (_, modules) = modules.split_once("restricted 0xbf000000-0xbfe00000: ").expect("two windows");
    assert!(modules.contains("largest hole 64 KiB") && !modules.contains("4 MiB:"), "{told}");
    assert!(modules.contains("76 KiB: the largest hole lacks 12 KiB"), "{told}");
    assert!(
        vmalloc.contains("4 MiB: all holes together have 3 MiB") && !vmalloc.contains("76 KiB:"),
        "{told}"
    );
}

#[test]
fn a_hole_that_may_be_in_no_window_is_not_told_as_room() {
    let line =
        "[857958.982070] vmap allocation for size 8396800 failed: use vmalloc=<size> to increase size\n";
    let text = format!("{SPLIT}{line}");
    let told = |words: &str| String::from_utf8(piped(words, &text).stdout).expect("text");
    let unknown = told("why -");
    assert!(unknown.contains("8 MiB: can't tell: ") && unknown.contains("--window A-B"), "{unknown}");
    let known = told("why - --window 0xf0800000-0xff800000");
    assert!(
        known.contains("8 MiB: all holes together have 3 MiB") && !known.contains("can't tell"),
        "{known}"
    );
    assert!(known.contains("window 0xf0800000-0xff800000: 2 areas"), "{known}");
    for (window, reason) in
        [("0x10", "it is no range"), ("0x20-0x10", "ends before"), ("a-z", "z is no address")]
    {
        assert_refused(&piped(&format!("why - --window {window}"), &text), 2, reason);
    }
    // 32-bit PowerPC names its windows otherwise.
    let layout = "Kernel virtual memory layout:\n  * 0xf0800000..0xff800000  : vmalloc & ioremap\n  * 0xbf000000..0xbfe00000  : modules\n";
    let output = piped("why -", format!("{text}{layout}"));
    let told = String::from_utf8(output.stdout).expect("text");
    assert!(
        told.contains("vmalloc 0xf0800000-0xff800000: 2 areas") && !told.contains("can't tell"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(0), "{told}");
}

#[test]
fn the_second_line_of_a_refusal_alone_is_one() {
    let log = "\
[    8.1] modload: vmalloc error: size 16384, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL)
[    9.1] kmodload: vmalloc: allocation failure: 425984 bytes, mode:0x14000c0(GFP_KERNEL)
";
    let told = String::from_utf8(piped("why -", format!("{SPLIT}{log}")).stdout).expect("text");
    assert!(told.contains("420 KiB (430080 bytes), once\n  20 KiB (20480 bytes), once\n"), "{told}");
}
