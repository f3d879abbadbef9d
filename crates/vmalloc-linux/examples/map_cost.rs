//! What it costs to map pages that the program has already, in nanoseconds: `cargo run --release
//! --example map_cost -- [--json]`.
//!
//! In one run, alternating, so that all see the same machine:
//! - **naive**: for each page mmap(2) with `MAP_FIXED` of a file in memory, touch, munmap(2) of the
//!   whole;
//! - **unmapped**: `map_frames`, touch, `unmap` and `flush`;
//! - **same**: `map_frames` of the frames that are there already, touch, `discard_hint`;
//! - **other**: `map_frames` of other frames each time, touch, `discard_hint`;
//!
//! each for scattered frames, and for consecutive ones. Medians. One thread; with others running,
//! whatever takes a mapping away interrupts them as well.

use std::ffi::c_void;
use std::io::Write;
use std::time::Instant;
use vmalloc::{Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformError, Protection};
use vmalloc_linux::{Linux, LinuxOptions, SpaceOptions};

const ROUNDS: usize = 1001;
const SIZES: [u64; 3] = [1, 4, 16];
/// Frames to choose from: 64 MiB, more than caches hold.
const POOL: u64 = 1 << 14;
const WAYS: [&str; 4] = ["naive", "unmapped", "same", "other"];

struct Line {
    pages: u64,
    scattered: bool,
    /// One for each of the [`WAYS`].
    ns: [u64; WAYS.len()],
}

struct Bench {
    linux: Linux,
    /// The naive way's file, and where it is mapped.
    file: i32,
    window: *mut c_void,
    seed: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut bench = Bench::new()?;
    let mut lines = Vec::new();
    for scattered in [true, false] {
        for pages in SIZES {
            lines.push(bench.measure(pages, scattered)?);
        }
    }
    let json = std::env::args().any(|argument| argument == "--json");
    let text = if json { as_json(&lines) } else { as_table(&lines) };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

impl Bench {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let linux = Linux::reserve(
            LinuxOptions::new().max_bytes(1 << 30).drain_thread(false),
            &SpaceOptions::default(),
        )?;
        let pool = linux.take_run(POOL, 1)?;
        let linear = linux.geometry().linear_map.ok_or("no linear map")?.start();
        if pool != Frame(0) {
            return Err("the first run begins at frame 0".into());
        }
        touch(linear, POOL);
        // SAFETY: a name that ends in a zero byte.
        let file = unsafe { libc::memfd_create(c"naive".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: a descriptor, or -1.
        if unsafe { libc::ftruncate(file, (POOL * 4096) as libc::off_t) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // The file has memory, as the supply has.
        let all = map_file(std::ptr::null_mut(), POOL, file, 0)?;
        touch(all.addr() as u64 >> 12, POOL);
        // In the middle of inaccessible addresses, as a reservation would be.
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let window = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), 1 << 20, libc::PROT_NONE, flags, -1, 0)
        };
        Ok(Self { linux, file, window: window.wrapping_byte_add(1 << 19), seed: 1 })
    }

    fn measure(&mut self, pages: u64, scattered: bool) -> Result<Line, Box<dyn std::error::Error>> {
        let start = self.linux.geometry().span.start();
        let [unmapped, same, other] =
            [1, 100, 200].map(|offset| PageRange::from_len(start + offset, pages).ok_or("a range"));
        let (unmapped, same, other) = (unmapped?, same?, other?);
        let always = self.frames(pages, scattered);
        let mut rounds: [Vec<u64>; WAYS.len()] = Default::default();
        for _ in 0..ROUNDS {
            let frames = self.frames(pages, scattered);
            let times = [
                time(|| self.naive(&frames))?,
                time(|| self.mapped_and_unmapped(unmapped, &frames))?,
                time(|| self.mapped(same, &always))?,
                time(|| self.mapped(other, &frames))?,
            ];
            rounds.iter_mut().zip(times).for_each(|(round, time)| round.push(time));
        }
        Ok(Line { pages, scattered, ns: rounds.map(median) })
    }

