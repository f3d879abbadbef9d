//! `cargo xtask inside-linux`: the core inside Debian's kernel, beside its own vmalloc.

mod figures;
mod module;
mod relocations;
mod tree;

use crate::bounds::Bounds;
use crate::kernel::{self, Machine};
use crate::machines::package;
use crate::{process, steps, targets};
use anyhow::{Context, Result, bail, ensure};
use figures::Figures;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Run the core inside Debian's Linux, in QEMU, and compare it with the kernel's own vmalloc
///
/// Fetches a kernel, its headers and the file of its own suite by apt-get, builds `clients/linux-module` and the suite over both
/// allocators, and boots that. The clock counts instructions, and the kernel idles for a minute before the first figure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel: 6.12 or 6.1 where this is Debian 12, or 7.3 in a tree of Debian 13.
    #[arg(default_value = "6.12")]
    version: String,
    /// Compare with the bars, and load the module 20 times, not 200.
    #[arg(long)]
    check: bool,
}

const TARGET: &str = "x86_64-unknown-none";
const BARS: &str = "clients/linux-module/bars.toml";
/// One tick of the clock for each instruction. The instructions that repeat themselves would count once for each byte.
const MACHINE: [&str; 6] = ["-icount", "shift=0,sleep=off", "-cpu", "max,-erms,-fsrm", "-m", "2G"];
/// Both sides without the detours against speculation, and with pages as they come.
const PARAMETERS: &str = "console=ttyS0 loglevel=7 panic=-1 mitigations=off init_on_alloc=0 nokaslr random.trust_cpu=on \
    no_timer_check tsc=reliable printk.devkmsg=on oops=panic";
/// The kernel that waits for its second CPU without end in such a machine.
const ALONE: &str = "6.1";
/// A machine of 2 CPUs that other programs slow down takes some minutes.
const LIMIT: Duration = Duration::from_secs(3600);
/// QEMU 7.2 gives wrong flags to a CPU in one of five boots with 2 CPUs or so.
const BOOTS: usize = 3;

/// A kernel, and what is made for it.
struct Kernel {
    version: String,
    release: String,
    image: PathBuf,
    headers: PathBuf,
    suite: PathBuf,
    /// The system in which its modules are built, if that is not this one.
    tree: Option<PathBuf>,
}

/// How often the module is loaded and unloaded: so often that what the kernel's own caches keep, some 200 KiB once, is little
/// beside what each time would keep.
const LOADS: usize = 200;

pub(crate) fn run(args: &Args) -> Result<()> {
    let what = format!("the core inside Linux {}", args.version);
    let folder = process::folder("kernels")?;
    let found = kernel::find_qemu(kernel::QEMU)
        .and_then(|()| Ok((fetched(&args.version, &folder)?, package::busybox(&folder)?)));
    let (kernel, busybox) = match found {
        Ok(found) => found,
        Err(reason) => return steps::nothing_ran(&what, format!("{reason:#}")),
    };
    if !targets::is_there(TARGET)? {
        return steps::nothing_ran(&what, format!("the toolchain has no standard library for {TARGET}"));
    }
    let folder = process::folder("inside-linux")?.join(&args.version);
    let modules = module::build(&kernel, &folder)?;
    let mut figures =
        boot(&kernel, 1, &folder, &pack(&folder, &busybox, &modules, &figures::one_cpu(LOADS))?)?;
    if kernel.version != ALONE {
        let initramfs = pack(&folder, &busybox, &modules, &figures::two_cpus())?;
        figures.add_all(boot(&kernel, 2, &folder, &initramfs)?);
    }
    let bars = Bounds::read(BARS)?;
    print!("{}", figures.table(&kernel.release));
    if kernel.tree.is_some() {
        println!("objtool's check, whose complaints Linux 7 makes errors, is switched off for the module.");
    }
    if kernel.version == ALONE {
        println!(
            "Not run with 2 CPUs: Linux {ALONE} does not start the second one where instructions are counted."
        );
    }
    figures.ensure_clean(LOADS)?;
    if args.check {
        let below = figures.below(&bars, &kernel.version);
        ensure!(below.is_empty(), "not within {BARS}:\n{}", below.join("\n"));
    }
    Ok(())
}

/// Boots a machine, and listens to it until it is off. What it says goes to a file in `folder` as well.
fn boot(kernel: &Kernel, cpus: usize, folder: &Path, initramfs: &Path) -> Result<Figures> {
    let console = folder.join(format!("console-{cpus}.txt"));
    for boot in 1.. {
        let mut qemu = Command::new(kernel::QEMU.program);
        qemu.args(MACHINE).args(["-smp", &cpus.to_string(), "-nodefaults", "-append", PARAMETERS]);
        qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs);
        let figures = Figures::heard(&Machine::start(&mut qemu, LIMIT)?, cpus, &console)?;
        if boot == BOOTS || !figures.is_emulator_at_fault() {
            figures.ensure_over(&console)?;
            return Ok(figures);
        }
        println!("The emulator gave a CPU with {cpus} CPUs wrong flags; once more.");
    }
    bail!("no machine was booted")
}

/// Fetches a kernel, and what its modules are built with.
fn fetched(version: &str, folder: &Path) -> Result<Kernel> {
    if version.starts_with('7') {
        return tree::fetched(version, folder);
    }
    let image = package::kernel(version, folder)?;
    let name = image.file_name().context("an image without a name")?.to_string_lossy().into_owned();
    let release = name.strip_prefix("vmlinuz-").context("an image without a release")?.to_owned();
    let folder = folder.join(format!("linux-{version}"));
    let headers = package::headers(&release, &folder)?;
    let suite = package::suite(version, &folder)?;
    Ok(Kernel { version: version.to_owned(), release, image, headers, suite, tree: None })
}

/// Makes the first file system. Returns its path.
fn pack(folder: &Path, busybox: &Path, modules: &[PathBuf], script: &str) -> Result<PathBuf> {
    let root = process::empty(folder.join("root"))?;
    for below in ["bin", "proc", "sys", "dev"] {
        fs::create_dir(root.join(below))?;
    }
    fs::copy(busybox, root.join("bin/busybox"))?;
    for module in modules {
        fs::copy(module, root.join(module.file_name().context("a module without a name")?))?;
    }
    fs::write(root.join("run"), script)?;
    let init = root.join("init");
    fs::write(&init, include_str!("inside_linux/init.sh"))?;
    fs::set_permissions(init, Permissions::from_mode(0o755))?;
    let archive = "find . | bin/busybox cpio -o -H newc > ../initramfs 2>/dev/null";
    process::finish(Command::new("sh").args(["-c", archive]).current_dir(&root))?;
    Ok(folder.join("initramfs"))
}
