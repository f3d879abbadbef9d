//! The driver's parameters: Linux's names, checked once.

use super::preset::{PRESETS, Preset};
use crate::cases::{self, Case};
use crate::error::Failure;
use crate::worker_threads::MAX_THREADS;
use serde::Serialize;
use vmalloc_inspect::program;

/// The most loops, repeats and pages: Linux's are `int`s.
const MAX_COUNT: u64 = i32::MAX as u64;

/// The parameters of a run: numbers throughout, as in Linux's driver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Parameters {
    /// The preset that they began with.
    pub(crate) preset: Option<&'static str>,
    /// Workers, each a thread.
    pub(crate) nr_threads: u64,
    /// 1: run the cases in the order of their bits. 0: each worker in an order of its own.
    pub(crate) sequential_test_order: u64,
    /// How often each case is run.
    pub(crate) test_repeat_count: u64,
    /// Loops of a run.
    pub(crate) test_loop_count: u64,
    /// Pages an area of the cases that take the parameter.
    pub(crate) nr_pages: u64,
    /// 1: ask for huge pages in the cases that can.
    pub(crate) use_huge: u64,
    /// The cases to run.
    pub(crate) run_test_mask: u64,
    /// The seed asked for; the one used is in the report.
    #[serde(skip)]
    pub(crate) seed: Option<u64>,
}

impl Parameters {
    /// The cases to run, in the order of their bits.
    pub(crate) fn cases(&self) -> impl Iterator<Item = &'static Case> {
        cases::of_mask(self.run_test_mask)
    }
}

/// A parameter: its name, what it may be, and where it is kept.
struct Key {
    name: &'static str,
    least: u64,
    most: u64,
    set: fn(&mut Parameters, u64),
}

static KEYS: [Key; 8] = [
    Key { name: "nr_threads", least: 1, most: MAX_THREADS, set: |p, value| p.nr_threads = value },
    Key { name: "sequential_test_order", least: 0, most: 1, set: |p, value| p.sequential_test_order = value },
    Key { name: "test_repeat_count", least: 1, most: MAX_COUNT, set: |p, value| p.test_repeat_count = value },
    Key { name: "test_loop_count", least: 1, most: MAX_COUNT, set: |p, value| p.test_loop_count = value },
    Key { name: "nr_pages", least: 1, most: MAX_COUNT, set: |p, value| p.nr_pages = value },
    Key { name: "use_huge", least: 0, most: 1, set: |p, value| p.use_huge = value },
    Key { name: "run_test_mask", least: 1, most: u64::MAX, set: |p, value| p.run_test_mask = value },
    Key { name: "seed", least: 0, most: u64::MAX, set: |p, value| p.seed = Some(value) },
];

/// Reads `[preset] [name of a case | key=value]…`. Nothing at all means `performance`; a key given
/// twice, its last value.
pub(crate) fn parse(words: &[String]) -> Result<Parameters, Failure> {
    let (mut parameters, rest) = begin(words)?;
    let (mut picked, mut masked) = (0, false);
    for word in rest {
        if let Some((key, value)) = word.split_once('=') {
            set(&mut parameters, key, value)?;
            masked |= key == "run_test_mask";
        } else {
            picked |= pick(word)?;
        }
    }
    match (picked, masked) {
        (0, _) => {}
        (_, true) => return Err(Failure::new("give names of cases or run_test_mask, not both")),
        (mask, false) => parameters.run_test_mask = mask,
    }
    check_mask(&parameters)?;
    Ok(parameters)
}

/// Returns the parameters to start from, and the words that change them.
fn begin(words: &[String]) -> Result<(Parameters, &[String]), Failure> {
    let first = words.first().map_or("performance", String::as_str);
    match Preset::by_name(first) {
        Some(preset) => Ok((preset.parameters()?, words.get(1..).unwrap_or_default())),
        None => Ok((Parameters::default(), words)),
    }
}

/// Sets a parameter.
pub(super) fn set(parameters: &mut Parameters, key: &str, value: &str) -> Result<(), Failure> {
    let Some(known) = KEYS.iter().find(|known| known.name == key) else {
        let meant = did_you_mean(key, KEYS.iter().map(|known| known.name));
        return Err(Failure::new(format!(
            "no parameter is named '{key}'{meant}; see 'vmalloc-lab test --help'"
        )));
    };
    let Key { name, least, most, set } = *known;
    match number(value) {
        Some(value) if (least..=most).contains(&value) => {
            set(parameters, value);
            Ok(())
        }
        _ => Err(Failure::new(format!("{name}={value} is not a number from {least} to {most}"))),
    }
}

