//! The way from the firmware to Rust: `boot.s`.

pub(crate) use crate::devicetree::{Piece, StartInfo};

core::arch::global_asm!(include_str!("boot.s"));

unsafe extern "C" {
    static root_table: [u8; 0];
    static image_end: [u8; 0];
    static second: [u8; 0];
    static first_hart: u64;
}

/// The physical address of the table of the highest level.
pub(crate) fn root() -> u64 {
    (&raw const root_table).addr() as u64
}

/// The physical address behind the image.
pub(crate) fn image_end_addr() -> u64 {
    (&raw const image_end).addr() as u64
}

/// Where a hart that is started begins.
pub(crate) fn second_addr() -> u64 {
    (&raw const second).addr() as u64
}

/// The number of the hart that came first.
pub(crate) fn first() -> u64 {
    // SAFETY: written before Rust runs, and never again.
    unsafe { first_hart }
}
