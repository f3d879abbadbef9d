//! `cargo xtask c-library`: library, header and vmalloc.pc below a prefix, without cargo-c.

use crate::words::Words;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const HELP: &str = "\
Build the C library and install it below a prefix

`PREFIX/lib` gets libvmalloc.so with its links, libvmalloc.a and pkgconfig/vmalloc.pc, `PREFIX/include` the header. `cargo
cinstall` of cargo-c does it too.

  --prefix FOLDER  Where to install.
  --quick          Build without optimizations across crates: quicker, for tests.";

/// What was asked for.
pub(crate) struct Args {
    /// Where to install.
    prefix: PathBuf,
    /// Build without optimizations across crates: quicker, for tests.
    quick: bool,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        let args = Self {
            prefix: words.value("--prefix", PathBuf::from("target/c-library"))?,
            quick: words.has("--quick"),
        };
        words.end()?;
        Ok(args)
    }
}

/// The libraries that a program needs besides, which is linked with libvmalloc.a.
const PRIVATE: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    let built = build(args.quick)?;
    let prefix = &args.prefix;
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    let (config, share) = (lib.join("pkgconfig"), prefix.join("share/vmalloc"));
    for folder in [&lib, &include, &config, &share] {
        fs::create_dir_all(folder).with_context(|| unwritten(folder))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let whole = format!("libvmalloc.so.{version}");
    copy(&built.join("libvmalloc_c.so"), &lib.join(&whole))?;
    copy(&built.join("libvmalloc_c.a"), &lib.join("libvmalloc.a"))?;
    copy(Path::new("crates/vmalloc-c/include/vmalloc.h"), &include.join("vmalloc.h"))?;
    copy(Path::new("crates/vmalloc-c/tsan.txt"), &share.join("tsan.txt"))?;
    link(&whole, &lib.join("libvmalloc.so.0"))?;
    link("libvmalloc.so.0", &lib.join("libvmalloc.so"))?;
    let prefix = fs::canonicalize(prefix).with_context(|| unwritten(prefix))?;
    let path = config.join("vmalloc.pc");
    fs::write(&path, package(&prefix, version)).with_context(|| unwritten(&path))?;
    println!("installed below {}", prefix.display());
    Ok(())
}

/// Builds both libraries. Returns the folder that they are in.
fn build(quick: bool) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["rustc", "--quiet", "--release", "--package", "vmalloc-c", "--lib"]);
    command.args(["--crate-type", "cdylib,staticlib"]);
    if quick {
        command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    }
    let output = command.output().context("can't run cargo")?;
    if !output.status.success() {
        bail!("cargo failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(target.join("release"))
}

fn unwritten(path: &Path) -> String {
    format!("can't write {}", path.display())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    // A program may have the one before mapped.
    let _ = fs::remove_file(to);
    fs::copy(from, to).map(|_| ()).with_context(|| unwritten(to))
}

fn link(target: &str, at: &Path) -> Result<()> {
    let _ = fs::remove_file(at);
    symlink(target, at).with_context(|| unwritten(at))
}

fn package(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: vmalloc\nDescription: Areas of virtual memory: guarded, found by any address inside, cheap to make\n\
         Version: {version}\nCflags: -I${{includedir}}\nLibs: -L${{libdir}} -lvmalloc\nLibs.private: {PRIVATE}\n",
        prefix.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_names_its_prefix_once() {
        let text = package(Path::new("/opt/x"), "1.2.3");
        assert_eq!(text.matches("/opt/x").count(), 1);
        assert!(text.contains("Version: 1.2.3\n") && text.contains("-lvmalloc"));
    }
}
