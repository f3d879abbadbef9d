//! Places in the code that locked, or to which a cache line came.
//!
//! A site is a return address. Its name comes from a backtrace that is captured where the site is
//! met first: the debug information tells the functions that were inlined there, with their types.

use crate::{LineStats, LockStats};
use std::backtrace::Backtrace;
use std::collections::HashMap;

/// Counts of a site.
#[derive(Debug)]
pub(crate) struct Site {
    met: Backtrace,
    pub(crate) lock: LockStats,
    pub(crate) lines: LineStats,
}

/// All sites of a run.
#[derive(Debug, Default)]
pub(crate) struct Sites(HashMap<usize, Site>);

impl Sites {
    /// Returns the counts of a return address, in whose function this runs.
    pub(crate) fn at(&mut self, site: usize) -> &mut Site {
        self.0.entry(site).or_insert_with(|| Site {
            met: Backtrace::force_capture(),
            lock: LockStats::default(),
            lines: LineStats::default(),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Site> {
        self.0.values()
    }
}

impl Site {
    pub(crate) fn place(&self) -> Place {
        Place::read(&self.met.to_string())
    }
}

/// The functions around a site, innermost first: each with its file and line.
#[derive(Debug)]
pub(crate) struct Place(Vec<(String, String)>);

impl Place {
    /// Reads a backtrace: `N: function`, and below it `at file:line:column`.
    fn read(trace: &str) -> Self {
        let mut frames = Vec::new();
        for line in trace.lines().map(str::trim) {
            if let Some(at) = line.strip_prefix("at ") {
                if let Some((_, place)) = frames.last_mut() {
                    *place = at.rsplit_once(':').map_or(at, |(place, _)| place).to_owned();
                }
            } else if let Some((_, function)) = line.split_once(": ") {
                frames.push((function.to_owned(), String::new()));
            }
        }
        Self(frames)
    }

    /// Returns the type that the lock protects, which is taken here, without its path.
    pub(crate) fn guarded(&self) -> String {
        let methods =
            self.0.iter().filter(|(_, place)| place.contains("lock_api") && place.contains("mutex.rs"));
        let mut types = methods.filter_map(|(function, _)| second(function.split_once('<')?.1));
        types.next().map_or_else(|| "?".to_owned(), |guarded| without_paths(&guarded))
    }

    /// Returns the line of the source, and those that it was called from in other files.
    pub(crate) fn lines(&self) -> String {
        let mut named: Vec<&str> =
            self.0.iter().map(|(_, place)| place.as_str()).filter(|it| is_named(it)).collect();
        named.dedup_by_key(|place| place.split_once(':').map(|(file, _)| file));
        let names: Vec<_> = named.into_iter().take(LEVELS).map(from_the_root).collect();
        if names.is_empty() { "?".to_owned() } else { names.join(" < ") }
    }
}

/// How many lines tell of a site.
const LEVELS: usize = 3;

/// Returns whether a line of the source is one that a site is named for: not of libraries, locks,
/// atomics, or this crate.
fn is_named(place: &str) -> bool {
    const LEFT_OUT: [&str; 5] = ["/rustc/", "/registry/", "machine/src/", "/lock/modelled.rs", "/src/sync/"];
    place.contains(".rs:") && !LEFT_OUT.iter().any(|part| place.contains(part))
}

/// Returns the second of the types between two brackets, of which the first was read.
fn second(types: &str) -> Option<String> {
    let (mut depth, mut commas, mut found) = (0, 0, String::new());
    for letter in types.chars() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if depth == 0 => break,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                commas += 1;
                continue;
            }
            _ => {}
        }
        if commas == 1 {
            found.push(letter);
        }
    }
    (commas > 0).then(|| found.trim().to_owned())
}

/// Leaves the last name of each path.
fn without_paths(name: &str) -> String {
    let mut short = String::new();
    for letter in name.chars() {
        short.push(letter);
        if short.ends_with("::") {
            let path = short
                .trim_end_matches(|letter: char| letter.is_alphanumeric() || "_:".contains(letter))
                .len();
            short.truncate(path);
        }
    }
    short
}

/// Returns a file's name from the folder of its crate on.
fn from_the_root(place: &str) -> &str {
    let root = ["/crates/", "/lab/", "./"].iter().find_map(|folder| place.split_once(folder));
    root.map_or(place, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtrace_names_the_guarded_type_and_the_lines() {
        let trace = "   0: vmalloc_machine::hooks::spin_lock\n             at ./machine/src/hooks.rs:30:9\n   \
            1: lock<vmalloc_lab::lock::Spin, vmalloc::cache::Node<vmalloc::A, u8>>\n             \
            at /home/x/.cargo/registry/src/index/lock_api-0.4.14/src/mutex.rs:213:2\n   \
            2: map<Spin>\n             at /x/crates/vmalloc/src/areas/map.rs:21:30\n   \
            3: map<Spin>\n             at /x/crates/vmalloc/src/areas/map.rs:44:30\n   \
            4: claim\n             at /x/crates/vmalloc/src/space/held_node.rs:121:30\n";
        let place = Place::read(trace);
        assert_eq!(place.guarded(), "Node<A, u8>");
        assert_eq!(place.lines(), "vmalloc/src/areas/map.rs:21 < vmalloc/src/space/held_node.rs:121");
        assert_eq!((Place::read("").lines(), Place::read("").guarded()), ("?".to_owned(), "?".to_owned()));
    }
}
