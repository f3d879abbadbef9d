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
    let bytes: u64 = words.next().and_then(|word| word.parse().ok()).ok_or("it has no size")?;
    let end = if end == 0 { end_of_addresses(start, bytes) } else { end };
    let (mut caller, mut unknown): (Option<String>, Option<String>) = (None, None);
    let (mut kinds, mut pages) = (Vec::new(), None);
    for (index, word) in words.enumerate() {
        match (word.split_once('='), &mut caller) {
            (Some(("pages", value)), _) => {
                pages = Some(value.parse().map_err(|_| "its number of pages is none")?);
            }
            (Some(_), _) => {}
            _ if KINDS.contains(&word) => kinds.push(word),
            // How our own listing says that there is none.
            _ if index == 0 => caller = (word != "-").then(|| word.to_owned()),
            // The module that the caller is in.
            (_, Some(caller)) if word.starts_with('[') => *caller = format!("{caller} {word}"),
            // A word that is not known is part of the kind: vendors have kinds of their own.
            _ => {
                kinds.push(word);
                unknown.get_or_insert_with(|| word.to_owned());
            }
        }
    }
    let kind = if kinds.is_empty() { "unknown".to_owned() } else { kinds.join(" ") };
    Ok((Entry { line, start, end, bytes, caller, kind, pages }, unknown))
}

/// Returns the end of an area that is printed as 0: the end of all addresses, of 64 bits or of 32.
/// There is no number behind the last of 64 bits, so it is that one.
fn end_of_addresses(start: u64, bytes: u64) -> u64 {
    match start.checked_add(bytes) {
        None if start.wrapping_add(bytes) == 0 => u64::MAX,
        Some(end) if end == 1 << 32 => end,
        _ => 0,
    }
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
