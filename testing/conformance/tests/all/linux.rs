//! The Linux platform passes the kit.

use vmalloc_conformance::{Conformance, Nofault};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, SpaceOptions};

const MIB: usize = 1 << 20;

#[test]
fn the_linux_platform_keeps_its_contract() {
    for guards in GuardMeans::all() {
        let options = move || LinuxOptions::new().max_bytes(8 * MIB).guard_means(guards).frame_bytes(8 * MIB);
        if Linux::reserve(options(), &SpaceOptions::default()).is_err() {
            vmalloc_harness::not_run(format!("{guards:?}"), "this kernel has no such guards");
            continue;
        }
        let kit = Conformance::new(
            move || Linux::reserve(options(), &SpaceOptions::default()).expect("addresses"),
            Nofault,
        );
        let kit = kit
            .threads()
            .frames()
            .protect()
            .relocate()
            .memory()
            .discard()
            .contents()
            .read_nofault()
            .translate();
        println!("{guards:?}: {}", kit.check().unwrap());
    }
}
