//! The presets, and the defaults that they change.

use super::params::{Parameters, set};
use crate::cases;
use crate::error::Failure;

/// Loops a case without `test_loop_count`. Linux's default of 1,000,000 is made for a kernel that
/// need not ask another one for its pages.
pub(crate) const DEFAULT_LOOPS: u64 = 50_000;

/// A named set of parameters.
pub(crate) struct Preset {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its parameters, as one would type them.
    pub(crate) sets: &'static str,
}

/// Linux's presets.
pub(crate) static PRESETS: [Preset; 3] = [
    Preset { name: "performance", sets: "sequential_test_order=1 test_repeat_count=3" },
    Preset { name: "smoke", sets: "test_loop_count=10000 test_repeat_count=10" },
    Preset { name: "stress", sets: "nr_threads=CPUs test_repeat_count=20" },
];

impl Preset {
    /// Returns the preset of this name.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns the defaults with this preset's changes.
    pub(super) fn parameters(&self) -> Result<Parameters, Failure> {
        let mut parameters = Parameters { preset: Some(self.name), ..Parameters::default() };
        for (key, value) in self.sets.split(' ').filter_map(|word| word.split_once('=')) {
            set(&mut parameters, key, value)?;
        }
        Ok(parameters)
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
            nr_pages: 1,
            use_huge: 0,
            run_test_mask: cases::known_mask(),
            seed: None,
        }
    }
}
