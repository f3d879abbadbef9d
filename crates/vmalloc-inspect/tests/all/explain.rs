//! `vmalloc explain` and `vmalloc top`.

use crate::common::Subject;
use crate::common::program::{assert_refused, json, program, run, text};
use std::fs::OpenOptions;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vmalloc_harness::not_run;

#[test]
fn a_live_process_is_told_of_and_goes_on() {
    let mut other = Subject::start("still");
    let pid = other.process.id();
    let picture = text(&format!("top --once {pid}"));
    for word in [&*format!("({pid}): page faults"), "space 0x", "in use", "cached", "lazy", "free", "tag"] {
        assert!(picture.contains(word), "{word}: {picture}");
    }
    let (report, code) = json(&format!("top --once --json {pid}"));
    assert_eq!(
        (code, report["command"].as_str(), report["pid"].as_u64()),
        (Some(0), Some("top"), Some(pid.into()))
    );
    let start = report["spaces"][0]["span"][0].as_u64().expect("a span");
    let (told, code) = json(&format!("explain --json {pid} {start}"));
    assert_eq!((code, told["place"]["span"][0].as_u64()), (Some(0), Some(start)));
    let end = report["spaces"][0]["span"][1].as_u64().expect("a span");
    let free = text(&format!("explain {pid} {:#x}", end - 1));
    assert!(free.contains("free: in no area"), "{free}");
    assert!(free.contains("freed     not known: the process records no frees"), "{free}");
    assert_eq!(told["recorded_frees"], serde_json::Value::Null);
    let outside = run(&format!("explain {pid} 0x10"));
    assert_eq!(outside.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&outside.stdout).contains("in no space; 1 space was looked at"));
    assert!(other.process.try_wait().expect("it is ours").is_none(), "it goes on");
}

#[test]
fn top_ends_with_the_process() {
    let other = Subject::start("still");
    let mut top = program(&format!("top {}", other.pid()));
    let mut top = top.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Its first picture.
    top.stdout.as_mut().expect("its output").read_exact(&mut [0]).expect("a picture");
    drop(other);
    let output = top.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ended"), "{output:?}");
}

#[test]
fn what_can_not_be_read_is_one_line_and_exit_code_2() {
    let own = std::process::id();
    for (line, reason) in [
        (format!("explain {own} 0x1000"), "no space of vmalloc found"),
        (format!("top --once {own}"), "no space of vmalloc found"),
        ("explain 2147483647 0x1000".into(), "there is no process 2147483647"),
        ("explain /dev/null 0x1000".into(), "is no core dump"),
        ("explain /no/such/file 0x1000".into(), "is no core dump"),
        ("explain 1 rows".into(), "rows is no address"),
        ("top rows".into(), "rows"),
    ] {
        assert_refused(&run(&line), 2, reason);
    }
}

/// Returns a dump of a program with a space, and an address in that.
fn dumped(folder: &Path) -> Option<(PathBuf, u64)> {
    let other = Subject::start("small");
    let pid = other.pid();
    let (report, _) = json(&format!("top --once --json {pid}"));
    let start = report["spaces"][0]["span"][0].as_u64().expect("a span");
    let said = Command::new("gcore").arg("-o").arg(folder.join("dump")).arg(pid.to_string()).output();
    let dump = folder.join(format!("dump.{pid}"));
    if !dump.exists() {
        not_run("core dumps that are compressed or cut off", format_args!("gcore made none: {said:?}"));
        return None;
    }
    Some((dump, start))
}

#[test]
fn a_core_dump_is_read_compressed_and_named_where_it_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((dump, addr)) = dumped(folder.path()) else { return };
    let plain = text(&format!("explain {} {addr}", dump.display()));
    assert!(plain.contains("are in the dump"), "{plain}");
    for packer in ["gzip -1", "xz -0", "zstd -q -1", "lz4 -q"] {
        let packed = folder.path().join("packed");
        let line = format!("{packer} -c < {} > {}", dump.display(), packed.display());
        if !Command::new("sh").args(["-c", &line]).status().expect("a shell").success() {
            not_run(format_args!("a core dump packed by {packer}"), "it failed, or is not installed");
            continue;
        }
        assert_eq!(text(&format!("explain {} {addr}", packed.display())), plain, "{packer}");
    }
    let file = OpenOptions::new().write(true).open(&dump).expect("it is ours");
    file.set_len(file.metadata().expect("its size").len() / 3).expect("it is cut");
    let cut = run(&format!("explain {} {addr}", dump.display()));
    let said = String::from_utf8_lossy(&cut.stderr);
    assert!(said.contains("the core dump is cut off") && !said.contains("the program has none"), "{said}");
}
