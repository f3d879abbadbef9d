//! Copies of the published kernel, with our changes.

use super::{Error, Hermit, edits};
use published::{copy, named, refresh};
use std::fs;
use std::path::{Path, PathBuf};

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the folder in which copies are made and built, below the target directory.
pub(super) fn workshop() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(HERE).join("target"), PathBuf::from);
    target.join("hermit")
}

/// Returns the linker script. Both kernels are linked by one, so that what they depend on is built once.
pub(super) fn script() -> PathBuf {
    Path::new(HERE).join("hermit/kernel.ld")
}

/// Makes a kernel, and returns its folder. A copy that is up to date stays as it is, so that it is not built again.
pub(super) fn kernel(hermit: Hermit) -> Result<PathBuf, Error> {
    let here = Path::new(HERE);
    let name = match hermit {
        Hermit::Published => "published",
        Hermit::OnVmalloc => "on-vmalloc",
    };
    let (folder, fresh) = (workshop().join(name), workshop().join(format!("{name}.new")));
    let _ = fs::remove_dir_all(&fresh);
    copy(&named(here, "hermit-kernel")?, &fresh)?;
    // It names a toolchain of its own.
    let _ = fs::remove_file(fresh.join("rust-toolchain.toml"));
    let added = here.join("hermit");
    copy(&added.join("boot"), &fresh.join("src/boot"))?;
    copy(&added.join("probe.rs"), &fresh.join("src/probe.rs"))?;
    copy(&added.join("tests"), &fresh.join("tests"))?;
    edits::boot(&fresh);
    match hermit {
        Hermit::Published => edits::published(&fresh),
        Hermit::OnVmalloc => {
            edits::vmalloc(&fresh, &here.join("../.."));
            copy(&added.join("mm"), &fresh.join("src/arch/x86_64/mm"))?;
        }
    }
    copy(&here.join("kernel/Cargo.lock"), &fresh.join("Cargo.lock"))?;
    refresh(&fresh, &folder)?;
    Ok(folder)
}
