//! The nightly toolchain and its components, for chores that need one.

use crate::process::succeeds;
use std::process::{Command, Stdio};

/// Sees to it that the nightly toolchain has `component` and the source of the standard library: installs them by
/// rustup where it can.
///
/// # Errors
/// The reason, in a sentence, when they are not to be had.
pub(crate) fn provide(component: &str) -> Result<(), String> {
    if !succeeds(Command::new("cargo").args(["+nightly", "--version"])) {
        return Err("there is no nightly toolchain (rustup toolchain install nightly)".into());
    }
    let wanted = [component, "rust-src"];
    if wanted.iter().all(|name| is_installed(name)) {
        return Ok(());
    }
    let words = [&["component", "add", "--toolchain", "nightly"][..], &wanted].concat();
    if succeeds(Command::new("rustup").args(words)) {
        return Ok(());
    }
    Err(format!("rustup could not install {} for the nightly toolchain", wanted.join(" and ")))
}

fn is_installed(component: &str) -> bool {
    let words = ["component", "list", "--toolchain", "nightly", "--installed"];
    let output = Command::new("rustup").args(words).stderr(Stdio::null()).output();
    output.is_ok_and(|output| {
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        names.lines().any(|name| name.starts_with(component))
    })
}