    /// Frames at random: no two neighbours, or all.
    fn frames(&mut self, pages: u64, scattered: bool) -> Vec<Frame> {
        let mut random = || {
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 33) % (POOL / 2 - 16) * 2
        };
        let first = random();
        (0..pages).map(|index| if scattered { Frame(random()) } else { Frame(first + index) }).collect()
    }

    fn naive(&self, frames: &[Frame]) -> Result<(), std::io::Error> {
        let page = self.window.addr() as u64 >> 12;
        // A caller with consecutive pages needs one call for them.
        let mut at = self.window;
        for run in frames.chunk_by(|first, next| next.0 == first.0 + 1) {
            map_file(at, run.len() as u64, self.file, run[0].0)?;
            at = at.wrapping_byte_add(run.len() * 4096);
        }
        touch(page, frames.len() as u64);
        // SAFETY: mapped above, by this alone.
        unsafe { libc::munmap(self.window, frames.len() * 4096) };
        Ok(())
    }

    fn mapped_and_unmapped(&self, range: PageRange, frames: &[Frame]) -> Result<(), PlatformError> {
        // SAFETY: the example owns the whole span and the frames.
        unsafe {
            self.linux.map_frames(range, frames, Protection::ReadWrite)?;
            touch(range.start(), range.len());
            self.linux.unmap(&[range])?;
            self.linux.flush(&[range])
        }
    }

    fn mapped(&self, range: PageRange, frames: &[Frame]) -> Result<(), PlatformError> {
        // SAFETY: as above.
        unsafe {
            self.linux.map_frames(range, frames, Protection::ReadWrite)?;
            touch(range.start(), range.len());
            self.linux.discard_hint(range);
        }
        Ok(())
    }
}

fn map_file(at: *mut c_void, pages: u64, file: i32, first: u64) -> Result<*mut c_void, std::io::Error> {
    let flags = libc::MAP_SHARED | if at.is_null() { 0 } else { libc::MAP_FIXED };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: an address that the kernel chooses, or the window, which is the example's own.
    let mapped =
        unsafe { libc::mmap(at, pages as usize * 4096, access, flags, file, (first * 4096) as libc::off_t) };
    mapped.expose_provenance();
    if mapped == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(mapped) }
}

fn touch(first: u64, pages: u64) {
    for page in first..first + pages {
        // SAFETY: just mapped, and used by this thread alone.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>((page << 12) as usize).write_volatile(1) };
    }
}

fn time<E>(run: impl FnOnce() -> Result<(), E>) -> Result<u64, E> {
    let begin = Instant::now();
    run()?;
    Ok(begin.elapsed().as_nanos() as u64)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn as_table(lines: &[Line]) -> String {
    let mut text = format!(
        "mapping and touching pages of the program's own, ns, medians of {ROUNDS}\n{:>5} {:<12}",
        "pages", "frames"
    );
    WAYS.iter().for_each(|way| text += &format!(" {way:>9}"));
    text += "   naive / same  naive / other\n";
    for Line { pages, scattered, ns } in lines {
        text += &format!("{pages:>5} {:<12}", if *scattered { "scattered" } else { "consecutive" });
        ns.iter().for_each(|ns| text += &format!(" {ns:>9}"));
        let ratio = |way: usize| ns[0] as f64 / ns[way] as f64;
        text += &format!(" {:>14.1} {:>14.1}\n", ratio(2), ratio(3));
    }
    text
}

fn as_json(lines: &[Line]) -> String {
    let objects = lines.iter().map(|Line { pages, scattered, ns }| {
        let ways: String = WAYS.iter().zip(ns).map(|(way, ns)| format!(", \"{way}_ns\": {ns}")).collect();
        format!("  {{\"pages\": {pages}, \"scattered\": {scattered}{ways}}}")
    });
    format!("[\n{}\n]\n", objects.collect::<Vec<_>>().join(",\n"))
}
