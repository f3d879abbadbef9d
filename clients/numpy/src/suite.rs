//! The tests that numpy's package carries, with and without our memory.

use crate::environment::Environment;
use std::collections::BTreeSet;

/// numpy's tests of arithmetic, by their modules in `numpy._core.tests`.
pub const ARITHMETIC: &[&str] = &[
    "test_umath",
    "test_umath_complex",
    "test_ufunc",
    "test_numeric",
    "test_scalarmath",
    "test_half",
    "test_einsum",
];

/// More tests of arrays and their memory. Of these `test_mem_overlap` and `test_multiarray` take the longest.
pub const REST: &[&str] = &[
    "test_multiarray",
    "test_mem_overlap",
    "test_nditer",
    "test_item_selection",
    "test_indexing",
    "test_shape_base",
    "test_function_base",
    "test_casting_unittests",
];

/// How a run of tests ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Tests that passed.
    pub passed: usize,
    /// The names of those that failed.
    pub failed: BTreeSet<String>,
    /// Tests before and after which arrays came from the space, and others.
    pub managed: usize,
    /// Tests that ended with another allocator than they began with, or began without ours.
    pub unmanaged: usize,
    /// The summaries, for people.
    pub text: String,
}

/// Runs modules of numpy's tests, on our memory or on numpy's own.
///
/// # Panics
/// If Python does not start.
#[must_use]
pub fn run(environment: &Environment, modules: &[&str], is_ours: bool) -> Outcome {
    let mut pytest = environment.command();
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--pyargs"]);
    pytest.args(modules.iter().map(|module| format!("numpy._core.tests.{module}")));
    if is_ours {
        pytest.args(["-p", "vmalloc_session"]);
    }
    // Tests that want more memory than that are skipped: they are for machines of their own.
    let output = pytest.env("NPY_AVAILABLE_MEM", "1GB").output().expect("Python starts");
    outcome(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr))
}

fn outcome(text: &str, errors: &str) -> Outcome {
    let named = |line: &&str| line.starts_with("FAILED ") || line.starts_with("ERROR ");
    let failed =
        text.lines().filter(named).filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned);
    let counted = |name: &str| {
        let counts = text.lines().find(|line| line.starts_with("vmalloc: ")).unwrap_or_default();
        counts
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or(0)
    };
    // "24495 passed, 94 skipped in 100.00s"
    let words: Vec<_> = text.lines().last().unwrap_or_default().split([' ', ',']).collect();
    let place = words.iter().position(|&word| word == "passed");
    let passed = place.and_then(|place| words.get(place.checked_sub(1)?)?.parse().ok()).unwrap_or(0);
    let start = text.find("= FAILURES").or(text.find("= short test")).unwrap_or_else(|| last_lines(text));
    Outcome {
        passed,
        failed: failed.collect(),
        managed: counted("managed"),
        unmanaged: counted("unmanaged"),
        text: format!("{}\n{errors}", &text[start..]),
    }
}

/// Returns where the last two lines start.
fn last_lines(text: &str) -> usize {
    text.trim_end().rmatch_indices('\n').nth(1).map_or(0, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_from_what_pytest_prints() {
        let text = "....F\n= FAILURES =\nwhy\nvmalloc: managed=4 unmanaged=1 most_areas=3\n= short test summary info =\n\
                    FAILED tests/test_umath.py::TestA::test_b - assert 1\nERROR tests/c.py::d\n1 failed, 4 passed, 2 skipped in 0.1s\n";
        let outcome = outcome(text, "");
        assert_eq!((outcome.passed, outcome.managed, outcome.unmanaged), (4, 4, 1));
        let failed: Vec<_> = outcome.failed.iter().map(String::as_str).collect();
        assert_eq!(failed, ["tests/c.py::d", "tests/test_umath.py::TestA::test_b"]);
        assert!(outcome.text.starts_with("= FAILURES"));
    }

    #[test]
    fn an_outcome_without_a_summary_has_no_passed_tests() {
        assert_eq!(outcome("Segmentation fault", "").passed, 0);
        assert_eq!(outcome("", "").passed, 0);
    }
}
