//! Every line accounted for: what was read, and what could not be.

use super::event::{Event, Kind, KindName};
use serde::Serialize;
use std::collections::BTreeMap;

/// Damages that are kept in words; the others are only counted.
const KEPT: usize = 10;

/// The lines of a trace by kind. `total = events + headers + other + damaged`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Account {
    /// Lines.
    pub total: u64,
    /// Lines with an event. Some say nothing before a later line completes them: those are among
    /// `other`.
    pub events: u64,
    /// The events by kind.
    pub kinds: Kinds,
    /// Comments, headers and empty lines.
    pub headers: u64,
    /// Lines that the format knows and that move no addresses: other tracepoints, signals, exits,
    /// halves of calls.
    pub other: u64,
    /// Lines that could not be read.
    pub damaged: u64,
    /// The first of them.
    pub first_damages: Vec<Damage>,
    /// Events that the tracer says it lost.
    pub lost: u64,
    /// Address spaces that the calls of programs belong to, as far as the trace tells. A replay
    /// has one.
    pub spaces: u64,
}

/// A line without an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    Header,
    Other,
    /// The tracer says that it lost so many events.
    Lost(u64),
}

impl Account {
    /// Counts an event.
    pub fn event(&mut self, event: &Event) {
        self.total += 1;
        self.events += 1;
        self.kinds.count(event.kind);
    }

    pub(super) fn known(&mut self, known: Known) {
        self.total += 1;
        match known {
            Known::Header => self.headers += 1,
            Known::Other => self.other += 1,
            Known::Lost(events) => {
                self.other += 1;
                self.lost = self.lost.saturating_add(events);
            }
        }
    }

    pub(super) fn damage(&mut self, damage: &Damage) {
        self.total += 1;
        self.damaged += 1;
        if self.first_damages.len() < KEPT {
            self.first_damages.push(damage.clone());
        }
    }

    /// Returns true if the parts add up to the total.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let kinds: u64 = self.kinds.told().iter().map(|(_, count)| count).sum();
        self.total == self.events + self.headers + self.other + self.damaged && self.events == kinds
    }
}

/// How many events of each kind there are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Kinds(BTreeMap<KindName, u64>);

impl Kinds {
    fn count(&mut self, kind: Kind) {
        *self.0.entry(kind.into()).or_default() += 1;
    }

    /// Returns the kinds that there are, as they are told.
    #[must_use]
    pub fn told(&self) -> Vec<(&'static str, u64)> {
        self.0.iter().map(|(&kind, &count)| (kind.into(), count)).collect()
    }
}

/// A part of a trace that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize)]
#[error("line {line}: {reason}")]
pub struct Damage {
    /// Where, from 1.
    pub line: u64,
    /// Why.
    #[serde(serialize_with = "in_words")]
    pub reason: Reason,
}

fn in_words<S: serde::Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(reason)
}

/// Why something could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// A line of more bytes than any tracer writes.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// Bytes that are no text.
    #[error("not UTF-8")]
    NotUtf8,
    /// Bytes that no text holds.
    #[error("a NUL byte")]
    Nul,
    /// Not a line of the format.
    #[error("not a line of this format")]
    Strange,
    /// Part of a line is missing or wrong.
    #[error("no valid {0}")]
    Field(&'static str),
    /// Something follows where the line should end.
    #[error("more than the event behind it")]
    Trailing,
    /// The end of a call whose beginning is not in the trace.
    #[error("the end of a call whose beginning is missing")]
    Orphan,
    /// The source fails, which ends the trace.
    #[error("nothing can be read from here on: {0}")]
    Unreadable(String),
}
