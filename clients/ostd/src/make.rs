//! Copies of the published ostd, with our changes.

use super::{Error, Ostd, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

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
    let (name, patches, way): (_, &[&str], _) = match ostd {
        Ostd::Published => ("published", &["probe.patch"], "way_before.rs"),
        Ostd::OnVmalloc => ("on-vmalloc", &["vmalloc.patch", "probe.patch"], "way_after.rs"),
    };
    let (folder, fresh) = (workshop().join(name), workshop().join(format!("{name}.new")));
    let _ = fs::remove_dir_all(&fresh);
    copy(&published()?, &fresh.join("ostd"))?;
    copy(&here.join("kernel"), &fresh.join("kernel"))?;
    for patch in patches {
        let mut program = Command::new("patch");
        program.args(["-p1", "--quiet", "-i"]).arg(here.join("patches").join(patch));
        run("patch", program.current_dir(fresh.join("ostd")))?;
    }
    let added = here.join("ostd/mm/kspace");
    let kspace = fresh.join("ostd/src/mm/kspace");
    copy_file(&added.join("probe.rs"), &kspace.join("probe.rs"))?;
    copy_file(&added.join(way), &kspace.join("way.rs"))?;
    if ostd == Ostd::OnVmalloc {
        copy_file(&added.join("space.rs"), &kspace.join("space.rs"))?;
        copy_file(&here.join("ostd/util/range_alloc.rs"), &fresh.join("ostd/src/util/range_alloc.rs"))?;
        name_core(&fresh.join("ostd/Cargo.toml"))?;
    }
    refresh(&fresh, &folder)?;
    Ok(folder.join("kernel"))
}

/// Copies the programs that were built in `from` to `to`.
pub(super) fn keep(from: &Path, to: &Path) -> Result<(), Error> {
    let keep = |name: &str| copy_file(&from.join(name), &to.join(format!("{name}.elf")));
    ["tests", "measure"].into_iter().try_for_each(keep)
}

/// Writes where the core is to the manifest of ostd.
fn name_core(manifest: &Path) -> Result<(), Error> {
    let error = |cause| Error::Make { path: manifest.into(), cause };
    let text = fs::read_to_string(manifest).map_err(error)?;
    let core = Path::new(HERE).join("../../crates/vmalloc");
    fs::write(manifest, text.replace("@VMALLOC@", &core.to_string_lossy())).map_err(error)
}

/// Returns where cargo has put the published source.
fn published() -> Result<PathBuf, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["metadata", "--format-version=1", "--locked", "--manifest-path"];
    let output = Command::new(cargo).args(words).arg(Path::new(HERE).join("Cargo.toml")).output();
    let output = output.map_err(|cause| Error::Program { program: "cargo", how: cause.to_string() })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut paths = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let manifest = paths.find(|path| path.contains(&format!("/{PACKAGE}/")));
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    let missing = || {
        let said = String::from_utf8_lossy(&output.stderr);
        Error::Missing(format!("cargo does not find the source of {PACKAGE}: {said}"))
    };
    folder.map(Path::to_owned).ok_or_else(missing)
}

/// Makes `to` hold what `from` holds, and leaves files alone that are equal.
fn refresh(from: &Path, to: &Path) -> Result<(), Error> {
    for entry in entries(from)? {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            refresh(&from, &to)?;
        } else if fs::read(&from).ok() != fs::read(&to).ok() {
            copy_file(&from, &to)?;
        }
    }
    Ok(())
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    for entry in entries(from)? {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy(&from, &to)? } else { copy_file(&from, &to)? }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, Error> {
    let entries = folder.read_dir().and_then(|entries| entries.collect::<io::Result<_>>());
    entries.map_err(|cause| Error::Make { path: folder.into(), cause })
}

/// Copies a file, and not its permissions: files in the registry's cache may be read-only.
fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
    let copied = folder.and_then(|()| fs::write(to, fs::read(from)?));
    copied.map_err(|cause| Error::Make { path: to.into(), cause })
}
