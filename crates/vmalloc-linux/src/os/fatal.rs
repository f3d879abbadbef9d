//! Lines on the standard error from places where nothing else works: a signal handler, a program
//! whose state is damaged.

use std::fmt::Display;
use std::io::Write;

/// The longest line, with its end.
const MOST: usize = 512;

/// Writes a line to the standard error. Takes no lock and no heap. A line that is too long is cut.
pub fn say(text: &dyn Display) {
    let mut line = [0; MOST];
    let mut room = &mut line[..MOST - 1];
    let _ = write!(room, "{text}");
    let len = MOST - 1 - room.len();
    line[len] = b'\n';
    let _ = rustix::io::write(rustix::stdio::stderr(), &line[..=len]);
}

/// Writes `damage` to the standard error, and stops the program. Locks and heap may be damaged.
pub(crate) fn fatal(damage: &dyn Display) -> ! {
    say(&format_args!("vmalloc: {damage}"));
    std::process::abort()
}
