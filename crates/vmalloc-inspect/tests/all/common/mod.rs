//! A program with a space of known content, which is this test program started again.

pub(crate) mod program;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use vmalloc_linux::{Linux, LinuxOptions, Request, Space, SpaceOptions, open, page_bytes, trap_report};

/// Set for the child: what it does when its space is there.
const ROLE: &str = "VMALLOC_INSPECT_ROLE";

/// A child whose space has areas at the addresses that it told.
pub(crate) struct Subject {
    pub(crate) process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub(crate) addrs: BTreeMap<String, u64>,
}

impl Subject {
    /// Starts a child that runs the test `subject` in `role`, and waits until its space is there.
    pub(crate) fn start(role: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["--exact", "subject", "--nocapture", "--test-threads=1"]);
        Self::spawn(&mut command, role)
    }

    /// Starts such a child in `folder`, with leave to dump core there.
    pub(crate) fn start_dumpable(role: &str, folder: &Path) -> Self {
        let program = std::env::current_exe().expect("this program");
        let line = format!(
            "ulimit -c unlimited; exec '{}' --exact subject --nocapture --test-threads=1",
            program.display()
        );
        Self::spawn(Command::new("sh").args(["-c", &line]).current_dir(folder), role)
    }

    fn spawn(command: &mut Command, role: &str) -> Self {
        let mut process =
            command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
        let stdin = process.stdin.take().expect("its input");
        let stdout = BufReader::new(process.stdout.take().expect("its output"));
        let mut subject = Self { process, stdin, stdout, addrs: BTreeMap::new() };
        subject.read_addrs();
        subject
    }

    fn read_addrs(&mut self) {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).expect("a line"), 0, "the child ended");
            let line = line.trim();
            if line.ends_with("ready") {
                return;
            }
            if let Some((name, addr)) = line.split_once('=') {
                let name = name.rsplit(' ').next().unwrap_or(name);
                self.addrs.insert(name.to_owned(), addr.parse().expect("an address"));
            }
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    pub(crate) fn addr(&self, name: &str) -> u64 {
        self.addrs[name]
    }

    /// Lets the child go on to its end, and returns how it ended.
    pub(crate) fn go_on(&mut self) -> ExitStatus {
        let _ = self.stdin.write_all(b"\n");
        self.process.wait().expect("its end")
    }

    /// Lets the child go on, and waits for its end.
    pub(crate) fn end(mut self) {
        let _ = self.stdin.write_all(b"\n");
        let _ = self.process.wait();
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs in the child: makes the space, tells of it, and plays its role. Returns at once elsewhere.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "still" => still(LinuxOptions::new()),
        "small" => still(small()),
        "hidden" => still(small().dump(false)),
        "aborts" => {
            still(LinuxOptions::new());
            std::process::abort();
        }
        "busy" => busy(),
        "traps" => traps(),
        "bare" => tell(&[]),
        "many" => many(),
        role => panic!("no such role: {role}"),
    }
}

fn tell(addrs: &[(&str, usize)]) {
    for (name, addr) in addrs {
        println!("{name}={addr}");
    }
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

fn space(options: LinuxOptions, space_options: SpaceOptions) -> Arc<Space<Linux>> {
    open(options, space_options).expect("a space")
}

fn alloc(space: &Space<Linux>, request: Request) -> usize {
    space.raw().alloc(&request).expect("an area")
}

fn free(space: &Space<Linux>, addr: usize) {
    // SAFETY: the area is this program's, and nothing uses it.
    unsafe { space.raw().free(addr) }.expect("it is freed");
}

/// A span that gcore can write: it writes all addresses that are reserved, and all frames.
fn small() -> LinuxOptions {
    LinuxOptions::new().max_bytes(256 << 20).frame_bytes(0)
}

/// An odd size: 25 pages, of which the last is used in part.
pub(crate) fn rows_bytes() -> usize {
    24 * page_bytes() + 1696
}

/// Areas with tags, of odd sizes, without guards, freed ones, and one without a tag.
fn still(options: LinuxOptions) {
    let (space, page) = (space(options.drain_thread(false), SpaceOptions::default().nodes(1)), page_bytes());
    let rows = alloc(&space, Request::new(rows_bytes()).tag("rows"));
    let columns: Vec<_> = (0..3).map(|_| alloc(&space, Request::new(2 * page).tag("columns"))).collect();
    let plain = alloc(&space, Request::new(3 * page));
    let dense = alloc(&space, Request::new(page).guard(false).tag("dense"));
    let cached = alloc(&space, Request::new(5 * page));
    let large = alloc(&space, Request::new(8 << 20));
    let behind = alloc(&space, Request::new(page).tag("behind").record(0xc00c1e));
    // SAFETY: areas of this program's own, as large as asked for.
    unsafe { std::slice::from_raw_parts_mut(rows as *mut u8, rows_bytes()).fill(1) };
    free(&space, cached);
    free(&space, large);
    let addrs = [("rows", rows), ("columns", columns[1]), ("plain", plain), ("dense", dense)];
    tell(&[&addrs[..], &[("cached", cached), ("large", large), ("behind", behind)]].concat());
    // It is still there when the program aborts.
    std::mem::forget(space);
}

/// A space whose map changes all the time, beside an area that stays.
fn busy() {
    let space = space(LinuxOptions::new().drain_thread(false), SpaceOptions::default().unmap_on_free());
    let stays = alloc(&space, Request::new(40_000).tag("stays"));
    for _ in 0..2 {
        let space = Arc::clone(&space);
        std::thread::spawn(move || {
            for bytes in (1..200).cycle() {
                let addr = alloc(&space, Request::new(bytes * page_bytes()).tag("comes and goes"));
                free(&space, addr);
            }
        });
    }
    tell(&[("stays", stays)]);
}

/// Frees that are recorded.
fn traps() {
    trap_report::install().expect("handlers");
    let space = space(LinuxOptions::new(), SpaceOptions::default().trap_on_free(true));
    let rows = alloc(&space, Request::new(65_536).tag("freed rows"));
    free(&space, rows);
    tell(&[("rows", rows)]);
}

/// Ten thousand areas, half of them freed again and purged, at the start and far apart.
fn many() {
    let options = LinuxOptions::new().max_bytes(1 << (usize::BITS / 2 + 12)).drain_thread(false);
    let space = space(options, SpaceOptions::default().unmap_on_free().lazy_max_pages(1 << 20));
    let tags = ["even", "odd"];
    let all: Vec<_> = (0..10_000)
        .map(|nth| alloc(&space, Request::new((1 + nth % 7) * page_bytes()).tag(tags[nth % 2])))
        .collect();
    all.iter().skip(1).step_by(2).for_each(|addr| free(&space, *addr));
    space.purge().expect("a purge");
    let far = space.geometry().span.end() as usize * page_bytes() - (1 << 40);
    let far = alloc(&space, Request::new(1).tag("far").within(far, far + (1 << 30)));
    let lazy: Vec<_> = (0..5000).map(|_| alloc(&space, Request::new(1))).collect();
    lazy.iter().for_each(|addr| free(&space, *addr));
    tell(&[("first", all[0]), ("second", all[1]), ("far", far), ("lazy", lazy[0])]);
}
