//! `/proc/vmallocinfo`: the areas of a running kernel, or of a space of ours, one a line.
//!
//! ```text
//! 0xffffc90000020000-0xffffc90000025000   20480 kernel_clone+0xc2/0x430 pages=4 vmalloc N0=4
//! range, guard page included              bytes caller                  facts   kind    pages by NUMA node
//! ```
//!
//! The kernel hides addresses from readers without the right to see them: then they are zero, or
//! hashed, each to a number of its own, and tell nothing any more; sizes and callers stay true.
//! Which it is, only the whole file tells: see [`Addresses`].

mod compare;
mod kernel_log;
mod line;

pub use kernel_log::{KernelLog, Refusal};

use super::picture::{Area, Class, Strip};
use super::text::{self, Margin};
use regex::Regex;
use serde::Serialize;
use std::io::{self, BufRead};
use std::sync::LazyLock;

/// The longest line that is read: all of a listing whose line ends were lost.
const MOST_LINE_BYTES: usize = 16 << 20;
/// Finds where an area begins.
static RANGE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"0x[[:xdigit:]]{6,16}-0x[[:xdigit:]]{1,16}\s+\d+(?:\s|$)").expect("a pattern")
});
/// Where Linux on x86-64 keeps its own text and modules (Documentation/arch/x86/x86_64/mm.rst): a
/// window apart from vmalloc's.
const MODULES: u64 = 0xffff_ffff_8000_0000;
/// Sizes of a page that Linux has where the listing comes from: no page size of this machine.
const PAGES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// An area as a line tells it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entry {
    /// The number of its line.
    pub line: u64,
    /// Its first address, if that is to be believed.
    pub start: u64,
    /// The address after its last one.
    pub end: u64,
    /// Bytes, guard page included.
    pub bytes: u64,
    /// The caller that allocated it.
    pub caller: Option<String>,
    /// Its kind, in the file's own words.
    pub kind: String,
    /// Pages with memory.
    pub pages: Option<u64>,
}

/// A line that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Remark {
    /// Its number.
    pub line: u64,
    /// The fault.
    #[serde(serialize_with = "in_words")]
    pub reason: Fault,
}

/// The fault of a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It is not one of the file's.
    #[error("{0}")]
    Unreadable(&'static str),
    /// It has a word that is no kind of area, and nothing else.
    #[error("the word '{0}' is not known")]
    Unknown(String),
    /// It has, or may have, an area that could not be read.
    #[error("{0}")]
    Lost(&'static str),
    /// It is the same as an earlier one.
    #[error("it repeats line {0}")]
    Repeats(u64),
    /// It has addresses of an earlier one.
    #[error("it overlaps line {0}")]
    Overlaps(u64),
}

fn in_words<S: serde::Serializer>(reason: &Fault, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(reason)
}

/// The nature of the addresses of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Addresses {
    /// Addresses.
    #[default]
    Real,
    /// Numbers that stand for addresses: an end is not behind its start by the size of the area.
    Hashed,
    /// All the same: zero.
    Zero,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Vmallocinfo {
    /// Its lines, all of them: those with areas, damaged ones and empty ones.
    pub lines: u64,
    /// The areas, as they come.
    pub entries: Vec<Entry>,
    /// Lines that were skipped.
    pub damaged: Vec<Remark>,
    /// Lines that are areas, and not quite as they should be.
    pub doubtful: Vec<Remark>,
    /// The nature of the addresses.
    pub addresses: Addresses,
}

impl Vmallocinfo {
    /// Reads a file to its end.
    ///
    /// # Errors
    /// When reading fails. No text is an error.
    pub fn read(text: impl BufRead) -> io::Result<Self> {
        let mut info = Self::default();
        read_lines(text, |line, is_cut| info.take(line, is_cut))?;
        info.judge();
        Ok(info)
    }

    /// Takes a line, of which the end may be cut off. Where line ends were lost it has many areas.
    fn take(&mut self, text: &str, is_cut: bool) {
        self.lines += 1;
        let starts = RANGE.find_iter(text).skip(1).map(|found| found.start());
        let mut from = 0;
        for end in starts.chain([text.len()]) {
            self.area(&text[from..end]);
            from = end;
        }
        if is_cut {
            self.damaged.push(Remark { line: self.lines, reason: Fault::Lost("its end was left out") });
        }
    }

    fn area(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let line = self.lines;
        match line::parse(line, text) {
            Ok((entry, unknown)) => {
                self.entries.push(entry);
                let reason = unknown.map(Fault::Unknown);
                self.doubtful.extend(reason.map(|reason| Remark { line, reason }));
            }
            Err(reason) => {
                let is_area = text.starts_with("0x") || RANGE.is_match(text);
                let reason = if is_area { Fault::Lost(reason) } else { Fault::Unreadable(reason) };
                self.damaged.push(Remark { line, reason });
            }
        }
    }

    /// Returns how many lines have, or may have, areas that could not be read.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.damaged.iter().filter(|remark| matches!(remark.reason, Fault::Lost(_))).count()
    }

    /// Finds out what the addresses are, as most lines have it. Where they are real, a line that
    /// contradicts itself is damaged.
    fn judge(&mut self) {
        let all = self.entries.len();
        let zero = self.entries.iter().filter(|entry| entry.start == 0 && entry.end == 0).count();
        let wrong = self.entries.iter().filter(|entry| !entry.is_sound()).count();
        self.addresses = match () {
            () if zero * 2 > all => Addresses::Zero,
            () if wrong * 2 > all => Addresses::Hashed,
            () => Addresses::Real,
        };
        if self.addresses == Addresses::Real {
            let (sound, wrong): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.entries).into_iter().partition(Entry::is_sound);
            self.entries = sound;
            let remark = |entry: Entry| {
                let reason = Fault::Lost("the size is not that of the range");
                Remark { line: entry.line, reason }
            };
            self.damaged.extend(wrong.into_iter().map(remark));
        }
        self.compare();
        self.damaged.sort_by_key(|remark| remark.line);
        self.doubtful.sort_by_key(|remark| remark.line);
    }

    /// Bytes of a page: the size that explains most of the lines that tell their pages.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        let explained =
            |page: u64| self.entries.iter().filter(|entry| entry.guard_bytes(page).is_some()).count();
        // Of equals the first: the usual one.
        PAGES.into_iter().rev().max_by_key(|&page| explained(page)).unwrap_or(PAGES[0])
    }

    /// The windows that areas lie in, with what is in them. Empty unless addresses are real.
    #[must_use]
    pub fn strips(&self) -> Vec<Strip> {
        if self.addresses != Addresses::Real {
            return Vec::new();
        }
        let page = self.page_bytes();
        let areas = self.entries.iter().map(|entry| entry.area(page));
        let (low, high): (Vec<_>, Vec<_>) = areas.partition(|area| area.start < MODULES);
        [("vmalloc", low), ("modules", high)]
            .into_iter()
            .filter_map(|(name, areas)| Strip::around(name, areas))
            .collect()
    }
}

