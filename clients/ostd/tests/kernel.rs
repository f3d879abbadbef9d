//! Kernels of ostd on two CPUs: its own tests, and what CPUs see of freed areas.

use ostd_client::{Error, Kernel, Ostd, Report, boot, build, provide};

/// Tests of stale translations, which fail with ostd as published, and how they say so.
const STALE: [(&str, &str); 3] = [
    (
        "next_owner_is_not_seen_through_a_freed_area_on_this_cpu",
        "the freed address shows the next owner's word",
    ),
    (
        "next_owner_is_not_seen_through_a_freed_area_on_another_cpu",
        "the freed address shows the next owner's word",
    ),
    ("reused_addresses_show_their_new_frames_on_another_cpu", "the new area shows an old frame"),
];
/// Tests that measure: they are not ostd's.
const MEASURES: usize = 2;
/// Tests of what is served by `vmalloc` alone: of areas, and of ranges.
const OURS: usize = 6 + 3;
/// Buffers for devices that are made and dropped.
const BUFFERS: u64 = 2_000;
/// Kernel-mode tests that ostd 0.19.0 was published with.
const PUBLISHED: usize = 221;

/// Runs the tests of a kernel. Returns none, and says why, where this machine can't build or boot one.
fn run(ostd: Ostd) -> Option<Report> {
    let report = provide().and_then(|()| build(ostd)).and_then(|programs| boot(&programs, Kernel::Tests));
    match report {
        Ok(report) => Some(report),
        Err(Error::Missing(what)) => {
            println!("NOT RUN: {what}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn check_complete(report: &Report) {
    assert!(report.is_complete, "the kernel did not run to its end:\n{}", report.text);
}

/// Returns how often the kernel interrupted the other CPU for its buffers.
fn interrupts(report: &Report) -> u64 {
    let what = format!("interrupts-of-{BUFFERS}-buffers");
    report.rows.iter().find(|row| row.what == what).expect("it was counted").count
}

/// One after the other: both builds take all CPUs.
#[test]
fn stale_translations_are_there_as_published_and_gone_on_vmalloc() {
    let Some(report) = run(Ostd::Published) else { return };
    check_complete(&report);
    for (name, reason) in STALE {
        let is_found = report.has_failed(name) && report.why(name).contains(reason);
        assert!(is_found, "{name} did not find a stale translation:\n{}", report.text);
    }
    assert_eq!(report.failed.len(), STALE.len(), "{:?}", report.failed);
    assert_eq!(report.passed.len(), PUBLISHED + MEASURES);
    assert!(interrupts(&report) >= BUFFERS);
    println!("as published: {} passed, {} found stale translations", report.passed.len(), STALE.len());
    println!("as published: {BUFFERS} buffers, {} interrupts", interrupts(&report));

    let Some(report) = run(Ostd::OnVmalloc) else { return };
    check_complete(&report);
    assert!(report.failed.is_empty(), "{:?}\n{}", report.failed, report.text);
    assert!(STALE.iter().all(|(name, _)| report.has_passed(name)));
    assert_eq!(report.passed.len(), PUBLISHED + MEASURES + STALE.len() + OURS);
    assert!(interrupts(&report) <= BUFFERS / 100);
    println!("on vmalloc: {} passed", report.passed.len());
    println!("on vmalloc: {BUFFERS} buffers, {} interrupts", interrupts(&report));
}
