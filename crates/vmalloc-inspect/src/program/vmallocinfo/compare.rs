//! Lines against each other: a listing has each address once.

use super::{Addresses, Entry, Fault, Remark, Vmallocinfo};
use std::collections::HashSet;

impl Vmallocinfo {
    /// Drops lines that repeat an earlier one, as where a terminal was copied twice, and doubts
    /// those that have addresses of an earlier one.
    pub(super) fn compare(&mut self) {
        if self.addresses == Addresses::Zero {
            return;
        }
        let mut sorted: Vec<_> = self.entries.iter().collect();
        sorted.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        let (mut repeats, mut overlaps) = (Vec::new(), Vec::new());
        // The one before, and of all before the one that ends last.
        let mut before: Option<(&Entry, &Entry)> = None;
        for entry in sorted {
            let Some((last, highest)) = before else {
                before = Some((entry, entry));
                continue;
            };
            if entry.is_like(last) {
                repeats.push(Remark { line: entry.line, reason: Fault::Repeats(last.line) });
                continue;
            }
            if self.addresses == Addresses::Real && entry.start < highest.end {
                let (first, second) = (entry.line.min(highest.line), entry.line.max(highest.line));
                overlaps.push(Remark { line: second, reason: Fault::Overlaps(first) });
            }
            before = Some((entry, if entry.end > highest.end { entry } else { highest }));
        }
        let repeated: HashSet<_> = repeats.iter().map(|remark| remark.line).collect();
        self.entries.retain(|entry| !repeated.contains(&entry.line));
        self.doubtful.retain(|remark| !repeated.contains(&remark.line));
        self.damaged.extend(repeats);
        overlaps.sort_by_key(|remark| remark.line);
        overlaps.dedup_by_key(|remark| remark.line);
        self.doubtful.extend(overlaps);
    }
}

impl Entry {
    /// Its place in an order by address, in which lines that say the same follow each other.
    fn key(&self) -> impl Ord {
        (self.start, self.end, &self.caller, &self.kind, self.pages, self.line)
    }

    /// Returns true if the lines say the same.
    fn is_like(&self, other: &Self) -> bool {
        Self { line: other.line, ..self.clone() } == *other
    }
}
