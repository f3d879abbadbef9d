//! Hermit's kernel boots, as published and with `vmalloc`: its tests pass, its stacks are guarded, and no CPU sees freed memory.

use hermit_client::{Cpus, Error, Hermit, Kernels, Report, boot, build, provide};

/// Its own test programs, and how many tests each says that it has passed.
const OWN: [(&str, usize); 5] =
    [("basic_math", 3), ("basic_mem", 1), ("basic_print", 0), ("measure_startup_time", 0), ("thread", 3)];

/// Looks for stale translations, fifty times each.
const LOOKS: [&str; 3] = ["munmap", "device-buffer", "new-mapping"];

fn run(kernels: &Kernels, program: &str, cpus: u32) -> Report {
    boot(&kernels[program], Cpus::Some(cpus)).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs what both kernels have to pass.
fn check(name: &str, kernels: &Kernels) {
    for cpus in [1, 2, 4] {
        for (program, tests) in OWN {
            let report = run(kernels, program, cpus);
            assert!(report.has_succeeded, "{program} on {cpus} CPUs:\n{}", report.text);
            assert_eq!(report.passed(), tests, "{program} on {cpus} CPUs:\n{}", report.text);
            assert!(program != "basic_print" || report.text.contains("\none\ntwo\n"), "{}", report.text);
            // It sleeps. Meanwhile the network's driver has its memory, and a device reads it.
            assert!(program != "thread" || report.text.contains("DHCP config acquired"), "{}", report.text);
        }
    }
    println!("{name}: {} programs pass on 1, 2 and 4 CPUs", OWN.len());
    let report = run(kernels, "stacks", 2);
    assert!(report.text.contains("STACKS 1000 twice"), "{}", report.text);
    let from = report.address("OVERFLOW from").expect("the task began");
    let at = report.address("page_fault_linear_address =");
    let at = at.unwrap_or_else(|| panic!("no fault:\n{}", report.text));
    assert!(at < from && from - at < 64 << 10, "the fault at {at:#x} is none of the stack at {from:#x}");
    println!("{name}: 2 times 1000 stacks are guarded, and an overflow traps");
}

/// Returns how often each look found a stale translation.
fn stale(kernels: &Kernels, cpus: u32) -> Vec<u64> {
    let report = run(kernels, "stale", cpus);
    assert!(report.has_succeeded, "{}", report.text);
    let rows = report.rows("STALE");
    assert!(rows.iter().map(|row| &row.what).eq(LOOKS), "{}", report.text);
    rows.into_iter().map(|row| row.count).collect()
}

#[test]
fn kernels_boot_and_on_vmalloc_no_cpu_sees_freed_memory() {
    let kernels = match provide().and_then(|()| Ok([build(Hermit::Published)?, build(Hermit::OnVmalloc)?])) {
        Ok(kernels) => kernels,
        Err(Error::Missing(what)) => return println!("NOT RUN: {what}"),
        Err(error) => panic!("{error}"),
    };
    let found = stale(&kernels[0], 2);
    println!("as published, of 50 looks each: {found:?} are stale");
    assert!(found.iter().all(|found| *found > 0), "the looks see nothing: {found:?}");
    check("as published", &kernels[0]);
    for cpus in [2, 4] {
        assert_eq!(stale(&kernels[1], cpus), [0; LOOKS.len()], "on {cpus} CPUs");
    }
    println!("on vmalloc: none are stale");
    check("on vmalloc", &kernels[1]);
}
