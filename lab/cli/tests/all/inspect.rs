//! `vmalloc explain` and `vmalloc top`: another process is looked at, which is this program's own
//! `vmalloc latency`.

use crate::common::{json, run, text, vmalloc};
use std::io::Read;
use std::process::{Child, Stdio};

/// A program with a space, which is stopped at the end.
struct Other(Child);

impl Other {
    fn start() -> Self {
        let mut command = vmalloc("latency --threads 1 --seconds 60");
        let other = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
        // Until its space is there.
        while run(&format!("top --once {}", other.0.id())).status.code() != Some(0) {
            std::thread::yield_now();
        }
        other
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_live_process_is_told_of_and_goes_on() {
    let mut other = Other::start();
    let pid = other.0.id();
    let picture = text(&format!("top --once {pid}"));
    for word in ["vmalloc (", "page faults", "space 0x", "in use", "cached", "lazy", "free", "tag"] {
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
    assert!(other.0.try_wait().expect("it is ours").is_none(), "it goes on");
}

#[test]
fn top_ends_with_the_process() {
    let other = Other::start();
    let mut top = vmalloc(&format!("top {}", other.0.id()));
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
        let output = run(&line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason) && stderr.lines().count() == 1, "{line}: {stderr}");
    }
}
