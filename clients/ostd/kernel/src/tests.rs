//! All kernel-mode tests of ostd.

#![no_std]
#![no_main]
#![feature(linkage)]

include!("settings.rs");

// SAFETY: The name does not collide with other symbols.
#[unsafe(no_mangle)]
pub static KTEST_TEST_WHITELIST: Option<&[&str]> = None;
