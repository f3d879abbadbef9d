//! Real traces and damaged ones: every line is accounted for, and what is replayed leaves
//! everything free.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::io::Read;
use std::sync::atomic::AtomicU64;
use vmalloc::PageRange;
use vmalloc_lab::designs::Name;
use vmalloc_lab::replay::{Compiler, Outcome, Purges, Script, Tally, TooMuch, replay};
use vmalloc_lab::trace::{Account, Compression, Damage, Event, Format, Kind, OpenError, Reader, Reason};

const SHORT: &[u8] = include_bytes!("../data/short.txt");
const SHORT_XZ: &[u8] = include_bytes!("../data/short.txt.xz");
const LA57: &[u8] = include_bytes!("../data/la57.txt.xz");
const MODULES: &[u8] = include_bytes!("../data/modules.txt.zst");
const PROGRAM: &[u8] = include_bytes!("../data/program.txt.gz");
const ALL: [&[u8]; 5] = [SHORT, SHORT_XZ, LA57, MODULES, PROGRAM];

/// The events of a trace that must not be damaged, and its account.
fn events(bytes: &[u8]) -> (Vec<Event>, Account) {
    let mut reader = Reader::open(bytes).expect("a trace");
    let events = reader.by_ref().map(|event| event.expect("undamaged")).collect();
    assert!(reader.account().adds_up());
    (events, reader.account().clone())
}

fn compiled(events: &[Event], purges: Purges) -> Result<Script, TooMuch> {
    let mut compiler = Compiler::new(purges);
    events.iter().try_for_each(|event| compiler.push(event))?;
    let script = compiler.finish();
    assert!(script.tally().adds_up());
    Ok(script)
}

fn script(events: &[Event], purges: Purges) -> Script {
    compiled(events, purges).expect("short")
}

fn played(script: &Script, design: Name) -> Outcome {
    let outcome = replay(script, design, &AtomicU64::new(0));
    assert_eq!(outcome.complaints, [""; 0], "{}", outcome.design);
    outcome
}

fn count(events: &[Event], like: impl Fn(&Kind) -> bool) -> usize {
    events.iter().filter(|event| like(&event.kind)).count()
}

#[test]
fn every_line_of_real_traces_is_accounted_for() {
    for (bytes, format, compression, counts) in [
        (SHORT, Format::Ftrace, Compression::Plain, [400, 388, 12, 0]),
        (SHORT_XZ, Format::Ftrace, Compression::Xz, [400, 388, 12, 0]),
        (LA57, Format::Ftrace, Compression::Xz, [825, 813, 12, 0]),
        (MODULES, Format::Ftrace, Compression::Zstd, [514, 502, 12, 0]),
        (PROGRAM, Format::Strace, Compression::Gzip, [521, 513, 0, 8]),
    ] {
        let reader = Reader::open(bytes).expect("a trace");
        assert_eq!((reader.format(), reader.compression()), (format, compression));
        let Account { total, events, headers, other, damaged, lost, .. } = events(bytes).1;
        assert_eq!([total, events, headers, other], counts);
        assert_eq!((damaged, lost), (0, 0));
    }
}

#[test]
fn kinds_of_events_are_as_many_as_the_text_has() {
    let (found, _) = events(LA57);
    let areas = |kind: &Kind| matches!(kind, Kind::Alloc { .. });
    let frees = |kind: &Kind| matches!(kind, Kind::Free { .. });
    let purges = |kind: &Kind| matches!(kind, Kind::Purge { .. });
    assert_eq!([count(&found, areas), count(&found, frees), count(&found, purges)], [395, 385, 33]);
    let block = |kind: &Kind| matches!(kind, Kind::Alloc { pages: 256, align: 256, .. });
    assert_eq!(count(&found, block), 1);
    let (found, _) = events(MODULES);
    assert_eq!(count(&found, |kind| matches!(kind, Kind::ChunkMade { base: 0xf_fffe_e4bb_fa00 })), 1);
}

