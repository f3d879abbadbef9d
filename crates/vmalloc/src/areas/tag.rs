//! Tags: names that callers give their areas.

use alloc::string::String;
use core::fmt;
use core::mem::offset_of;
use core::ops::Deref;

/// The most bytes of a tag.
const LEN: usize = 31;

/// A name for an area, as reports show it. It keeps the first 31 bytes of a longer string, cut at a
/// character. It derefs to `str`, and a tag compares with one.
///
/// ```
/// use vmalloc::Tag;
///
/// let number = 7;
/// let tag = Tag::from(format!("worker {number}"));
/// assert_eq!(tag, "worker 7");
/// assert_eq!(tag.as_str().len(), 8);
/// assert_eq!(Tag::new(&"x".repeat(100)).len(), 31);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
pub struct Tag {
    len: u8,
    bytes: [u8; LEN],
}

impl Tag {
    /// The places of the length and the bytes: for an outline.
    pub(crate) const FIELDS: [usize; 2] = [offset_of!(Self, len), offset_of!(Self, bytes)];

    /// Returns the tag with this name.
    #[must_use]
    pub const fn new(name: &str) -> Self {
        let (name, mut bytes) = (name.as_bytes(), [0; LEN]);
        let mut len = if name.len() < LEN { name.len() } else { LEN };
        // Bytes 10xxxxxx go on with a character.
        while len < name.len() && name[len] & 0xc0 == 0x80 {
            len -= 1;
        }
        let (mut from, mut to): (_, &mut [u8]) = (name.split_at(len).0, &mut bytes);
        while let ([next, others @ ..], [place, rest @ ..]) = (from, to) {
            *place = *next;
            (from, to) = (others, rest);
        }
        Self { len: len as u8, bytes }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl Deref for Tag {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Tag {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<&String> for Tag {
    fn from(name: &String) -> Self {
        Self::new(name)
    }
}

impl From<String> for Tag {
    fn from(name: String) -> Self {
        Self::new(&name)
    }
}

#[cfg(feature = "serde")]
impl From<Tag> for String {
    fn from(tag: Tag) -> Self {
        Self::from(&*tag)
    }
}

impl PartialEq<str> for Tag {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Tag {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn a_long_tag_is_cut_at_a_character() {
        let name = "aäaäaäaäaäaäaäaäaäaäaäaä";
        for start in 0..6 {
            let Some(name) = name.get(start..) else { continue };
            let tag = Tag::new(name);
            assert!(name.starts_with(&*tag) && (30..=31).contains(&tag.len()), "{tag}");
        }
        assert_eq!(Tag::new(""), *"");
    }
}
