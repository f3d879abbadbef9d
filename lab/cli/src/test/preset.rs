//! The presets, and the defaults that they change.

use super::params::Parameters;
use crate::cases;

/// Loops a case without `test_loop_count`. Linux's default of 1,000,000 is made for a kernel that
/// need not ask another one for its pages.
pub(crate) const DEFAULT_LOOPS: u64 = 50_000;

/// A named set of parameters.
pub(crate) struct Preset {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its parameters, as one would type them.
    pub(crate) sets: &'static str,
    apply: fn(&mut Parameters),
}

/// Linux's presets.
pub(crate) static PRESETS: [Preset; 3] = [
    Preset {
        name: "performance",
        sets: "sequential_test_order=1 test_repeat_count=3",
        apply: |parameters| {
            parameters.sequential_test_order = 1;
            parameters.test_repeat_count = 3;
        },
    },
    Preset {
        name: "smoke",
        sets: "test_loop_count=10000 test_repeat_count=10",
        apply: |parameters| {
            parameters.test_loop_count = 10_000;
            parameters.test_repeat_count = 10;
        },
    },
    Preset {
        name: "stress",
        sets: "nr_threads=CPUs test_repeat_count=20",
        apply: |parameters| {
            parameters.nr_threads = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
            parameters.test_repeat_count = 20;
        },
    },
];

impl Preset {
    /// The preset of this name.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The defaults with this preset's changes.
    pub(super) fn parameters(&self) -> Parameters {
        let mut parameters = Parameters { preset: Some(self.name), ..Parameters::default() };
        (self.apply)(&mut parameters);
        parameters
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            preset: None,
            nr_threads: 1,
            sequential_test_order: 0,
            test_repeat_count: 1,
            test_loop_count: DEFAULT_LOOPS,
            seconds: None,
            nr_pages: 1,
            use_huge: 0,
            run_test_mask: cases::known_mask(),
            seed: None,
        }
    }
}
