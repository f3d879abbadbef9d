//! The plan of a replay: the options, checked once.

use super::input::Input;
use crate::args::{ReplayOptions, Replayed};
use crate::error::Failure;
use std::num::NonZeroU64;
use std::path::Path;
use vmalloc_lab::designs::Name;

/// The checked options.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Input>,
    pub(super) designs: Vec<Name>,
    pub(super) purges: Replayed,
    /// Calls after which memory is short again.
    pub(super) pressure: Option<NonZeroU64>,
    pub(super) damage: OnDamage,
}

/// The response to damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnDamage {
    Count,
    Stop,
}

impl Plan {
    /// Checks the options against each other.
    pub(super) fn new(options: &ReplayOptions) -> Result<Self, Failure> {
        Ok(Self {
            inputs: inputs(options)?,
            designs: designs(&options.design)?,
            purges: options.purges,
            pressure: options.pressure,
            damage: if options.strict { OnDamage::Stop } else { OnDamage::Count },
        })
    }
}

fn inputs(options: &ReplayOptions) -> Result<Vec<Input>, Failure> {
    let stdin = options.files.iter().filter(|file| is_stdin(file)).count();
    match (options.synthetic, options.files.as_slice()) {
        (Some(events), []) => Ok(vec![Input::Synthetic(events)]),
        (None, []) => {
            Err(Failure::new("a trace is needed: a FILE, '-' for standard input, or --synthetic N"))
        }
        (None, files) if stdin <= 1 => Ok(files.iter().map(|file| input(file)).collect()),
        (None, _) => Err(Failure::new("standard input can be read once only")),
        (Some(_), _) => Err(Failure::new("--synthetic takes the place of a FILE")),
    }
}

fn input(file: &Path) -> Input {
    if is_stdin(file) { Input::Stdin } else { Input::File(file.into()) }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Returns the designs of these names, each once; the product's own where none is named.
fn designs(words: &[String]) -> Result<Vec<Name>, Failure> {
    let mut named = Vec::new();
    for word in words {
        match word.parse() {
            Ok(name) => named.push(name),
            Err(_) if word == "all" => named.extend(Name::ALL),
            Err(error) => return Err(Failure::new(format!("{error}, and all"))),
        }
    }
    let mut designs = Vec::new();
    for name in named {
        if !designs.contains(&name) {
            designs.push(name);
        }
    }
    Ok(if designs.is_empty() { vec![Name::Vmalloc] } else { designs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_are_taken_by_name_and_once() {
        let named = |words: &[&str]| designs(&words.iter().map(|&word| word.into()).collect::<Vec<_>>());
        assert_eq!(named(&[]), Ok(vec![Name::Vmalloc]));
        assert_eq!(named(&["all", "vmalloc"]), Ok(Name::ALL.to_vec()));
        for &name in Name::ALL {
            assert_eq!(named(&[name.as_str(), name.as_str()]), Ok(vec![name]));
        }
        assert!(named(&["slab"]).expect_err("unknown").to_string().contains("'slab'"));
    }
}
