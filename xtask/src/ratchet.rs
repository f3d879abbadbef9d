//! `cargo xtask ratchet`: what is allowed only falls.

mod history;
mod numbers;

use crate::policy;
use anyhow::{Result, ensure};
use history::History;
use numbers::{Kind, Numbers};
use std::path::Path;
use vmalloc_harness::not_run;

/// A file with numbers that may only become smaller.
struct Bounds {
    path: &'static str,
    kind: Kind,
}

const fn bounds(path: &'static str, kind: Kind) -> Bounds {
    Bounds { path, kind }
}

/// All of them. Lists of names are no numbers: a test that may be missing (`.ci/may-be-missing`) and a mutant that
/// survives (`testing/mutants/survivors.toml`) have a reason each.
const ALL: [Bounds; 6] = [
    bounds("xtask/source/allowance.toml", Kind::Allowances),
    bounds("docs/instructions.toml", Kind::Bars),
    bounds("docs/kernel-instructions.toml", Kind::Bars),
    bounds("xtask/src/instructions.rs", Kind::Constants(&["MARGIN"])),
    bounds("xtask/src/kernel.rs", Kind::Constants(&["MOST_BYTES"])),
    bounds("xtask/source/src/check/size.rs", Kind::Constants(&["CORE", "FILE", "FUNCTION", "METHODS"])),
];

pub(crate) fn run() -> Result<()> {
    let history = History::of(Path::new("."));
    if !history.has_parent() {
        not_run("the ratchet", "there is no parent commit here to compare with");
    }
    let mut complaints = complaints(&history, &ALL)?;
    for commit in history.commits() {
        let before = history.read(commit, policy::PATH);
        let rise = before.map_or(Ok(0.0), |before| policy::rise_since(&before))?;
        if rise > 0.0 {
            complaints.push(format!(
                "{}: the weighed sum is {:.2} % higher ({commit})",
                policy::PATH,
                100.0 * rise
            ));
        }
    }
    ensure!(complaints.is_empty(), "what is allowed only falls:\n{}", complaints.join("\n"));
    Ok(())
}

/// Returns each number that is higher than in one of the commits to compare with.
fn complaints(history: &History, all: &[Bounds]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for commit in history.commits() {
        for Bounds { path, kind } in all {
            let Some(before) = history.read(commit, path) else { continue };
            let had = |folder: &str| history.has(commit, &format!("{folder}/Cargo.toml"));
            let before = kind.numbers(path, &before)?;
            let found = match history.read_now(path)? {
                Some(now) => rises(*kind, &before, &kind.numbers(path, &now)?, had),
                None => vec!["is gone".to_owned()],
            };
            complaints.extend(found.iter().map(|what| format!("{path}: {what} ({commit})")));
        }
    }
    Ok(complaints)
}

/// Returns the numbers that are higher than before. `had` says whether a crate's folder was there.
fn rises(kind: Kind, before: &Numbers, now: &Numbers, had: impl Fn(&str) -> bool) -> Vec<String> {
    let risen = now.iter().filter_map(|(name, &now)| {
        let before = match before.get(name) {
            Some(&before) => before,
            // A crate without an allowance is allowed nothing.
            None if matches!(kind, Kind::Allowances) && had(&name[0]) => 0.0,
            None => return None,
        };
        (now > before).then(|| format!("{} is {now}, and was {before}", name.join(", ")))
    });
    let is_constant = matches!(kind, Kind::Constants(_));
    let gone = before.keys().filter(|name| is_constant && !now.contains_key(*name));
    risen.chain(gone.map(|name| format!("{} is gone", name.join(", ")))).collect()
}

#[cfg(test)]
mod tests;