/// Reads a decimal number, in thousands with `k` and so on, a hexadecimal one with `0x`, or `CPUs`:
/// as many as there are.
fn number(text: &str) -> Option<u64> {
    if text == "CPUs" {
        return std::thread::available_parallelism().ok().map(|cpus| cpus.get() as u64);
    }
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // `from_str_radix` takes a sign.
        Some(digits) if digits.starts_with('+') => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => program::number(text, 1000),
    }
}

/// Asks whether the name was meant that is nearest to `word`, if one is near.
fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(word, name);
    let near = names.filter(|name| likeness(name) > 0.8);
    let nearest = near.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    nearest.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

fn pick(word: &str) -> Result<u64, Failure> {
    match cases::by_name(word) {
        Some(case) => Ok(case.bit),
        None if Preset::by_name(word).is_some() => {
            Err(Failure::new(format!("the preset '{word}' must come first, and alone")))
        }
        None => {
            let names =
                PRESETS.iter().map(|preset| preset.name).chain(cases::CASES.iter().map(|case| case.name));
            let meant = did_you_mean(word, names);
            let line = format!(
                "'{word}' is no preset, no case and no parameter{meant}; see 'vmalloc-lab test --help'"
            );
            Err(Failure::new(line))
        }
    }
}

fn check_mask(parameters: &Parameters) -> Result<(), Failure> {
    let unknown = parameters.run_test_mask & !cases::known_mask();
    if unknown != 0 {
        return Err(Failure::new(format!("run_test_mask: no case has the bits {unknown:#x}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Parameters, String> {
        let words: Vec<_> = words.split_whitespace().map(String::from).collect();
        parse(&words).map_err(|failure| failure.to_string())
    }

    #[test]
    fn presets_are_those_of_linux() {
        let performance = parsed("").unwrap();
        assert_eq!(parsed("performance").unwrap(), performance);
        assert_eq!((performance.sequential_test_order, performance.test_repeat_count), (1, 3));
        let smoke = parsed("smoke").unwrap();
        assert_eq!((smoke.test_loop_count, smoke.test_repeat_count), (10_000, 10));
        let stress = parsed("stress").unwrap();
        assert_eq!(stress.test_repeat_count, 20);
        assert!(stress.nr_threads >= 1);
    }

    #[test]
    fn overrides_follow_a_preset_and_the_last_wins() {
        let parameters =
            parsed("smoke nr_threads=4 test_repeat_count=2 test_repeat_count=0x3 seed=9").unwrap();
        assert_eq!(parameters.preset, Some("smoke"));
        assert_eq!((parameters.nr_threads, parameters.test_repeat_count), (4, 3));
        assert_eq!((parameters.test_loop_count, parameters.seed), (10_000, Some(9)));
    }

    #[test]
    fn masks_and_names_choose_cases() {
        let names = |words| -> Vec<_> { parsed(words).unwrap().cases().map(|case| case.name).collect() };
        let both = ["fix_size_alloc_test", "random_size_alloc_test"];
        assert_eq!(names("run_test_mask=9"), both);
        assert_eq!(names("run_test_mask=0x9"), both);
        assert_eq!(names("random_size_alloc_test fix_size_alloc_test"), both);
        assert_eq!(names("run_test_mask=0x81"), ["fix_size_alloc_test", "pcpu_alloc_test"]);
        assert_eq!(names("").len(), 14, "all");
    }

    #[test]
    fn bad_words_are_refused_with_a_reason() {
        for (words, reason) in [
            ("test_loop_count=-1", "test_loop_count=-1 is not a number from 1 to 2147483647"),
            ("test_loop_count=+1", "not a number"),
            ("test_loop_count=", "not a number"),
            ("test_repeat_count=2147483648", "not a number from 1 to 2147483647"),
            ("nr_threads=0", "nr_threads=0 is not a number from 1 to 65535"),
            ("nr_threads=99999999", "from 1 to 65535"),
            ("nr_pages=0", "nr_pages=0 is not"),
            ("nr_pages=2147483648", "nr_pages=2147483648 is not a number from 1 to 2147483647"),
            ("nr_pages=18446744073709551616", "nr_pages=18446744073709551616 is not"),
            ("use_huge=2", "use_huge=2 is not a number from 0 to 1"),
            ("run_test_mask=0", "run_test_mask=0 is not"),
            ("run_test_mask=0x10001", "no case has the bits 0x10000"),
            ("nr_threds=1", "no parameter is named 'nr_threds'"),
            ("=1", "no parameter is named ''"),
            ("fast", "'fast' is no preset, no case and no parameter"),
            ("nr_pages=2 smoke", "must come first"),
            ("fix_size_alloc_test run_test_mask=1", "not both"),
        ] {
            let refusal = parsed(words).expect_err(words);
            assert!(refusal.contains(reason), "{words}: {refusal}");
            assert!(!refusal.contains('\n'));
        }
    }
}
