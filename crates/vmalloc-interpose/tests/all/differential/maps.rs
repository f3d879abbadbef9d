//! `/proc/self/maps`, page by page.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Access to a page, such as `rw-p`.
pub(crate) type Access = [u8; 4];

/// An address at which nothing that can be used is mapped looks like this, or has no mapping.
pub(crate) const NO_ACCESS: Access = *b"---p";

/// The mappings of this process at one time.
pub(crate) struct Maps {
    text: Vec<u8>,
    lines: Vec<(usize, usize, Access)>,
}

impl Maps {
    /// Returns an empty list, with room, so that no later look maps memory of its own.
    pub(crate) fn new() -> Self {
        Self { text: Vec::with_capacity(1 << 20), lines: Vec::with_capacity(10_000) }
    }

    /// Reads the mappings as they are now. The file is opened each time: a child of a fork has its
    /// own.
    pub(crate) fn look(&mut self) {
        let mut file = File::open("/proc/self/maps").expect("the mappings can be read");
        file.seek(SeekFrom::Start(0)).expect("its start");
        self.text.clear();
        file.read_to_end(&mut self.text).expect("the mappings can be read");
        self.lines.clear();
        self.lines.extend(self.text.split(|&byte| byte == b'\n').filter_map(line));
    }

    /// Returns true if one mapping, as the kernel counts them, has all of these pages.
    pub(crate) fn is_one(&self, addr: usize, len: usize) -> bool {
        let at = self.lines.partition_point(|&(_, end, _)| end <= addr);
        self.lines.get(at).is_some_and(|&(start, end, _)| start <= addr && addr + len <= end)
    }

    /// Returns the access to the page at `addr`, or `None` where nothing is mapped.
    pub(crate) fn access(&self, addr: usize) -> Option<Access> {
        let at = self.lines.partition_point(|&(_, end, _)| end <= addr);
        self.lines.get(at).filter(|&&(start, ..)| start <= addr).map(|&(.., access)| access)
    }
}

fn line(text: &[u8]) -> Option<(usize, usize, Access)> {
    let dash = text.iter().position(|&byte| byte == b'-')?;
    let space = text.iter().position(|&byte| byte == b' ')?;
    let access = text.get(space + 1..space + 5)?.try_into().ok()?;
    Some((hex(&text[..dash])?, hex(&text[dash + 1..space])?, access))
}

fn hex(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
