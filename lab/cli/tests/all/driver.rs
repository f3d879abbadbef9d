//! The test driver: its cases, its lines, its numbers.

use crate::common::{json, run, text};
use serde_json::Value;
use std::process::{Command, Output};

/// Runs the program with the words of `line` and at most so many KiB of addresses.
#[cfg(target_os = "linux")]
fn limited(kilobytes: u64, line: &str) -> Output {
    // One arena: a thread of glibc that tries to get one of its own maps 64 MiB for a moment, in
    // which another thread's request of a few bytes is refused.
    let program = env!("CARGO_BIN_EXE_vmalloc-lab");
    let script = format!("ulimit -v {kilobytes}; MALLOC_ARENA_MAX=1 exec {program} {line}");
    Command::new("sh").args(["-c", &script]).output().expect("a shell")
}

/// Every case.
const CASES: [&str; 14] = [
    "fix_size_alloc_test",
    "full_fit_alloc_test",
    "long_busy_list_alloc_test",
    "random_size_alloc_test",
    "fix_align_alloc_test",
    "random_size_align_alloc_test",
    "align_shift_alloc_test",
    "pcpu_alloc_test",
    "vm_map_ram_test",
    "no_block_alloc_test",
    "vrealloc_test",
    "le_fit_alloc_test",
    "re_fit_alloc_test",
    "ne_fit_alloc_test",
];

/// The numbers of a summary line of `name` in Linux's format: passed, failed, repeat, loops, avg.
/// What stands behind Linux's line is left out.
fn summary(line: &str, name: &str) -> Option<[u64; 5]> {
    let mut words = line.strip_prefix("Summary: ")?.strip_prefix(name)?.split(' ').skip(1);
    let mut field = |name| if words.next()? == name { words.next()?.parse().ok() } else { None };
    let numbers = [field("passed:")?, field("failed:")?, field("repeat:")?, field("loops:")?, field("avg:")?];
    (words.next()? == "usec").then_some(numbers)
}

fn names(worker: &Value) -> Vec<&str> {
    worker["cases"].as_array().expect("cases").iter().filter_map(|case| case["name"].as_str()).collect()
}

#[test]
fn every_case_prints_the_line_of_linux() {
    let text = text("test performance test_repeat_count=2 test_loop_count=20");
    for (name, line) in CASES.iter().zip(text.lines().skip(1)) {
        let [passed, failed, repeat, loops, _] = summary(line, name).unwrap_or_else(|| panic!("{line}"));
        let expected = if *name == "align_shift_alloc_test" { 0 } else { 2 };
        assert_eq!([passed, failed, repeat, loops], [expected, 0, 2, 20], "{line}");
        assert_eq!(line.ends_with(" usec xfailed: 2"), expected == 0, "{line}");
    }
    let all = text.lines().nth(CASES.len() + 1).unwrap_or_default();
    let cycles = all.strip_prefix("All test took worker0=").and_then(|rest| rest.strip_suffix(" cycles"));
    assert!(cycles.is_some_and(|cycles| cycles.parse::<u64>().is_ok()), "{all}");
}

#[test]
fn every_case_runs_on_one_worker_and_on_four() {
    for (threads, strategy) in
        [(1, "retain"), (1, "unmap"), (4, "retain"), (4, "unmap"), (4, "retain --nodes 1")]
    {
        let line = format!("test --json --strategy {strategy} nr_threads={threads} test_loop_count=10");
        let (report, code) = json(&line);
        assert_eq!((code, &report["ok"]), (Some(0), &Value::Bool(true)), "{report}");
        let workers = report["workers"].as_array().expect("workers");
        assert_eq!(workers.len(), threads);
        for worker in workers {
            let mut ran = names(worker);
            let mut all = CASES;
            ran.sort_unstable();
            all.sort_unstable();
            assert_eq!(ran, all);
        }
    }
}

#[test]
fn json_has_the_parameters_and_the_counts() {
    let (report, _) = json("test --json smoke test_loop_count=7 run_test_mask=0x41 seed=5");
    let parameters = &report["parameters"];
    assert_eq!((&parameters["preset"], &parameters["test_repeat_count"]), (&"smoke".into(), &10.into()));
    assert_eq!((&report["seed"], &report["strategy"]), (&5.into(), &"retain".into()));
    let cases = report["workers"][0]["cases"].as_array().expect("cases");
    for case in cases {
        let (counted, other) = if case["bit"] == 64 { ("xfailed", "passed") } else { ("passed", "xfailed") };
        assert_eq!((&case[counted], &case[other], &case["failed"]), (&10.into(), &0.into(), &0.into()));
        assert_eq!((&case["repeat"], &case["loops"]), (&10.into(), &7.into()));
    }
    let stats = &report["stats"];
    assert_eq!(stats["purged"]["free_pages"], stats["purged"]["span_pages"]);
    assert_eq!(stats["before"]["busy_areas"], 0);
    assert!(report["clock"].is_string() && report["machine"]["page_bytes"].is_u64());
}

#[test]
fn a_seed_repeats_the_orders() {
    let orders = |seed| {
        let (report, _) = json(&format!("test --json nr_threads=3 test_loop_count=1 seed={seed}"));
        let workers = report["workers"].as_array().expect("workers");
        workers.iter().map(|worker| names(worker).join(" ")).collect::<Vec<_>>()
    };
    let first = orders(1);
    assert_eq!(first, orders(1));
    assert_ne!(first, orders(2));
    assert_ne!(first[0], first[1], "each worker has an order of its own");
}

