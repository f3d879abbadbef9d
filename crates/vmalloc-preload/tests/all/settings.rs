//! Settings, and machines that refuse: the program runs in any case.

use crate::common::{done, library, program, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use vmalloc_harness::{is_installed, not_run};

#[test]
fn a_setting_that_makes_no_sense_costs_a_line_and_the_default_is_taken() {
    let plain = program("limits.c");
    let wrong = [
        ("VMALLOC_THRESHOLD", "12"),
        ("VMALLOC_THRESHOLD", "many"),
        ("VMALLOC_BUDGET", "99999999999999999999"),
        ("VMALLOC_DECAY", ""),
        ("VMALLOC_RESERVE", "7"),
        ("VMALLOC_TRAP", "yes"),
    ];
    for (name, value) in wrong {
        let said = done(&run(&plain, &["plain"], &[(name, value)]));
        let expected = format!("vmalloc: {name}={value} makes no sense; the default is taken\n");
        assert_eq!(said, expected);
    }
}

#[test]
fn a_setting_that_is_misspelt_costs_a_line() {
    let plain = program("limits.c");
    let said = done(&run(&plain, &["plain"], &[("VMALLOC_TRESHOLD", "64K")]));
    assert_eq!(said, "vmalloc: VMALLOC_TRESHOLD is no setting; it is ignored\n");
    let settings = [("VMALLOC_MMAP_KEEP", "1M"), ("MALLOC_ARENA_MAX", "2")];
    assert_eq!(done(&run(&plain, &["plain"], &settings)), "");
}

/// Checks a line of counts.
fn check_counts(line: &str, program: &str) {
    let parts = ["large calls", "blocks in use", "cached", "peak of the program"];
    assert!(line.starts_with("vmalloc: ") && line.lines().count() == 1, "{line:?}");
    assert!(line.contains(&format!(" ({program}): ")), "{line:?}");
    assert!(parts.iter().all(|part| line.contains(part)), "{line:?}");
}

/// GNU's programs close their stderr before the destructors of libraries run.
#[test]
fn the_line_of_counts_comes_from_programs_that_close_their_stderr() {
    if is_installed("sort", "the_line_of_counts_comes_from_programs_that_close_their_stderr") {
        let output = run(Path::new("sort"), &["/proc/self/status"], &[("VMALLOC_STATS", "1")]);
        check_counts(&String::from_utf8_lossy(&output.stderr), "sort");
    }
    let closed = program("stats.c");
    let output = run(&closed, &["reused"], &[("VMALLOC_STATS", "1")]);
    assert_eq!(done(&output), "", "another file has the number of the descriptor");
}

#[test]
fn the_line_of_counts_goes_to_a_file_of_each_process() {
    let folder = std::env::temp_dir().join(format!("vmalloc-stats-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("%p.%x");
    let output = run(&program("stats.c"), &["forked"], &[("VMALLOC_STATS", path.to_str().unwrap())]);
    assert_eq!(done(&output), "");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in &files {
        let line = fs::read_to_string(file).unwrap();
        let pid = line.split_whitespace().nth(1).unwrap();
        assert!(file.ends_with(format!("{pid}.%x")), "{file:?}: {line}");
        assert!(line.contains(" large calls") && line.lines().count() == 1, "{line}");
    }
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(files.len(), 2, "the program and its child");
}

/// glibc alone answers 1 each time. No drain thread gives something back meanwhile.
#[test]
fn a_trim_that_gives_nothing_back_answers_so() {
    let trim = program("trim.c");
    done(&run(&trim, &["ours"], &[("VMALLOC_START", "0")]));
    done(&run(&trim, &[], &[("VMALLOC_START", "1T")]));
}

#[test]
fn units_are_understood() {
    let plain = program("limits.c");
    for value in ["65536", "64K", "64k", "1M"] {
        let said = done(&run(&plain, &["plain"], &[("VMALLOC_THRESHOLD", value), ("VMALLOC_STATS", "1")]));
        assert!(said.contains("blocks in use"), "{value}: {said}");
    }
}

#[test]
fn the_largest_numbers_are_understood() {
    let most = u64::MAX.to_string();
    let said =
        done(&run(&program("limits.c"), &["plain"], &[("VMALLOC_DECAY", &most), ("VMALLOC_BUDGET", "64T")]));
    assert_eq!(said, "");
}

#[test]
fn a_program_with_little_large_memory_never_opens_a_heap() {
    let output = run(&program("misuse.c"), &["none"], &[("VMALLOC_START", "1G"), ("VMALLOC_STATS", "1")]);
    assert!(done(&output).contains("all of malloc was glibc's"));
}

/// Returns what a mode of `limits.c` counts.
fn count(mode: &str, settings: &[(&str, &str)]) -> u32 {
    let output = run(&program("limits.c"), &[mode], settings);
    done(&output);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a count")
}

/// 40 blocks that are filled one after the other, on any CPUs.
#[test]
fn new_blocks_of_a_size_that_is_filled_get_memory_at_once_unless_switched_off() {
    let new = count("new", &[]);
    assert!((10..=38).contains(&new), "{new}");
    assert_eq!(count("new", &[("VMALLOC_POPULATE", "0")]), 0);
}

/// 10 MB of small blocks: the heap grows by a MiB at a time, or as the environment says.
#[test]
fn the_heap_of_small_blocks_grows_in_large_steps_unless_glibc_is_tuned() {
    let moves = |settings: &[_]| count("heap", settings);
    assert!((5..=11).contains(&moves(&[])));
    let tuned = [
        ("MALLOC_TOP_PAD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.top_pad=131072"),
        ("VMALLOC_THRESHOLD", "256K"),
    ];
    for setting in tuned {
        assert!(moves(&[setting]) > 40, "{setting:?}");
    }
    assert!(moves(&[("GLIBC_TUNABLES", "glibc.rtld.nns=4")]) <= 11, "no matter of malloc");
}

#[test]
fn a_limit_on_addresses_leaves_the_program_to_glibc_with_one_line() {
    let said = done(&run(&program("limits.c"), &["addresses"], &[]));
    assert!(said.contains("runs on glibc's malloc alone") && said.lines().count() == 1, "{said}");
}

#[test]
fn an_idle_program_keeps_little_of_a_burst() {
    let idle = program("idle.c");
    for (mode, settings) in [
        ("waits", &[("VMALLOC_THREAD", "1"), ("VMALLOC_DECAY", "10")][..]),
        ("calls", &[("VMALLOC_DECAY", "5")]),
        ("rests", &[("VMALLOC_DECAY", "0")]),
    ] {
        assert_eq!(done(&run(&idle, &[mode], settings)), "", "{mode}");
    }
}

/// As judges, sandboxes and test harnesses do: it found a program without a thread more.
#[test]
fn a_program_may_limit_its_own_addresses() {
    for mode in ["limits-itself", "limits-itself-often", "is-limited"] {
        for settings in [&[][..], &[("VMALLOC_GUARDS", "1")], &[("VMALLOC_THREAD", "1")]] {
            assert_eq!(done(&run(&program("limited.c"), &[mode], settings)), "", "{mode}");
        }
    }
}

#[test]
fn a_limit_on_data_leaves_the_program_to_glibc_with_one_line() {
    for (mode, line) in [("data-before", "malloc alone"), ("data-after", "from now on")] {
        let said = done(&run(&program("limited.c"), &[mode], &[]));
        assert!(said.contains(line) && said.lines().count() == 1, "{mode}: {said}");
    }
}

#[test]
fn locked_memory_is_that_of_glibc_with_one_line() {
    const NAME: &str = "locked_memory_is_that_of_glibc_with_one_line";
    for (mode, line) in [("locks-before", "malloc alone"), ("locks-after", "from now on")] {
        let output = run(&program("limited.c"), &[mode], &[]);
        if String::from_utf8_lossy(&output.stdout).contains("may not lock") {
            return not_run(NAME, "this user may not lock so much");
        }
        let said = done(&output);
        assert!(said.contains(line) && said.lines().count() == 1, "{mode}: {said}");
    }
}

#[test]
fn a_program_without_proc_runs() {
    // SAFETY: no conditions.
    if unsafe { libc::geteuid() } != 0 {
        return not_run("a_program_without_proc_runs", "only root may chroot");
    }
    assert_eq!(done(&run(&program("limits.c"), &["chroot"], &[])), "");
}

/// The dynamic loader takes no preloaded library for such a program, so this one is linked to it.
#[test]
fn a_program_with_more_rights_than_its_caller_has_the_defaults() {
    const NAME: &str = "a_program_with_more_rights_than_its_caller_has_the_defaults";
    const NOBODY: u32 = 65_534;
    // SAFETY: no conditions.
    if unsafe { libc::geteuid() } != 0 {
        return not_run(NAME, "only root may make programs for others");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/secure.c");
    let program = std::env::temp_dir().join(format!("vmalloc-secure-{}", std::process::id()));
    let library = library();
    let folder = library.parent().unwrap();
    let mut compile = Command::new("cc");
    compile.arg(source).args(["-fno-builtin", "-Wl,--no-as-needed"]).arg(&library);
    compile.arg(format!("-Wl,-rpath,{}", folder.display())).arg("-o").arg(&program);
    assert!(compile.status().unwrap().success());
    let run = |mode, user| {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(&program);
        command.env("VMALLOC_STATS", "1").env("VMALLOC_THRESHOLD", "nonsense").uid(user);
        let output = command.output().unwrap();
        (done(&output), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (complaint, said) = run(0o755, 0);
    assert!(complaint.contains("makes no sense") && complaint.contains("blocks in use"), "{complaint}");
    assert_eq!(said, "the rights of the caller\ndone\n");
    let (complaint, said) = run(0o4755, NOBODY);
    fs::remove_file(&program).unwrap();
    if said.starts_with("the rights") {
        return not_run(NAME, format_args!("{} is mounted without setuid", program.display()));
    }
    assert_eq!((complaint.as_str(), said.as_str()), ("", "more rights\ndone\n"));
}
