// What a kernel sets, beside the program that cargo-osdk puts around every kernel.

include!("base.rs");

#[ostd::early_cmdline_parser]
const fn settings(_: &str) -> ostd::boot::EarlyCmdline {
    // Lines about each interrupt would take most of the time.
    ostd::boot::EarlyCmdline { log_level: ostd::log::LevelFilter::Error, has_early_console: true }
}

// SAFETY: The name does not collide with other symbols.
#[unsafe(no_mangle)]
pub static KTEST_CRATE_WHITELIST: Option<&[&str]> = Some(&["ostd"]);
