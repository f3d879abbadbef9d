//! Building the module, and the kernel's own suite over both allocators.

use super::{Kernel, relocations};
use crate::process;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "clients/linux-module";
const MODULES: [&str; 3] = ["vm", "suite-linux", "suite-ours"];
/// Sections that the kernel's loader does not want.
const NOT_WANTED: [&str; 5] = [".llvmbc", ".llvmcmd", ".eh_frame", ".rela.eh_frame", ".debug_gdb_scripts"];

/// Builds them for a kernel, below `folder` or in its tree. Returns their files.
pub(super) fn build(kernel: &Kernel, folder: &Path) -> Result<Vec<PathBuf>> {
    let modules = process::empty(kernel.tree.as_deref().unwrap_or(folder).join("modules"))?;
    for entry in Path::new(SOURCES).join("kernel").read_dir()? {
        let file = entry?.path();
        fs::copy(&file, modules.join(file.file_name().context("a source without a name")?))?;
    }
    for over in ["suite-linux.c", "suite-ours.c"] {
        fs::copy(&kernel.suite, modules.join(over))?;
    }
    link(&library()?, &modules)?;
    let mut make = match &kernel.tree {
        None => Command::new("make"),
        Some(tree) => {
            // With /proc, which its programs read, for as long as this runs.
            let mut inside = Command::new("unshare");
            inside.args(["--mount", "sh", "-c"]);
            inside
                .arg("mkdir -p $0/proc && mount -t proc proc $0/proc && exec chroot $0 make \"$@\"")
                .arg(tree);
            inside.arg("CONFIG_OBJTOOL_WERROR=");
            inside
        }
    };
    let place = kernel.tree.as_ref().map_or(&*modules, |_| Path::new("/modules"));
    make.arg("-C").arg(&kernel.headers).arg(format!("M={}", place.display())).arg("modules");
    // What objtool says of code that is not the kernel's own compiler's fills pages. An error is in the status.
    process::output(&mut make)?;
    Ok(MODULES.map(|name| modules.join(format!("{name}.ko"))).into())
}

/// Builds the Rust half. Returns its library.
fn library() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--locked"]).current_dir(Path::new(SOURCES).join("rust"));
    // Where its own flags are, which these would replace.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env("CARGO_TARGET_DIR", process::folder("clients")?);
    let mut files = process::artifacts(&mut cargo)?.into_iter().flat_map(|artifact| artifact.filenames);
    let library = files.rfind(|file| file.extension() == Some("a"));
    Ok(library.context("cargo told of no library")?.into())
}

/// Links what C calls of a library into one object, as the kernel's loader takes it.
fn link(library: &Path, folder: &Path) -> Result<()> {
    let core = folder.join("core.o");
    let sources = fs::read_to_string(Path::new(SOURCES).join("rust/src/lib.rs"))?;
    let mut ld = Command::new("ld");
    ld.args(["-r", "--gc-sections"]);
    for called in sources.split("extern \"C\" fn ").skip(1).filter_map(|rest| rest.split('(').next()) {
        ld.args(["-u", called]);
    }
    process::finish(ld.arg("-o").args([&*core, library]))?;
    let mut objcopy = Command::new("objcopy");
    for section in NOT_WANTED {
        objcopy.args(["-R", section]);
    }
    process::finish(objcopy.arg(&core))?;
    let mut object = fs::read(&core)?;
    relocations::rewrite(&mut object).context("relocations of the core")?;
    fs::write(core, object)?;
    // The kernel's makefiles look for what has built it.
    Ok(fs::write(folder.join(".core.o.cmd"), "savedcmd_core.o := true\n")?)
}
