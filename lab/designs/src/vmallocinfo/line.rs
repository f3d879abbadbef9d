//! One line.

use super::Entry;

/// Words that tell what an area is, as the kernel prints them and as our own listing does.
const KINDS: [&str; 16] = [
    "vmalloc",
    "vmap",
    "ioremap",
    "user",
    "sparse",
    "dma-coherent",
    "vpages",
    "vm_map_ram",
    "unpurged",
    "vm_area",
    "exec",
    "percpu",
    "block",
    "reserved",
    "lazy",
    "uninitialized",
];

/// Reads `text`. Returns the area and the first word that is not known, or the fault.
pub(super) fn parse(line: u64, text: &str) -> Result<(Entry, Option<String>), &'static str> {
    let mut words = text.split_ascii_whitespace();
    let range = words.next().ok_or("it is empty")?;
    let (start, end) = range.split_once('-').ok_or("it has no range")?;
    let start = address(start).ok_or("it begins with no address")?;
    let end = address(end).ok_or("it has no end address")?;
    let bytes = words.next().and_then(|word| word.parse().ok()).ok_or("it has no size")?;
    let mut entry = Entry { line, start, end, bytes, caller: None, kind: String::new(), pages: None };
    let mut unknown = None;
    for (index, word) in words.enumerate() {
        if entry.word(index, word)? == Word::Unknown {
            unknown.get_or_insert_with(|| word.to_owned());
        }
    }
    if entry.kind.is_empty() {
        entry.kind.push_str("unknown");
    }
    Ok((entry, unknown))
}

/// `0x` and up to 16 digits. Before the kernel has random numbers it prints a word instead, which
/// is no address: zero.
fn address(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    if digits.contains("ptrval") {
        return Some(0);
    }
    // The parser would take a sign.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The two sorts of words: those that kernels print, and others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Known,
    Unknown,
}

impl Entry {
    /// Takes the word of this place behind the size. A word that is not known is part of the kind:
    /// vendors have kinds of their own.
    fn word(&mut self, index: usize, word: &str) -> Result<Word, &'static str> {
        if let Some((key, value)) = word.split_once('=') {
            if key == "pages" {
                self.pages = Some(value.parse().map_err(|_| "its number of pages is none")?);
            }
        } else if KINDS.contains(&word) {
            self.add_kind(word);
        } else if index == 0 {
            // How our own listing says that there is none.
            self.caller = (word != "-").then(|| word.to_owned());
        } else if let (Some(caller), true) = (&mut self.caller, word.starts_with('[')) {
            // The module that the caller is in.
            caller.push(' ');
            caller.push_str(word);
        } else {
            self.add_kind(word);
            return Ok(Word::Unknown);
        }
        Ok(Word::Known)
    }

    fn add_kind(&mut self, word: &str) {
        if !self.kind.is_empty() {
            self.kind.push(' ');
        }
        self.kind.push_str(word);
    }
}