#[test]
fn real_traces_are_replayed_on_every_design() {
    for bytes in ALL {
        let (events, _) = events(bytes);
        for purges in [Purges::Own, Purges::Trace] {
            let script = script(&events, purges);
            for &design in Name::ALL {
                let outcomes = [(); 2].map(|()| played(&script, design));
                assert_eq!(outcomes[0].windows, outcomes[1].windows, "{}", outcomes[0].design);
                let counts = |it: &Outcome| (it.refused, it.purges, it.peak_lazy_pages, it.alloc.count);
                assert_eq!((counts(&outcomes[0]), outcomes[0].refused), (counts(&outcomes[1]), 0));
                assert!(outcomes[0].windows.iter().all(|window| window.samples.len() <= 200));
            }
        }
    }
}

#[test]
fn fates_of_events_are_counted_by_cause() {
    let tally = |bytes| *script(&events(bytes).0, Purges::Own).tally();
    let Tally { replayed, unmatched, ignored, missed_frees, live_at_end, .. } = tally(LA57);
    assert_eq!((replayed, unmatched.free_unknown, ignored.purges), (777, 3, 33));
    assert_eq!((missed_frees, live_at_end), (0, 13));
    let Tally { ignored, .. } = tally(MODULES);
    assert_eq!(ignored.chunks, 1);
    let followed = script(&events(LA57).0, Purges::Trace);
    assert_eq!((followed.tally().replayed, followed.tally().ignored.purges), (810, 0));
}

#[test]
fn each_window_is_a_design_of_its_own() {
    let windows = script(&events(MODULES).0, Purges::Own);
    let windows: Vec<_> = windows.windows().iter().map(|window| (window.start(), window.end())).collect();
    let modules = (0xf_ffff_fffc_0236, 0xf_ffff_ffff_f000);
    assert_eq!(windows, [(0xf_fffc_e4bc_0000, 0xf_fffe_e4bc_0000), modules]);
}

/// Traces long enough for many drains: forks, and control groups with modules.
const LONG: [&[u8]; 2] = [include_bytes!("../data/forks.txt.xz"), include_bytes!("../data/cgroups.txt.xz")];

/// The evidence that the design of 2024 is Linux's: where it purges when Linux did, it needs as
/// many addresses as Linux did.
#[test]
fn nodes_span_what_linux_spanned_when_they_purge_as_it_did() {
    for bytes in LONG {
        let (events, _) = events(bytes);
        let outcome = played(&script(&events, Purges::Trace), Name::Nodes);
        let main = outcome.main_window().expect("a window");
        let ratio = main.span_ratio().expect("a trace that names its windows");
        assert!((0.9..=1.2).contains(&ratio), "{ratio}: {main:?}");
    }
}

#[test]
fn compressed_traces_may_follow_each_other_and_be_cut() {
    let twice = SHORT_XZ.repeat(2);
    assert_eq!(events(&twice).0.len(), 776);
    let mut reader = Reader::open(&twice[..twice.len() - 5]).expect("a trace");
    let read: Vec<_> = reader.by_ref().collect();
    assert!(read.iter().filter(|event| event.is_ok()).count() >= 388);
    let Some(Err(Damage { line, reason: Reason::Unreadable(_) })) = read.last() else {
        panic!("{:?}", read.last());
    };
    assert_eq!((*line, reader.account().damaged), (reader.account().total, 1));
    assert!(reader.account().adds_up());
}

#[test]
fn listings_are_no_traces_and_the_message_says_so() {
    let Err(error) = Reader::open(&include_bytes!("../data/vmallocinfo.txt")[..]) else { panic!("no trace") };
    assert!(matches!(error, OpenError::Foreign(_)));
    assert!(error.to_string().contains("/proc/vmallocinfo"), "{error}");
}

