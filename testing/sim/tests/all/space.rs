//! The space against its oracle, on a machine whose TLBs forget nothing.
//!
//! The programs are those of the model's own tests. `VMALLOC_SEED` and `VMALLOC_OPS` choose another
//! one and its length.

use crate::common::SimWitness;
use vmalloc::{AllocError, Config, PageRange, Policy, Request, Space};
use vmalloc_model::space::{SpaceGenerator, SpaceSession};
use vmalloc_model::{Seeded, env};
use vmalloc_sim::{Counts, Options, Sim};

/// How much the space keeps of what is freed.
const RETAINED: [usize; 3] = [0, 64 << 12, 1 << 30];
/// The most frames of a machine: areas that are larger than all of them are refused after they were
/// placed.
const FRAMES: u64 = 1 << 13;

/// A program, and the space and machine that it runs on.
struct Case {
    span: PageRange,
    options: Options,
    config: Config,
    seed: u64,
    /// Live areas aimed at.
    live: usize,
    /// In 256 operations, how many arm a fault.
    faults: u8,
    ops: usize,
}

impl Case {
    fn new(pages: u64, config: Config, seed: u64) -> Self {
        let span = PageRange::from_len(0x7_0003, pages).expect("not empty");
        let options = Options::new(span).frames(pages.min(FRAMES)).seed(seed);
        Self { span, options, config, seed, live: 100, faults: 0, ops: 20_000 }
    }

    /// Runs it; what the machine counted.
    fn judge(self) -> Counts {
        let seed = env::seed(self.seed);
        let told = format!("{:?}; again with VMALLOC_SEED={seed:#x}", self.config);
        let sim = self.options.build();
        // The thread is still bound to the CPU on which an earlier case ended.
        Sim::run_on(0);
        let space = Space::new(sim, self.config).expect("an empty space");
        let generator = SpaceGenerator::new(Seeded::new(seed), self.span, Sim::PAGE_SHIFT);
        let session = SpaceSession::new(space, SimWitness::new(seed));
        let result = session.run(generator.live(self.live).faults(self.faults), env::ops(self.ops));
        result.unwrap_or_else(|failure| panic!("{told}: {failure}")).counts
    }
}

fn config(cache_bytes: usize) -> Config {
    let mut config = Config::default().cache_bytes(cache_bytes);
    config.max_slack_percent = Some(25);
    config
}

#[test]
fn answers_are_legal_in_a_roomy_space() {
    for retain in RETAINED {
        let counts = Case::new(1 << 20, config(retain), 1).judge();
        assert!(counts.out_of_frames > 0, "no area was too large for the machine");
    }
}

#[test]
fn answers_are_legal_in_a_crowded_space() {
    for retain in RETAINED {
        let counts = Case { live: 400, ..Case::new(1 << 10, config(retain), 2) }.judge();
        assert!(counts.interrupts > 0, "no CPU ever held what was purged");
    }
}

#[test]
fn eager_purges_change_nothing() {
    for retain in RETAINED {
        Case::new(1 << 14, config(retain).lazy_max_pages(1), 3).judge();
    }
}

#[test]
fn other_policies_and_no_guard() {
    for policy in [Policy::Best, Policy::Random { seed: 5 }] {
        Case::new(1 << 12, config(0).policy(policy).guard(false), 4).judge();
    }
}

#[test]
fn highest_first() {
    for retain in RETAINED {
        Case { ops: 8_000, ..Case::new(1 << 12, config(retain).policy(Policy::Highest), 9) }.judge();
    }
}

#[test]
fn platform_faults_unwind_completely() {
    for retain in RETAINED {
        for seed in 10..14 {
            let case = Case::new(1 << 12, config(retain), seed);
            let counts = Case { faults: 12, ops: 10_000, ..case }.judge();
            assert!(counts.failed > counts.out_of_frames, "nothing failed on request");
        }
    }
}

/// Frames run out long before addresses do.
#[test]
fn scarce_frames_are_refused_and_given_back() {
    for retain in RETAINED {
        let mut case = Case::new(1 << 14, config(retain), 5);
        case.options = case.options.frames(1 << 9);
        let counts = case.judge();
        assert!(counts.out_of_frames > 50, "only {} refusals", counts.out_of_frames);
    }
}

/// TLBs as small as real ones, whose old entries are gone by chance; and a machine with a single
/// CPU.
#[test]
fn small_tlbs_and_single_cpus() {
    let mut case = Case::new(1 << 12, config(0).lazy_max_pages(64), 6);
    case.options = case.options.tlb_entries(16).cpus(64);
    case.judge();
    let mut case = Case::new(1 << 12, config(0).lazy_max_pages(64), 7);
    case.options = case.options.cpus(1);
    assert_eq!(case.judge().interrupts, 0);
}

/// One seed makes one machine, to the last interrupt.
#[test]
fn a_run_repeats() {
    let run = || Case { faults: 12, ops: 3_000, ..Case::new(1 << 12, config(64 << 12), 8) }.judge();
    assert_eq!(run(), run());
}

#[test]
fn empty_request_is_refused_with_pooled_areas() {
    let span = PageRange::new(0x100, 0x200).expect("not empty");
    let space =
        Space::new(Options::new(span).build(), Config::default().unmap_on_free()).expect("an empty space");
    let page = Request::new(4096).without_guard();
    let addr = space.raw().alloc(&page).expect("there is room");
    assert!(space.shrinkable() > 0, "a run of such areas waits");
    assert!(matches!(space.raw().alloc(&Request::new(0)), Err(AllocError::Request(_))));
    // SAFETY: nothing uses the area.
    unsafe { space.raw().free(addr) }.expect("it was allocated");
}
