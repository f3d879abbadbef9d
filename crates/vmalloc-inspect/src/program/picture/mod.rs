//! A picture of an address space, as text or as SVG.
//!
//! ```text
//!                        ┌ a line is as many bytes, a power of two, as let all lines that hold something fit
//!   0x80000000  ████▓▓▓▓░░░░██████░░░░████      █ vmalloc  ▓ lazy   ░ free   ▏ guard page
//!   0x80400000  ██████████░░░░░░░░░░░░░░░░
//!        ⋮      ~~~ 1.9 TiB free ~~~~~~~~~      a fold: lines that would hold nothing
//!   0x1fff…000  ░░░░░░░░░░░░░░░░░░░░░░████
//! ```
//!
//! A [`Strip`] is a window of addresses with its [`Area`]s; what no area covers is free. [`layout`]
//! cuts it into lines, and is all the geometry there is: [`terminal`] and [`svg`] only paint.
//!
//! * I1. Every byte of a strip is in exactly one piece of a line, or in a fold.
//! * I2. A fold holds free bytes only, of one gap, and more of them than a line has.
//! * I3. A picture has at most [`svg::MOST_ELEMENTS`] elements: where single areas would be more, each line is cut into
//!   cells that tell what is most in them.

pub mod layout;
pub mod svg;
pub mod terminal;

use serde::Serialize;
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// The class of an area in a picture.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Serialize,
    EnumCount,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Class {
    /// Handed out with memory of its own.
    Vmalloc,
    /// Pages of another owner.
    Vmap,
    /// A short mapping, or a block of them.
    MapRam,
    /// Memory of a device.
    Ioremap,
    /// Memory that programs may see.
    User,
    /// One of a group of congruent areas.
    Percpu,
    /// Handed out for something else.
    Other,
    /// Freed, and waiting for a purge.
    Lazy,
    /// Not in use.
    Free,
}

impl Class {
    /// All, in the order of legends.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("as many as are counted");

    /// Returns the name as legends write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MapRam => "vm_map_ram",
            other => other.key(),
        }
    }

    /// Returns the name as style sheets and element names write it.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.into()
    }

    /// Its letter on a terminal: no two have the same one, in either case.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Vmalloc => 'V',
            Self::Vmap => 'M',
            Self::MapRam => 'R',
            Self::Ioremap => 'I',
            Self::User => 'U',
            Self::Percpu => 'C',
            Self::Other => 'O',
            Self::Lazy => 'Z',
            Self::Free => '.',
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A range of addresses in use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Area {
    /// Its first address.
    pub start: u64,
    /// The address after its last, guard pages included.
    pub end: u64,
    /// Bytes at its end that are guard pages.
    pub guard_bytes: u64,
    /// Its class.
    pub class: Class,
    /// Its caller or its tag.
    pub label: Option<String>,
}

impl Area {
    /// Bytes, guard pages included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// A window of addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Strip {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// The areas in use, in order of addresses.
    pub areas: Vec<Area>,
}

impl Strip {
    /// A window with all `areas` in it, in any order. What would overlap an earlier one is cut, and
    /// what is outside dropped.
    #[must_use]
    pub fn new(name: impl Into<String>, start: u64, end: u64, mut areas: Vec<Area>) -> Self {
        areas.sort_by_key(|area| (area.start, area.end));
        let mut from = start;
        areas.retain_mut(|area| {
            area.start = area.start.max(from);
            area.end = area.end.min(end);
            let left = area.start < area.end && area.class != Class::Free;
            if left {
                area.guard_bytes = area.guard_bytes.min(area.bytes());
                from = area.end;
            }
            left
        });
        Self { name: name.into(), start, end: end.max(start), areas }
    }

    /// The window that begins with the first of `areas` and ends with the last; `None` if there are
    /// none.
    #[must_use]
    pub fn around(name: impl Into<String>, areas: Vec<Area>) -> Option<Self> {
        let start = areas.iter().map(|area| area.start).min()?;
        let end = areas.iter().map(|area| area.end).max()?;
        Some(Self::new(name, start, end, areas))
    }

    /// Everything from its first address to its last: areas, and the gaps between them.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::with_capacity(self.areas.len() * 2 + 1);
        let mut from = self.start;
        for (index, area) in self.areas.iter().enumerate() {
            push_gap(&mut parts, from, area.start);
            parts.push(Part { start: area.start, end: area.end, area: Some(index) });
            from = area.end;
        }
        push_gap(&mut parts, from, self.end);
        parts
    }

    /// Returns the class of a part.
    #[must_use]
    pub fn class(&self, part: Part) -> Class {
        part.area.map_or(Class::Free, |index| self.areas[index].class)
    }
}

fn push_gap(parts: &mut Vec<Part>, start: u64, end: u64) {
    if start < end {
        parts.push(Part { start, end, area: None });
    }
}

/// An area, or a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Which area; `None` for a gap.
    pub area: Option<usize>,
}

/// Returns `text` with a replacement for each control character but a line break.
///
/// A name from a file can neither break an XML document then, nor move a terminal's cursor.
#[must_use]
pub fn printable(text: &str) -> String {
    let is_odd = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if is_odd(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Rounds a coordinate to five decimals, so that it is short when it is written.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

/// How many there are of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Total {
    /// Areas, or gaps.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Total {
    /// One more.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// The totals of all classes, by [`Class::index`].
#[must_use]
pub fn totals(strips: &[Strip]) -> [Total; Class::ALL.len()] {
    let mut totals = [Total::default(); Class::ALL.len()];
    for strip in strips {
        for part in strip.parts() {
            totals[strip.class(part).index()].add(part.end - part.start);
        }
    }
    totals
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An area from page `start`, of so many pages, of which the last is a guard page.
    pub(crate) fn area(start: u64, pages: u64, class: Class) -> Area {
        let start = start << 12;
        Area { start, end: start + (pages << 12), guard_bytes: 4096, class, label: None }
    }

    #[test]
    fn overlapping_areas_are_cut_and_bytes_counted_once() {
        let strip = Strip::new("s", 0, 20 << 12, vec![area(4, 4, Class::Lazy), area(2, 4, Class::Vmalloc)]);
        let parts: Vec<_> =
            strip.parts().iter().map(|part| (part.start >> 12, part.end >> 12, part.area)).collect();
        assert_eq!(parts, [(0, 2, None), (2, 6, Some(0)), (6, 8, Some(1)), (8, 20, None)]);
        let totals = totals(&[strip]);
        let told = |class: Class| (totals[class.index()].count, totals[class.index()].bytes >> 12);
        assert_eq!([Class::Vmalloc, Class::Lazy, Class::Free].map(told), [(1, 4), (1, 2), (2, 14)]);
    }

    #[test]
    fn classes_have_names_and_letters_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index);
            assert!(seen.insert(class.name().to_owned()) && seen.insert(class.letter().to_string()));
        }
    }
}