/// The most bytes of memory that this process ever had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// One line took 22 GiB, and the machine's last memory.
#[test]
fn numbers_of_a_trace_take_no_memory() {
    vmalloc_harness::in_own_process(|| {
        let limit = rustix::process::Rlimit { current: Some(2 << 30), maximum: Some(2 << 30) };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).expect("a lower limit");
        let before = peak_bytes();
        let map = |bytes: u64, at: u64| {
            format!("1 mmap(NULL, {bytes}, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = {at:#x}\n")
        };
        let heap =
            "1 brk(NULL) = 0x1000\n1 brk(0x7ffffffffffff000) = 0x7ffffffffffff000\n1 brk(0x2000) = 0x2000\n";
        let whole = "  a-4294967295 [4294967295] ..... 1.0: alloc_vmap_area: va_start: 4096 size=9223372036854771712 \
                     align=9223372036854775808 vstart=0x1000 vend=0xffffffffffffffff failed=0\n";
        for text in [
            map((1 << 63) - 4096, 0x1000),
            map(1 << 54, 0x1000) + &map(1 << 54, 0x100_0000_0000_0000),
            heap.to_owned(),
            whole.to_owned(),
        ] {
            let (events, _) = events(text.as_bytes());
            for &design in Name::ALL {
                played(&script(&events, Purges::Own), design);
                let took = (peak_bytes() - before) >> 20;
                assert!(took < 256, "{took} MiB for {design:?} and {text}");
            }
        }
    });
}

/// A hundred of them took a minute of the design `nodes`.
#[test]
fn a_trace_of_more_windows_than_kernels_have_is_refused() {
    let area = |number: u64| {
        let start = number << 30;
        let within = PageRange::new(start, start + 100);
        let kind = Kind::Alloc { start, pages: 1, align: 1, within };
        Event { time_ns: None, cpu: 127, task: 1, kind }
    };
    let areas: Vec<_> = (1..=17).map(area).collect();
    assert_eq!(compiled(&areas, Purges::Own).err(), Some(TooMuch::Windows));
    for &design in Name::ALL {
        played(&script(&areas[..16], Purges::Own), design);
    }
}

/// Lines of a trace with some of them changed.
fn mangled(text: &[u8], changes: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for &(at, how, byte) in changes {
        let at = at % bytes.len();
        match how % 4 {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// Reads anything; whatever it is, all of it is accounted for.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(mut reader) = Reader::open(bytes) else { return Ok(()) };
    let (mut found, mut damaged) = (Vec::new(), 0);
    for event in reader.by_ref() {
        match event {
            Ok(event) => found.push(event),
            Err(_) => damaged += 1,
        }
    }
    let account = reader.account();
    prop_assert!(account.adds_up());
    prop_assert_eq!((account.events, account.damaged), (found.len() as u64, damaged));
    let plain = reader.compression() == Compression::Plain;
    if plain {
        let lines = bytes.split_inclusive(|&byte| byte == b'\n').count() as u64;
        prop_assert_eq!(account.total, lines);
    }
    if let Ok(script) = compiled(&found, Purges::Trace) {
        played(&script, Name::Vmalloc);
    }
    Ok(())
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).expect("gzip");
    text
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48 * vmalloc_harness::env::effort() as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(vmalloc_harness::env::seed(1)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_traces_of_the_kernel_are_read_to_their_end(
        changes in proptest::collection::vec(any::<(usize, u8, u8)>(), 1..60),
    ) {
        check(&mangled(SHORT, &changes))?;
    }

    #[test]
    fn changed_traces_of_programs_are_read_to_their_end(
        changes in proptest::collection::vec(any::<(usize, u8, u8)>(), 1..60),
    ) {
        check(&mangled(&unpacked(PROGRAM), &changes))?;
    }

    #[test]
    fn changed_compressed_traces_are_read_to_their_end(
        which in 1_usize..5,
        changes in proptest::collection::vec(any::<(usize, u8, u8)>(), 1..4),
    ) {
        check(&mangled(ALL[which], &changes))?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        check(&bytes)?;
        check(&[b"# tracer: nop\n", &bytes[..]].concat())?;
    }
}
