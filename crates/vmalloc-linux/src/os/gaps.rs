//! The free addresses of this program, as the list of its mappings tells them, read without
//! touching the heap.

use crate::os::limits::{machine_bytes, read_number};
use crate::os::raw::Opened;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ops::Range;

/// The room below the first stack, into which it grows: its limit, within bounds. The kernel keeps
/// its own mappings at least 128 MiB away.
const STACK_ROOM: Range<u64> = 128 << 20..1 << 30;

/// The lowest address for a mapping, unless the kernel has a higher one (`vm.mmap_min_addr`).
pub(crate) const LOWEST: u64 = 64 << 10;

const STACK: &[u8; 7] = b"[stack]";

/// Calls `visit` for each run of addresses that nothing is mapped at, in address order. What other
/// threads map meanwhile may be missed.
///
/// # Errors
/// The list of mappings can't be read.
pub(crate) fn each_gap(mut visit: impl FnMut(Range<u64>)) -> Result<(), Errno> {
    let (mut text, mut line) = ([0; 1024], Line::default());
    let mut free_from = read_number(c"/proc/sys/vm/mmap_min_addr").unwrap_or(0).max(LOWEST);
    let maps = rustix::fs::open(c"/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let maps = Opened::from(maps);
    let mut show = |gap: Range<u64>| {
        if gap.start < gap.end {
            visit(gap);
        }
    };
    loop {
        let length = rustix::io::read(&maps, &mut text)?;
        if length == 0 {
            break;
        }
        for &byte in &text[..length] {
            if line.takes(byte) {
                let room = if &line.tail == STACK { stack_room() } else { 0 };
                show(free_from..line.start.saturating_sub(room).min(machine_bytes()));
                free_from = free_from.max(line.end);
                line = Line::default();
            }
        }
    }
    show(free_from..machine_bytes());
    Ok(())
}

fn stack_room() -> u64 {
    let limit = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    limit.clamp(STACK_ROOM.start, STACK_ROOM.end)
}

/// A line of the list, as far as it was read: `START-END rwxp …`.
#[derive(Default)]
struct Line {
    start: u64,
    end: u64,
    /// 0 in the first number, 1 in the second, then 2.
    field: u8,
    /// The last bytes of the rest.
    tail: [u8; 7],
}

impl Line {
    /// Takes one byte more. Returns true if it was the last.
    fn takes(&mut self, byte: u8) -> bool {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        match (self.field, digit) {
            (0, Some(digit)) => self.start = self.start << 4 | digit,
            (1, Some(digit)) => self.end = self.end << 4 | digit,
            (0 | 1, None) => self.field += 1,
            _ if byte == b'\n' => return true,
            _ => {
                self.tail.rotate_left(1);
                self.tail[6] = byte;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads lines as if they came in parts of any length, as the state has no other memory.
    #[test]
    fn lines_of_the_list_are_read() {
        let text = b"00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a\n\
            7ffc1000-7ffc2fff rw-p 00000000 00:00 0    [stack]\n\
            7ffc3000-ffffffffff600000 rw-p 00000000 00:00 0    [stack] \n";
        let (mut line, mut lines) = (Line::default(), Vec::new());
        for &byte in text {
            if line.takes(byte) {
                lines.push((line.start, line.end, &line.tail == STACK));
                line = Line::default();
            }
        }
        let want = [
            (0x40_0000, 0x45_2000, false),
            (0x7ffc_1000, 0x7ffc_2fff, true),
            (0x7ffc_3000, 0xffff_ffff_ff60_0000, false),
        ];
        assert_eq!(lines, want);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn gaps_hold_nothing_of_the_program() {
        let (place, mut gaps) = (0, Vec::new());
        each_gap(|gap| gaps.push(gap)).unwrap();
        assert!(gaps.windows(2).all(|two| two[0].end < two[1].start), "{gaps:x?}");
        let text: fn() = gaps_hold_nothing_of_the_program;
        for addr in [(&raw const place).addr() as u64, text as usize as u64, gaps.as_ptr().addr() as u64] {
            assert!(!gaps.iter().any(|gap| gap.contains(&addr)), "{addr:#x} is in {gaps:x?}");
        }
        assert!(gaps.iter().any(|gap| gap.end - gap.start > machine_bytes() / 4), "{gaps:x?}");
    }
}
