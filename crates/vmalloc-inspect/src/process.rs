//! A live process, read through `/proc`.

use crate::error::InspectError;
use crate::memory::{KernelMapping, MOST_PAGES, Residency, Source};
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process as Proc};
use procfs::{ProcError, ProcResult};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A process that runs. Looking changes nothing of it.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    proc: Proc,
    memory: File,
    /// When it started: another process with its number started at another time.
    started: u64,
}

/// Bits of an entry of the page map, see proc_pid_pagemap(5).
const PRESENT: u32 = 63;
const IN_SWAP: u32 = 62;
const GUARD_MARK: u32 = 58;

/// Counts that the system has of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// The name of the program.
    pub program: String,
    /// Page faults that took no I/O.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Pages in memory.
    pub resident_pages: u64,
}

impl Process {
    /// Opens process number `pid`.
    ///
    /// # Errors
    /// When there is none, it may not be read, or it has no memory.
    pub fn open(pid: i32) -> Result<Self, InspectError> {
        let told = |error| match error {
            ProcError::NotFound(_) => InspectError::NoProcess { pid },
            error => refused(pid, "opening it", error),
        };
        let proc = Proc::new(pid).map_err(told)?;
        let started = proc.stat().map_err(told)?.starttime;
        let memory = proc.mem().map_err(|error| match error {
            ProcError::NotFound(_) => InspectError::NoMemory { pid },
            error => told(error),
        })?;
        let process = Self { pid, proc, memory, started };
        if process.maps()?.is_empty() {
            return Err(InspectError::NoMemory { pid });
        }
        Ok(process)
    }

    /// Returns its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the counts of the system.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn counters(&self) -> Result<Counters, InspectError> {
        let stat = self.ask("reading its counts", Proc::stat)?;
        if stat.starttime != self.started || stat.state == 'Z' {
            return Err(InspectError::Ended { pid: self.pid });
        }
        Ok(Counters {
            program: stat.comm,
            minor_faults: stat.minflt,
            major_faults: stat.majflt,
            resident_pages: stat.rss,
        })
    }

    fn maps(&self) -> Result<Vec<MemoryMap>, InspectError> {
        self.ask("reading its mappings", Proc::maps).map(|maps| maps.into_iter().collect())
    }

    fn ask<T>(&self, call: &'static str, ask: impl Fn(&Proc) -> ProcResult<T>) -> Result<T, InspectError> {
        ask(&self.proc).map_err(|error| match error {
            ProcError::NotFound(_) => InspectError::Ended { pid: self.pid },
            error => refused(self.pid, call, error),
        })
    }
}

/// Returns the error for a process that could not be read.
fn refused(pid: i32, call: &'static str, error: ProcError) -> InspectError {
    /// The system's number for a process that is gone.
    const NO_PROCESS: i32 = rustix::io::Errno::SRCH.raw_os_error();
    match error {
        ProcError::PermissionDenied(_) => InspectError::NoPermission { pid },
        ProcError::Io(error, _) if error.raw_os_error() == Some(NO_PROCESS) => InspectError::Ended { pid },
        ProcError::Io(error, _) if error.kind() == ErrorKind::PermissionDenied => {
            InspectError::NoPermission { pid }
        }
        error => InspectError::System { call, why: error.to_string() },
    }
}

impl Source for Process {
    fn read_at(&self, addr: u64, buffer: &mut [u8]) -> Result<usize, InspectError> {
        match self.memory.read_at(buffer, addr) {
            // Where nothing is mapped it fails; it ends only when the process has.
            Ok(0) if !buffer.is_empty() => Err(InspectError::Ended { pid: self.pid }),
            Ok(read) => Ok(read),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => self.read_at(addr, buffer),
                ErrorKind::PermissionDenied => Err(InspectError::NoPermission { pid: self.pid }),
                _ => Ok(0),
            },
        }
    }

    fn mappings(&self) -> Result<Vec<KernelMapping>, InspectError> {
        let maps = self.maps()?;
        if maps.is_empty() {
            return Err(InspectError::Ended { pid: self.pid });
        }
        Ok(maps.into_iter().map(mapping).collect())
    }

    fn residency(&self, addrs: Range<u64>, page_bytes: u64) -> Option<Residency> {
        let pages = (addrs.end.checked_sub(addrs.start)? / page_bytes).min(MOST_PAGES);
        let mut entries = vec![0; pages as usize * size_of::<u64>()];
        let map = File::open(format!("/proc/{}/pagemap", self.pid)).ok()?;
        map.read_exact_at(&mut entries, addrs.start / page_bytes * size_of::<u64>() as u64).ok()?;
        let mut residency = Residency { pages, ..Residency::default() };
        for entry in entries.chunks_exact(size_of::<u64>()) {
            let is = |bit: u32| entry[bit as usize / 8] >> (bit % 8) & 1 != 0;
            // A guard mark is told as a page in swap as well.
            match (is(PRESENT), is(IN_SWAP), is(GUARD_MARK)) {
                (true, ..) => residency.resident += 1,
                (_, _, true) => residency.closed += 1,
                (_, true, _) => residency.swapped += 1,
                _ => {}
            }
        }
        Some(residency)
    }

    fn clock(&self) -> Option<u64> {
        let time = clock_gettime(ClockId::MonotonicCoarse);
        Some(time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000)
    }
}

fn mapping(map: MemoryMap) -> KernelMapping {
    let right = |right, letter| if map.perms.contains(right) { letter } else { '-' };
    let rights = [
        right(MMPermissions::READ, 'r'),
        right(MMPermissions::WRITE, 'w'),
        right(MMPermissions::EXECUTE, 'x'),
        if map.perms.contains(MMPermissions::SHARED) { 's' } else { 'p' },
    ];
    let name = match &map.pathname {
        MMapPath::Path(path) => Some(path.display().to_string()),
        MMapPath::Anonymous => None,
        MMapPath::Other(name) => Some(format!("[{name}]")),
        MMapPath::Heap => Some("[heap]".into()),
        MMapPath::Stack | MMapPath::TStack(_) => Some("[stack]".into()),
        other => Some(format!("{other:?}").to_lowercase()),
    };
    let (start, end) = map.address;
    let is_file = map.inode != 0;
    KernelMapping { start, end, rights: rights.iter().collect(), name, is_file }
}