#[test]
fn the_seed_is_printed() {
    let text = text("test run_test_mask=1 test_loop_count=1 seed=0xff");
    assert!(text.starts_with("vmalloc test: seed=255 "), "{text}");
}

/// The stress preset has them all: at its end all areas and frames are back.
#[test]
fn stress_runs_every_case() {
    let (report, code) = json("test --json stress test_repeat_count=2 test_loop_count=20 nr_pages=9");
    assert_eq!((code, &report["complaints"]), (Some(0), &Value::Array(Vec::new())), "{report}");
    for worker in report["workers"].as_array().expect("workers") {
        assert_eq!(names(worker).len(), CASES.len());
    }
    let purged = &report["stats"]["purged"];
    assert_eq!((&purged["tenant_areas"], &purged["busy_areas"]), (&0.into(), &0.into()), "{purged}");
    assert!(purged["tenant_areas_made"].as_u64() > Some(0), "frames in another order are mapped: {purged}");
    assert_eq!(purged["tenant_areas_made"], purged["tenant_areas_freed"], "{purged}");
}

/// Few groups would not show how long the search for the place of one takes among many; so loops
/// don't count.
#[test]
fn per_cpu_groups_are_as_many_as_in_linux() {
    let (report, code) = json("test --json pcpu_alloc_test test_loop_count=1");
    assert_eq!(code, Some(0), "{report}");
    let (areas, cpus) = (&report["stats"]["after"]["lazy_areas"], &report["machine"]["cpus"]);
    let all = 35_000 * cpus.as_u64().expect("a count").min((1 << 22) / 35_000);
    assert!(areas.as_u64() <= Some(all), "{areas} freed of {all}");
    let purged = |stage: &str| report["stats"][stage]["purged_areas"].as_u64().expect("a count");
    assert!(purged("purged") >= all, "{} purged of {all}", purged("purged"));
}

#[test]
fn frames_are_mapped_in_any_number() {
    for pages in [1, 2, 64, 65, 1000] {
        for strategy in ["retain", "unmap --guards mprotect"] {
            let line = format!("test --json --strategy {strategy} vm_map_ram_test test_loop_count=200");
            let (report, code) = json(&format!("{line} nr_threads=3 nr_pages={pages}"));
            assert_eq!((code, &report["ok"]), (Some(0), &true.into()), "{report}");
            let made = report["stats"]["after"]["tenant_areas_made"].as_u64().expect("a count");
            assert_eq!(made > 0, (2..=64).contains(&pages), "{pages} pages: {made} blocks");
        }
    }
    let output = run("test vm_map_ram_test nr_pages=2147483647 test_loop_count=1");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("2147483647 frames are more than the supply has: "), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn too_large_an_area_is_a_failed_test() {
    let output = limited(400_000, "test run_test_mask=1 test_loop_count=1 nr_pages=100000");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().nth(1).unwrap_or_default();
    assert_eq!(summary(line, "fix_size_alloc_test").map(|numbers| numbers[1]), Some(1), "{line}");
    assert!(text.contains("The space is whole again"), "{text}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason =
        "vmalloc-lab: worker 0: fix_size_alloc_test: no 409604096 bytes free, aligned to 4096, within ";
    assert!(stderr.lines().any(|line| line.starts_with(reason)), "{stderr}");
}

#[test]
fn huge_pages_may_be_asked_for() {
    for pages in [1, 512, 1024] {
        text(&format!("test fix_size_alloc_test test_loop_count=3 use_huge=1 nr_pages={pages}"));
    }
}

#[test]
fn many_workers_share_the_space() {
    let (report, code) = json("test --json nr_threads=100 run_test_mask=9 test_loop_count=100");
    assert_eq!(code, Some(0), "{}", report["complaints"]);
    assert_eq!(report["workers"].as_array().map(Vec::len), Some(100));
}

/// Where guard pages are mappings, workers must do with those that there are.
#[cfg(target_os = "linux")]
#[test]
fn every_case_runs_where_guards_are_mappings() {
    for (threads, strategy) in [(1, "retain"), (4, "unmap")] {
        let line = format!("test --json --guards mprotect --strategy {strategy} test_loop_count=10");
        let (report, code) = json(&format!("{line} nr_threads={threads}"));
        assert_eq!(code, Some(0), "{report}");
        if max_map_count() <= 65_530 {
            assert!(report["most_held"].is_u64());
        }
        assert_eq!(report["machine"]["guards"], "mprotect");
    }
}

#[cfg(target_os = "linux")]
fn max_map_count() -> u64 {
    let count = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    count.ok().and_then(|count| count.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// Where few addresses can be had, workers must do with those, and the program says so.
#[cfg(target_os = "linux")]
#[test]
fn every_case_runs_where_addresses_are_few() {
    for (kilobytes, threads) in [(60_000, 1), (60_000, 4), (150_000, 2), (400_000, 1), (1_000_000, 4)] {
        let line = format!("test --json nr_threads={threads} test_loop_count=20");
        let output = limited(kilobytes, &line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(report["most_held"].is_u64());
        let note = stderr.lines().next().unwrap_or_default();
        assert!(note.contains(" of addresses, or ") && note.contains(" hold at most "), "{note}");
    }
}
