//! Parts of the test programs: each module runs by itself, as a program of its own would.

use super::build::Test;
use std::collections::BTreeMap;
use std::io;
use std::process::Command;

/// A module of a program of tests, or the tests inside a crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its crate and its module: `linux/space`; `linux/unit` has the tests inside the crate.
    pub(super) name: String,
    /// The name of its program: `linux/all`.
    pub(super) program: String,
    /// The names of its tests; none for the tests inside a crate, which run together.
    pub(super) tests: Vec<String>,
}

/// Returns the list of tests that each program prints, by its name.
pub(super) fn lists(programs: &[Test]) -> io::Result<BTreeMap<String, String>> {
    let list = |program: &Test| {
        let output = Command::new(&program.file).arg("--list").output()?;
        Ok((program.name.clone(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    programs.iter().map(list).collect()
}

/// Returns the parts of all programs, by name.
pub(super) fn parts(lists: &BTreeMap<String, String>) -> Vec<Part> {
    let mut all: Vec<_> = lists.iter().flat_map(|(name, list)| modules(name, list)).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Returns the modules of a program that lists its tests so: `space::a_test: test`, one a line.
fn modules(program: &str, list: &str) -> Vec<Part> {
    if program.ends_with("/unit") {
        return vec![Part { name: program.to_owned(), program: program.to_owned(), tests: Vec::new() }];
    }
    let mut modules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let module = test.split("::").next().unwrap_or(test);
        modules.entry(module).or_default().push(test.to_owned());
    }
    let folder = program.split('/').next().unwrap_or(program);
    let part =
        |(module, tests)| Part { name: format!("{folder}/{module}"), program: program.to_owned(), tests };
    modules.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_part_for_each_module() {
        let list =
            "fork::one: test\nfamily::fork::two: test\nfork::self::three: test\n\n3 tests, 0 benchmarks\n";
        let part = |name: &str, tests: &[&str]| Part {
            name: format!("linux/{name}"),
            program: "linux/all".to_owned(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        let expected =
            [part("family", &["family::fork::two"]), part("fork", &["fork::one", "fork::self::three"])];
        assert_eq!(modules("linux/all", list), expected);
    }
}
