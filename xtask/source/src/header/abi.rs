//! The declarations that later headers have to keep.

// Its tests use more of it.
#[allow(dead_code)]
#[path = "../../../../crates/vmalloc-c/tests/all/common/declarations.rs"]
mod declarations;

use super::CRATE;
use crate::cannot;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the declarations of a header, one on each line, and a dump of abidw where that is there.
pub(super) fn write(header: &str) -> Result<()> {
    let folder = PathBuf::from(CRATE).join("abi");
    let lines: String = declarations::of(header).iter().map(|line| format!("{line}\n")).collect();
    super::write(folder.join("declarations.txt"), &lines)?;
    if Command::new("abidw").arg("--version").output().is_err() {
        vmalloc_harness::not_run(
            "dump of the ABI",
            "abidw is not installed (abigail-tools), so it is as it was",
        );
        return Ok(());
    }
    let work = Path::new("target/abi");
    fs::create_dir_all(work).with_context(|| cannot("write", work))?;
    let (source, library) = (work.join("stubs.c"), work.join("libstubs.so"));
    super::write(source.clone(), &declarations::stubs(header))?;
    let include = PathBuf::from(CRATE).join("include");
    let mut cc = Command::new("cc");
    cc.args(["-g", "-shared", "-fPIC", "-Wl,-soname,libvmalloc.so.0", "-I"]).arg(include);
    ran("cc", cc.arg(&source).arg("-o").arg(&library))?;
    let mut abidw = Command::new("abidw");
    abidw.args(["--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--type-id-style", "hash"]);
    ran("abidw", abidw.arg("--out-file").arg(folder.join("vmalloc.abi")).arg(&library))
}

pub(super) fn ran(program: &'static str, command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{program} failed:\n{told}");
    Ok(())
}
