//! The kernel on emulated machines, with few turns of the driver's cases.

use std::process::Command;

#[test]
fn the_kernel_passes_on_one_two_and_four_cpus() {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        println!("NOT RUN: qemu-system-x86_64 is not installed; `cargo xtask qemu` installs it, or says how");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["qemu", "--loops", "20"]).output();
    let output = output.expect("the program that was just built");
    let printed = String::from_utf8_lossy(&output.stdout);
    print!("{printed}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for cpus in [1, 2, 4] {
        assert!(printed.contains(&format!("{cpus} CPUs: passed in")), "{cpus} CPUs");
        let summaries = "Summary: vm_map_ram_test passed: 1 failed: 0 repeat: 1 loops: 20 avg: ";
        assert!(printed.contains(summaries));
    }
    assert!(!printed.contains("FAILED"));
}
