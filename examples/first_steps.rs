//! First steps: memory, the same pages twice, an area found by an address inside, and an overrun
//! that traps.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc_linux::{LinuxOptions, Mapping, SpaceOptions, open};

fn main() -> Result<(), vmalloc_linux::Error> {
    let space = open(LinuxOptions::new(), SpaceOptions::default())?;
    let mut buffer = space.zeroed_buffer(10_000)?;
    buffer[9_999] = 1;
    println!("10,000 bytes at {:#x}", buffer.addr());

    let inside = buffer.addr() + 5_000;
    println!("{inside:#x} is in {:?}", space.find(inside));

    let frames = space.frames(4)?;
    let (one, two) = (Mapping::new(&frames)?, Mapping::new(&frames)?);
    one.atomics()[100].store(7, Relaxed);
    println!("{:#x} shows {} as well", two.addr(), two.atomics()[100].load(Relaxed));

    if std::env::args().any(|arg| arg == "overrun") {
        let past = (buffer.addr() + buffer.capacity()) as *mut u8;
        // SAFETY: none. This is the mistake that the guard page is for.
        unsafe { past.write_volatile(1) };
    }
    let program = std::env::current_exe().expect("a program has a path");
    let child = Command::new(program).arg("overrun").output().expect("it can be started");
    println!("one byte too far ends with signal {:?}", child.status.signal());
    Ok(())
}
