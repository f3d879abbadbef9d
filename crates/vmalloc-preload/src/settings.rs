//! Settings by variables of the environment.
//!
//! They are read once, by the constructor, from the environment that the program was started with.
//! A program with more rights than its caller (`AT_SECURE`) has the defaults. A value that makes
//! no sense costs one line on stderr, and the default is taken. So does a name that is unknown.

use crate::base::{number, say, switch};
use crate::stats::Stats;
use libc::c_char;
use std::ffi::CStr;

/// The smallest threshold: a bound of the setting and no page size, for a machine with larger pages
/// rounds up.
const LEAST_THRESHOLD: usize = 4096;
/// The largest number of bytes that any setting may name.
const MOST_BYTES: usize = 1 << 46;

/// The settings of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// `VMALLOC_THRESHOLD`: the size from which on memory comes from the space.
    pub(crate) threshold: usize,
    /// `VMALLOC_START`: the bytes of large requests after which the space is opened.
    pub(crate) start: usize,
    /// `VMALLOC_BUDGET`: the bytes of freed memory that stay cached.
    pub(crate) budget: usize,
    /// `VMALLOC_DECAY`: milliseconds between two decays; 0 for none.
    pub(crate) decay_ms: usize,
    /// `VMALLOC_RESERVE`: the bytes of addresses to reserve.
    pub(crate) reserve: usize,
    /// `VMALLOC_POPULATE`: new blocks get memory at once, where the last ones of their size were
    /// filled.
    pub(crate) populate: bool,
    /// `VMALLOC_GUARDS`: a guard page behind each block.
    pub(crate) guards: bool,
    /// `VMALLOC_TRAP`: a block traps as soon as it is freed.
    pub(crate) trap: bool,
    /// `VMALLOC_DEBUG`: blocks of all sizes end with their pages, and traps are reported.
    pub(crate) debug: bool,
    /// `VMALLOC_THREAD`: a thread drains, instead of the threads that free.
    pub(crate) thread: bool,
    /// `VMALLOC_STATS`: one line of counts at the exit.
    pub(crate) stats: Stats,
    /// `VMALLOC_ABORT`: a wrong pointer ends the program.
    pub(crate) abort: bool,
    /// The environment has settings for glibc's malloc.
    pub(crate) tunes_glibc: bool,
}

impl Settings {
    pub(crate) const DEFAULT: Self = Self {
        threshold: large_heap::DEFAULT_THRESHOLD,
        start: 1 << 20,
        // A collector frees a hundred blocks of 1 MiB at once, and asks for them again.
        budget: 384 << 20,
        // PostgreSQL's session has 1.0 times glibc's memory at its peak; with 250 ms 1.06, with
        // half a second 1.2.
        decay_ms: 100,
        // What does not fit is glibc's. More addresses cost larger tables at the start.
        reserve: 1 << 40,
        populate: true,
        guards: false,
        trap: false,
        debug: false,
        thread: false,
        stats: Stats::Nowhere,
        abort: true,
        tunes_glibc: false,
    };

    /// The settings that find mistakes. What is freed traps until 1 GiB of addresses was freed.
    const DEBUG: Self = Self {
        threshold: 1,
        start: 0,
        budget: 0,
        decay_ms: 0,
        populate: false,
        guards: true,
        trap: true,
        debug: true,
        ..Self::DEFAULT
    };

    /// Reads the settings from an environment. Other settings change those of `VMALLOC_DEBUG=1`.
    ///
    /// # Safety
    /// `environment` is null, or a list of strings that ends in null.
    pub(crate) unsafe fn read(environment: *const *const c_char) -> Self {
        // SAFETY: no conditions.
        if environment.is_null() || unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            return Self::DEFAULT;
        }
        // SAFETY: the caller's promise.
        let is_debug = unsafe { entries(environment) }.any(|entry| entry == b"VMALLOC_DEBUG=1");
        let mut settings = if is_debug { Self::DEBUG } else { Self::DEFAULT };
        // SAFETY: the caller's promise.
        for entry in unsafe { entries(environment) } {
            let ours = entry.strip_prefix(b"VMALLOC_").unwrap_or_default();
            if let Some(at) = ours.iter().position(|&byte| byte == b'=') {
                settings.read_one(&ours[..at], &ours[at + 1..]);
            }
            settings.tunes_glibc |= tunes_glibc(entry);
        }
        settings
    }

    /// Applies one variable, or says in a line why not.
    fn read_one(&mut self, name: &[u8], value: &[u8]) {
        let show = |text| std::str::from_utf8(text).unwrap_or("(not a text)");
        match self.set(name, value) {
            Some(true) => {}
            // Those of `libvmalloc_mmap.so`, which may be preloaded as well.
            Some(false) if name.starts_with(b"MMAP_") => {}
            Some(false) => say(format_args!("VMALLOC_{} is no setting; it is ignored", show(name))),
            None => say(format_args!(
                "VMALLOC_{}={} makes no sense; the default is taken",
                show(name),
                show(value)
            )),
        }
    }

    /// Applies one variable. Returns false for one that is not known, and `None` if the value makes
    /// no sense; then nothing is changed.
    fn set(&mut self, name: &[u8], value: &[u8]) -> Option<bool> {
        match name {
            b"THRESHOLD" => self.threshold = bytes(value).filter(|&bytes| bytes >= LEAST_THRESHOLD)?,
            b"START" => self.start = bytes(value)?,
            b"BUDGET" => self.budget = bytes(value)?,
            b"DECAY" => self.decay_ms = number(value)?,
            b"RESERVE" => self.reserve = bytes(value).filter(|&bytes| bytes >= 1 << 20)?,
            b"POPULATE" => self.populate = switch(value)?,
            b"GUARDS" => self.guards = switch(value)?,
            b"TRAP" => self.trap = switch(value)?,
            b"DEBUG" => self.debug = switch(value)?,
            b"THREAD" => self.thread = switch(value)?,
            b"STATS" => self.stats = Stats::of_setting(value)?,
            b"ABORT" => self.abort = switch(value)?,
            _ => return Some(false),
        }
        Some(true)
    }
}

/// Returns the strings of an environment.
///
/// # Safety
/// It is a list of strings that ends in null.
unsafe fn entries(mut environment: *const *const c_char) -> impl Iterator<Item = &'static [u8]> {
    std::iter::from_fn(move || {
        // SAFETY: by the caller's promise each entry up to the null is a string, and behind one
        // that is not null there is another one.
        unsafe {
            let entry = environment.read().as_ref()?;
            environment = environment.add(1);
            Some(CStr::from_ptr(entry).to_bytes())
        }
    })
}

/// Returns true for variables such as `MALLOC_TOP_PAD_` and `GLIBC_TUNABLES` for its malloc.
fn tunes_glibc(entry: &[u8]) -> bool {
    const TUNABLES: &[u8] = b"glibc.malloc.";
    let is_tunable = || entry.windows(TUNABLES.len()).any(|part| part == TUNABLES);
    entry.starts_with(b"MALLOC_") || entry.starts_with(b"GLIBC_TUNABLES=") && is_tunable()
}

fn bytes(value: &[u8]) -> Option<usize> {
    crate::base::bytes(value, MOST_BYTES)
}
