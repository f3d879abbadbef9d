//! Reading addresses that may lead nowhere.
//!
//! The kernel copies from this process to this process (process_vm_readv(2)) and finds out by
//! itself which pages can be read. It is told of each page apart, for it counts only whole parts.
//! Where a sandbox forbids the call, a pipe does: writing to one from an address that can't be read
//! fails with `EFAULT`. (`/proc/self/mem` would not do: it reads inaccessible pages as well.)
//! Without descriptors for a pipe nothing can be read then.
//!
//! It needs neither locks nor heap nor the state of the allocator, so it may be called anywhere.

use crate::os::raw::{self, Opened};
use crate::platform::Linux;
use libc::iovec;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpid;
use vmalloc::ReadNofault;

impl ReadNofault for Linux {
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize {
        let page_bytes = 1 << self.memory.page_shift();
        by_call(addr, to, page_bytes).unwrap_or_else(|_| by_pipe(addr, to, page_bytes))
    }
}

/// The parts of a call: 64 pages, which are copied in 10 µs or more, so that the call's own share
/// is small. The kernel would take 1024.
const PARTS: usize = 64;

/// Copies by the call, and returns how many bytes; an error if the call can't be used at all.
fn by_call(addr: usize, to: &mut [u8], page_bytes: usize) -> Result<usize, Errno> {
    let mut done = 0;
    while done < to.len() {
        let Some(from) = addr.checked_add(done) else { break };
        let (parts, asked) = parts(from, to.len() - done, page_bytes);
        match copy(&parts, &mut to[done..done + asked]) {
            Ok(copied) => {
                done += copied;
                // Nothing is asked for at the last address, behind which no range ends.
                if copied < asked || asked == 0 {
                    break;
                }
            }
            Err(Errno::FAULT) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Returns the first parts of `[from, from + len)`, none across a page's end, and how many bytes
/// they have.
fn parts(from: usize, len: usize, page_bytes: usize) -> ([iovec; PARTS], usize) {
    let mut asked = 0;
    let parts = std::array::from_fn(|_| {
        let start = from.saturating_add(asked);
        let iov_len = (page_bytes - start % page_bytes).min(len - asked).min(usize::MAX - start);
        asked += iov_len;
        iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len }
    });
    (parts, asked)
}

/// Copies from parts of this process's memory, as far as they can be read.
pub(crate) fn copy(parts: &[iovec], to: &mut [u8]) -> Result<usize, Errno> {
    let local = iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: the kernel reads both lists as the arrays that they are. It writes to `to` at most as
    // many bytes as it has room for, and reads from this process only what it can.
    let (local, remote) = ((&raw const local).expose_provenance(), parts.as_ptr().expose_provenance());
    let process = getpid().as_raw_nonzero().get() as usize;
    // SAFETY: as above.
    unsafe { raw::call(libc::SYS_process_vm_readv, [process, local, 1, remote, parts.len(), 0]) }
}

fn by_pipe(addr: usize, to: &mut [u8], page_bytes: usize) -> usize {
    let Ok((output, input)) = pipe_with(PipeFlags::CLOEXEC) else { return 0 };
    let pipe = (output.into(), input.into());
    let mut done = 0;
    while done < to.len() {
        let Some(from) = addr.checked_add(done) else { break };
        // Not across a page's end, for the number of bytes written has to be known; and no more
        // than a pipe takes at once.
        let len = (page_bytes - from % page_bytes).min(to.len() - done).min(libc::PIPE_BUF);
        match through(&pipe, from, &mut to[done..done + len]) {
            Ok(copied) if copied > 0 => done += copied,
            _ => break,
        }
    }
    done
}

/// Copies from `from` into the pipe, and out of it.
fn through((output, input): &(Opened, Opened), from: usize, to: &mut [u8]) -> Result<usize, Errno> {
    use std::os::fd::AsRawFd;
    let to_pipe = input.as_fd().as_raw_fd() as usize;
    // SAFETY: the kernel checks the address.
    let written = unsafe { raw::call(libc::SYS_write, [to_pipe, from, to.len(), 0, 0, 0])? };
    rustix::io::read(output, &mut to[..written])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_bytes;

    /// Tries both ways, over a hole between two pages.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no pages that cannot be read")]
    fn a_copy_ends_at_the_first_byte_that_cannot_be_read() {
        let page = page_bytes();
        let mapping =
            crate::os::reservation::Mapping::new(8 * page, crate::os::reservation::Access::ReadWrite)
                .unwrap();
        let base = mapping.base().addr().get();
        // SAFETY: our own mapping, which nothing else refers to.
        unsafe { std::slice::from_raw_parts_mut(mapping.base().as_ptr().cast::<u8>(), 8 * page).fill(7) };
        let hidden = mapping.base().as_ptr().wrapping_byte_add(6 * page);
        // SAFETY: our own mapping, which nothing else refers to.
        unsafe { rustix::mm::mprotect(hidden, page, rustix::mm::MprotectFlags::empty()).unwrap() };
        for way in [
            |addr, to: &mut [u8]| by_call(addr, to, page_bytes()).unwrap(),
            |addr, to: &mut [u8]| by_pipe(addr, to, page_bytes()),
        ] {
            let mut to = vec![0; 8 * page];
            assert_eq!(way(base + 5, &mut to), 6 * page - 5);
            assert!(to[..6 * page - 5].iter().all(|&byte| byte == 7) && to[6 * page - 5] == 0);
            assert_eq!(way(base + 6 * page, &mut to), 0);
            assert_eq!(way(base + 7 * page + 9, &mut to[..100]), 100);
            assert_eq!(way(base + 2 * page - 1, &mut to[..2]), 2);
            assert_eq!(way(base, &mut []), 0);
            assert_eq!(way(0, &mut to), 0);
            assert_eq!(way(usize::MAX - 3, &mut to), 0);
            assert_eq!(way(usize::MAX, &mut to), 0);
        }
    }
}