/// Gives each line of a text, without the margin that most of them have, to `take`.
/// Also says whether the end of a line, which is too long, is missing.
fn read_lines<'a>(text: impl BufRead + 'a, mut take: impl FnMut(&str, bool)) -> io::Result<()> {
    let (head, mut text) = text::peek(Box::new(text))?;
    let head = String::from_utf8_lossy(&head);
    let areas = |margin: Margin| {
        head.lines().filter(|line| line::parse(0, margin.strip(line)).is_ok()).count() as u64
    };
    let margin = Margin::best(areas);
    let mut buffer = Vec::new();
    loop {
        let length = text::next_line(&mut text, &mut buffer, MOST_LINE_BYTES)?;
        if length == 0 {
            return Ok(());
        }
        let is_cut = length > MOST_LINE_BYTES && !buffer.ends_with(b"\n");
        take(margin.strip(&String::from_utf8_lossy(&buffer)), is_cut);
    }
}

impl Entry {
    /// Returns true if range and size agree.
    fn is_sound(&self) -> bool {
        // The last address stands for the one behind it, which is none.
        let is_last = self.end == u64::MAX && self.start.wrapping_add(self.bytes) == 0;
        (self.end.checked_sub(self.start) == Some(self.bytes) || is_last) && self.bytes > 0
    }

    /// Bytes of the guard page, where the number of pages tells: 0 if there is none.
    fn guard_bytes(&self, page: u64) -> Option<u64> {
        let guard = self.bytes.checked_sub(self.pages?.checked_mul(page)?)?;
        (guard == 0 || guard == page).then_some(guard)
    }

    /// Returns its class in a picture.
    #[must_use]
    pub fn class(&self) -> Class {
        let has = |word| self.kind.split(' ').any(|it| it == word);
        let percpu = self.caller.as_ref().is_some_and(|caller| caller.starts_with("pcpu_get_vm_areas"));
        match () {
            () if has("unpurged") => Class::Lazy,
            // As the kernel tells them, and as our own listing does, by their tag.
            () if percpu || has("percpu") => Class::Percpu,
            () if has("ioremap") => Class::Ioremap,
            () if has("user") => Class::User,
            () if has("vm_map_ram") => Class::MapRam,
            () if has("vmap") => Class::Vmap,
            () if has("vmalloc") => Class::Vmalloc,
            () => Class::Other,
        }
    }

    fn area(&self, page: u64) -> Area {
        let label = match &self.caller {
            Some(caller) => format!("{caller}, {}", self.kind),
            None => self.kind.clone(),
        };
        Area {
            start: self.start,
            end: self.end,
            guard_bytes: self.guard_bytes(page).unwrap_or(0),
            class: self.class(),
            label: Some(label),
        }
    }
}

#[cfg(test)]
mod tests;
