//! Tells the program which commit it was built from, where git knows.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    println!("cargo::rustc-env=VMALLOC_COMMIT={commit}");
    // Grows with every commit. A path that is not there would make every build run this.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::path::Path::new(log).exists())
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Returns the output of git; `None` where there is no git, or no repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
