use super::*;

fn kind(line: &str) -> Result<Kind, Reason> {
    Strace::default().line(line).map(|event| event.expect(line).kind)
}

#[test]
fn calls_become_events_in_pages() {
    for (line, expected) in [
        ("brk(NULL)                               = 0x55f70ae0a000", Kind::BreakIs { end: 0x5_5f70_ae0a }),
        ("brk(0x55f70ae2b000) = 0x55f70ae2b000", Kind::Break { end: 0x5_5f70_ae2b }),
        ("brk(0x55f70ae2b000) = 0x55f70ae0a000", Kind::Failed { pages: 0 }),
        (
            "mmap(NULL, 47667, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7fb4e6b7b000",
            Kind::Map { start: 0x7_fb4e_6b7b, pages: 12 },
        ),
        (
            "mmap(0x7000, 1, PROT_READ, MAP_FIXED, 3</a, b) = 0x1 (>, 0x1000) = 0x7000 <0.000012>",
            Kind::Map { start: 7, pages: 1 },
        ),
        (
            "mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE, -1, 0) = -1 ENOMEM (Cannot allocate memory)",
            Kind::Failed { pages: 2 },
        ),
        ("munmap(0x7fb4e6b7b000, 47667) = 0", Kind::Unmap { start: 0x7_fb4e_6b7b, pages: 12 }),
        ("munmap(0x7001, 47667) = -1 EINVAL (Invalid argument)", Kind::Failed { pages: 0 }),
        ("mprotect(0x1000, 16384, PROT_READ) = 0", Kind::Protect { start: 1, pages: 4 }),
        (
            "mremap(0x1000, 4096, 8192, MREMAP_MAYMOVE) = 0x9000",
            Kind::Remap { from: 1, from_pages: 1, to: 9, to_pages: 2 },
        ),
        (
            "mremap(0x1000, 4096, 8192, MREMAP_MAYMOVE|MREMAP_FIXED, 0x9000) = 0x9000",
            Kind::Remap { from: 1, from_pages: 1, to: 9, to_pages: 2 },
        ),
        ("mremap(0x1000, 0, 8192, MREMAP_MAYMOVE) = 0x9000", Kind::Map { start: 9, pages: 2 }),
        (
            "mremap(0x1000, 4096, 4096, MREMAP_MAYMOVE|MREMAP_DONTUNMAP) = 0x9000",
            Kind::Map { start: 9, pages: 1 },
        ),
        ("mremap(0x1000, 4096, 8192, 0) = -1 ENOMEM (Cannot allocate memory)", Kind::Failed { pages: 2 }),
    ] {
        assert_eq!(kind(line), Ok(expected), "{line}");
    }
}

#[test]
fn halves_of_calls_come_together_by_thread() {
    let mut strace = Strace::default();
    let mut kinds = Vec::new();
    for line in [
        "1 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0 <unfinished ...>",
        "2 munmap(0x7000, 4096 <unfinished ...>",
        "[pid 3] mremap(0x1000, 4096, <unfinished ...>",
        "3 <... mremap resumed>8192, MREMAP_MAYMOVE) = 0x9000",
        "1 <... mmap resumed> ) = 0x7000",
        "2 <... munmap resumed>) = 0",
        "2 futex(0x1, FUTEX_WAIT <unfinished ...>",
        "2 <... futex resumed>) = 0",
    ] {
        let found = strace.line(line).expect(line);
        kinds.push(found.ok().map(|event| (event.cpu, event.kind)));
    }
    let expected = [
        None,
        Some((0, Kind::Unmap { start: 7, pages: 1 })),
        None,
        Some((1, Kind::Remap { from: 1, from_pages: 1, to: 9, to_pages: 2 })),
        Some((2, Kind::Map { start: 7, pages: 1 })),
        None,
        None,
        None,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(strace.line("4 <... mmap resumed>) = 0x7000"), Err(Reason::Orphan));
    assert_eq!(strace.line("1 <... mmap resumed>) = 0x7000"), Err(Reason::Orphan));
}

#[test]
fn lines_of_other_kinds_are_recognized() {
    for line in [
        "7 +++ exited with 0 +++",
        "[pid 7] +++ killed by SIGKILL +++",
        "7 12:00:01 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---",
        "strace: Process 7 attached",
        "Process 7 detached",
        "7 execve(\"/bin/true\", [\"true\"], 0x7ffc /* 3 vars */) = 0",
        "7 exit_group(0) = ?",
        "7 munmap(0x1000, 4096) = ?",
        " > /usr/lib/libc.so.6(mmap64+0x1) [0x1]",
        " > /usr/bin/true() [0x11fe]",
    ] {
        assert_eq!(Strace::default().line(line), Ok(Err(Known::Other)), "{line}");
    }
    assert_eq!(Strace::default().line(""), Ok(Err(Known::Header)));
}

#[test]
fn damage_names_the_wrong_field() {
    for (line, reason) in [
        ("hello", Reason::Strange),
        ("> munmap(0x7f0000000000, 139264) = 0", Reason::Strange),
        ("7 mmap", Reason::Strange),
        ("7 mmap(NULL, 4096", Reason::Strange),
        ("7 mmap(NULL, 4096) = 0x1000", Reason::Field("offset")),
        ("7 mmap(NULL, many, PROT_READ, MAP_PRIVATE, -1, 0) = 0x1000", Reason::Field("length")),
        ("7 mmap(NULL, 0, PROT_READ, MAP_PRIVATE, -1, 0) = 0x1000", Reason::Field("length")),
        ("7 mmap(NULL, 1, PROT_READ, MAP_PRIVATE, -1, 0) = 0x1001", Reason::Field("result")),
        ("7 mmap(NULL, 1, PROT_READ, MAP_PRIVATE, -1, 0) = 0x10zz", Reason::Field("result")),
        ("7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) = 0xfffffffffffff000x", Reason::Field("result")),
        ("7 munmap(0x1001, 4096) = 0", Reason::Field("address")),
        ("7 munmap(0xfffffffffffff000, 8192) = 0", Reason::Field("length")),
        ("7 brk(4096 = 0x1000", Reason::Strange),
    ] {
        assert_eq!(Strace::default().line(line), Err(reason), "{line}");
    }
}
