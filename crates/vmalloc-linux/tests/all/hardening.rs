//! The name of a span.

use std::fs;
use vmalloc_harness::not_run;
use vmalloc_linux::{LinuxOptions, Request, SpaceOptions, open};

const PAGE: usize = 4096;

#[test]
fn a_span_has_a_name_and_stays_out_of_dumps() {
    let space = open(LinuxOptions::new().dump(false).name(c"vault"), SpaceOptions::default()).unwrap();
    let addr = space.raw().alloc(&Request::new(PAGE)).unwrap();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let is_ours = |line: &str| {
        let ends = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        ends.is_some_and(|(start, end)| number(start) <= Some(addr) && number(end) > Some(addr))
    };
    let mut lines = smaps.lines().skip_while(|line| !is_ours(line));
    let head = lines.next().expect("the area is in a mapping");
    let flags = lines.find(|line| line.starts_with("VmFlags:")).expect("every mapping has flags");
    assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    if head.contains("[anon:") {
        assert!(head.ends_with("[anon:vault]"), "{head}");
    } else {
        not_run("the name of a span", "this kernel has none");
    }
}
