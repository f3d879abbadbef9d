//! A look into core dumps: one that the kernel has written, one by gcore, and files that are none.

use crate::common::Subject;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vmalloc_harness::not_run;
use vmalloc_inspect::{AreaState, CoreDump, InspectError, Position, Process, Source, Target};
use vmalloc_linux::page_bytes;

/// A folder of this test, which is removed with its dumps.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("vmalloc-inspect-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks what a dump tells of the space of the role `still`.
fn check(dump: &Path, subject: &Subject) {
    let dump = CoreDump::open(dump).expect("a core dump");
    let target = Target::find(&dump).expect("it is read");
    let told = |addr| target.explain(addr).expect("it is read").place.expect("it is in the space");
    let rows = told(subject.addr("rows") + 5);
    assert_eq!((rows.segment.tag.as_deref(), rows.position), (Some("rows"), Position::Inside(5)));
    assert_eq!((rows.segment.bytes, rows.is_settled, rows.is_whole), (25 * page_bytes() as u64, true, true));
    assert_eq!(told(subject.addr("cached")).segment.state, AreaState::Cached);
    let tally = target.spaces().expect("a space")[0].snapshot().expect("it is read").tally();
    assert_eq!((tally.busy.areas, tally.cached.areas), (7, 2));
}

#[test]
fn a_dump_that_the_kernel_has_written_is_read() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim().contains(['|', '/', '%']) {
        return not_run(
            "a_dump_that_the_kernel_has_written_is_read",
            format_args!("core dumps of this machine go to {pattern}"),
        );
    }
    let folder = Folder::new("kernel");
    let mut subject = Subject::start_dumpable("aborts", &folder.0);
    let status = subject.go_on();
    let dumps = fs::read_dir(&folder.0).expect("a folder").filter_map(Result::ok).map(|entry| entry.path());
    let Some(dump) = dumps.min() else {
        return not_run(
            "a_dump_that_the_kernel_has_written_is_read",
            format_args!("no core was dumped: {status}"),
        );
    };
    check(&dump, &subject);
}

/// Has gcore write a dump. Returns it, or notes that `test` was not run.
fn gcore(test: &str, folder: &Folder, subject: &Subject) -> Option<PathBuf> {
    let (prefix, pid) = (folder.0.join("dump"), subject.pid().to_string());
    let said = Command::new("gcore").args(["-o".as_ref(), prefix.as_os_str(), pid.as_ref()]).output();
    let dump = folder.0.join(format!("dump.{pid}"));
    if !dump.exists() {
        not_run(test, format_args!("gcore made no dump: {said:?}"));
        return None;
    }
    Some(dump)
}

#[test]
fn a_dump_by_gcore_is_read_with_and_without_the_span() {
    for role in ["still", "small", "hidden"] {
        let (folder, subject) = (Folder::new(role), Subject::start(role));
        let test = "a_dump_by_gcore_is_read_with_and_without_the_span";
        let Some(dump) = gcore(test, &folder, &subject) else { return };
        // Everything that gcore writes has memory, or is a chunk that was opened.
        let bytes = fs::metadata(&dump).expect("a file").len();
        assert!(bytes < 128 << 20, "{role}: {bytes}");
        check(&dump, &subject);
    }
}

#[test]
fn files_that_are_no_dumps_are_refused() {
    let folder = Folder::new("none");
    let file = folder.0.join("file");
    let program = fs::read(std::env::current_exe().expect("this program")).expect("it can be read");
    let mut huge = program[..64].to_vec();
    // A core dump with program headers behind its end.
    huge[16] = 4;
    huge[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    for content in [&b""[..], b"\x7fELF", &program, &program[..64], &huge] {
        fs::write(&file, content).expect("it is written");
        let refused = CoreDump::open(&file).map(|_| ());
        assert!(matches!(refused, Err(InspectError::NotACore { .. })), "{refused:?}");
    }
    let named = [
        (&b""[..], "empty"),
        (b"\x28\xb5\x2f\xfd and more", "by zstd"),
        (b"\xfd7zXZ\0 and more", "by xz"),
        (b"\x1f\x8b\x08 and more", "by gzip"),
        (b"\x04\x22\x4d\x18 and more", "by lz4"),
        (b"MDMP\x93\xa7", "minidump"),
        (b"ProblemType: Crash", "apport"),
        (b"\x7fELF\x01\x01\x01", "32 bits"),
        (b"\x7fELF\x02\x02\x01", "highest byte first"),
        (b"Thread 1 received SIGSEGV", "no ELF file"),
        (&program, "another type"),
    ];
    for (content, name) in named {
        fs::write(&file, content).expect("it is written");
        let refused = CoreDump::open(&file).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}, not {name}");
    }
    let missing = CoreDump::open(&folder.0.join("missing")).map(|_| ());
    assert!(matches!(missing, Err(InspectError::NotACore { .. })));
}

#[test]
fn a_dump_that_was_cut_off_is_an_error() {
    let (folder, subject) = (Folder::new("cut"), Subject::start("small"));
    let Some(dump) = gcore("a_dump_that_was_cut_off_is_an_error", &folder, &subject) else { return };
    let file = fs::OpenOptions::new().write(true).open(&dump).expect("it is ours");
    let whole = file.metadata().expect("its size").len();
    let mut refused = 0;
    for part in 1..16 {
        file.set_len(whole / 16 * (16 - part)).expect("it is cut");
        let Ok(dump) = CoreDump::open(&dump) else { continue };
        assert!(dump.cut().is_some(), "{part} of 16 parts are missing");
        let target = Target::find(&dump).expect("what is there is read");
        let Ok(told) = target.explain(subject.addr("rows")) else {
            let error = target.explain(subject.addr("rows")).unwrap_err();
            assert!(matches!(error, InspectError::Cut { .. }), "{error:?}");
            refused += 1;
            continue;
        };
        let residency = told.place.and_then(|place| place.residency);
        assert!(residency.is_none_or(|found| found.resident <= 25), "no more than there is");
    }
    assert!(refused > 0, "half of a dump has no space");
    assert!(Process::open(subject.pid()).is_ok(), "the process goes on");
}
