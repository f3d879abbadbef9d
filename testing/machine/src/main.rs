//! The first process of a machine that `cargo xtask kernels` boots.
//!
//! Mounts what programs expect, runs the commands of `/commands` one after another, and turns the
//! machine off. The console gets a line before each command and one behind it, for the chore.

mod command;
mod system;

use command::Command;
use rustix::process::{WaitOptions, wait};
use std::fs;
use std::time::Instant;

/// File systems: folder, type.
const FILE_SYSTEMS: [(&str, &str); 5] =
    [("/proc", "proc"), ("/sys", "sysfs"), ("/dev", "devtmpfs"), ("/dev/shm", "tmpfs"), ("/tmp", "tmpfs")];

fn main() {
    let start = Instant::now();
    for (folder, kind) in FILE_SYSTEMS {
        attach(folder, kind);
    }
    println!("== linux {}", fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim());
    for line in fs::read_to_string("/commands").unwrap_or_default().lines() {
        match line.parse() {
            Ok(command) => perform(&command),
            Err(why) => println!("== wrong command {line:?}: {why}"),
        }
    }
    println!("== over after {} ms", start.elapsed().as_millis());
    println!("the machine can't be turned off: {}", system::turn_off());
}

/// Mounts a file system. One that fails is told, and the commands that need it fail.
fn attach(folder: &str, kind: &str) {
    let mounted = fs::create_dir_all(folder).and_then(|()| system::mount(folder, kind));
    if let Err(error) = mounted {
        println!("{folder} can't be mounted: {error}");
    }
}

/// Runs a command, and says how it ended.
fn perform(command: &Command) {
    println!("== begin {}", command.name);
    if command.without_proc {
        system::unmount("/proc").unwrap_or_else(|error| println!("/proc can't be unmounted: {error}"));
    }
    let start = Instant::now();
    let end = command.run();
    let millis = start.elapsed().as_millis();
    if command.without_proc {
        attach("/proc", "proc");
    }
    // Children whose parents are gone are the first process's.
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    println!("== end {} {millis} {end}", command.name);
}
