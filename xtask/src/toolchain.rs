//! The nightly toolchain and its components, for chores that need one.

use crate::process::succeeds;
use std::process::Command;

/// Returns true if there is a toolchain of this name.
pub(crate) fn has(name: &str) -> bool {
    succeeds(Command::new("cargo").arg(format!("+{name}")).arg("--version"))
}

/// Sees to it that the nightly toolchain has `component` and the source of the standard library: installs them by
/// rustup where it can.
///
/// # Errors
/// The reason, in a sentence, when they are not to be had.
pub(crate) fn provide(component: &str) -> Result<(), String> {
    if !has("nightly") {
        return Err("there is no nightly toolchain (rustup toolchain install nightly)".into());
    }
    // Of components that are there rustup says so, and downloads nothing.
    let words = ["component", "add", "--toolchain", "nightly", component, "rust-src"];
    if succeeds(Command::new("rustup").args(words)) {
        return Ok(());
    }
    let both = if component == "rust-src" { String::new() } else { format!("{component} and ") };
    Err(format!("rustup could not install {both}rust-src for the nightly toolchain"))
}
