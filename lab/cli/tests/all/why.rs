//! `vmalloc why`: a refused allocation beside a kernel's areas.

use crate::common::{assert_refused, json, piped, run, text};

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
