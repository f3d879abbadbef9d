//! The simulators pass the kit.

use crate::common::{direct, sim};
use vmalloc_conformance::{Blind, Conformance, Nofault};
use vmalloc_programs::SimLook;

#[test]
fn the_simulated_machine_keeps_its_contract() {
    let kit = Conformance::new(|| sim(|options| options), SimLook(Blind));
    let report = kit.threads().frames().protect().discard().read_nofault().translate().check().unwrap();
    println!("{report}");
}

#[test]
fn a_simulated_machine_with_every_power_keeps_its_contract() {
    let every =
        || sim(|options| options.huge_order(4).linear(1 << 30).remaps_atomically().max_slack_percent(10));
    let kit = Conformance::new(every, SimLook(Blind)).ops(300);
    println!("{}", kit.frames().protect().read_nofault().translate().check().unwrap());
}

#[test]
fn simulated_memory_keeps_its_contract() {
    let kit = Conformance::new(|| direct(|options| options.cpus(1).relocates().huge_order(3)), Nofault);
    println!("{}", kit.protect().relocate().memory().discard().read_nofault().translate().check().unwrap());
}
