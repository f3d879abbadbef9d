//! Copies of the published ostd, with our changes.

use super::{Error, Ostd, edits};
use published::{Source, copy, named, refresh};
use std::fs;
use std::path::{Path, PathBuf};

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// The package in the registry.
const PACKAGE: &str = "ostd-0.19.0";

/// Returns the folder in which copies are made and built, below the target directory.
pub(super) fn workshop() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(HERE).join("target"), PathBuf::from);
    target.join("ostd")
}

/// Makes an ostd and the kernel that runs it. Returns the kernel's folder. A copy that is up to date stays as it is, so that
/// it is not built again.
pub(super) fn kernel(ostd: Ostd) -> Result<PathBuf, Error> {
    let here = Path::new(HERE);
    let (name, way) = match ostd {
        Ostd::Published => ("published", "way_before.rs"),
        Ostd::OnVmalloc => ("on-vmalloc", "way_after.rs"),
    };
    let (folder, fresh) = (workshop().join(name), workshop().join(format!("{name}.new")));
    let _ = fs::remove_dir_all(&fresh);
    copy(&published::folder(here, PACKAGE)?, &fresh.join("ostd"))?;
    edits::probe(&fresh.join("ostd"));
    let (added, kspace) = (here.join("ostd/mm/kspace"), fresh.join("ostd/src/mm/kspace"));
    copy(&added.join("probe.rs"), &kspace.join("probe.rs"))?;
    copy(&added.join(way), &kspace.join("way.rs"))?;
    if ostd == Ostd::OnVmalloc {
        edits::vmalloc(&fresh.join("ostd"), &here.join("../../crates/vmalloc"));
        copy(&added.join("space.rs"), &kspace.join("space.rs"))?;
        copy(&here.join("ostd/util/range_alloc.rs"), &fresh.join("ostd/src/util/range_alloc.rs"))?;
    }
    copy(&here.join("kernel"), &fresh.join("kernel"))?;
    base(&fresh.join("kernel"))?;
    refresh(&fresh, &folder)?;
    Ok(folder.join("kernel"))
}

/// Takes the program around a kernel, and how it is linked, from the templates of cargo-osdk.
fn base(kernel: &Path) -> Result<(), Error> {
    let templates = named(Path::new(HERE), "cargo-osdk")?.join("src/base_crate");
    copy(&templates.join("x86_64.ld.template"), &kernel.join("x86_64.ld"))?;
    let program = Source::read(&templates.join("main.rs.template"));
    program
        .words_anywhere("#TARGET_NAME#", "osdk_test_kernel", 1)
        .included()
        .write(&kernel.join("src/base.rs"));
    Ok(())
}

/// Copies the programs that were built in `from` to `to`.
pub(super) fn keep(from: &Path, to: &Path) -> Result<(), Error> {
    let keep = |name: &str| copy(&from.join(name), &to.join(format!("{name}.elf")));
    Ok(["tests", "measure"].into_iter().try_for_each(keep)?)
}
