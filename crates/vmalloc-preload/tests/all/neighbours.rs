//! Other people's libraries in the program: those that are preloaded as well, and stand in for
//! functions of the C library.

use crate::common::{done, library, plugin, program, run, seed};
use std::path::Path;
use std::process::Command;
use vmalloc_harness::{is_installed, not_run};

/// It found a thread that waited for itself: the hook of madvise(2) allocated while the library
/// held its locks.
#[test]
fn hooks_of_system_calls_may_allocate_large_blocks() {
    if !is_installed("timeout", "hooks_of_system_calls_may_allocate_large_blocks") {
        return;
    }
    let hooks = plugin("hooks.c");
    let preloaded = format!("{}:{}", hooks.display(), library().display());
    let (stress, seed) = (program("stress.c"), seed().to_string());
    let settings = [
        ("VMALLOC_THRESHOLD", "32K"),
        ("VMALLOC_BUDGET", "1M"),
        ("VMALLOC_THREAD", "1"),
        ("VMALLOC_GUARDS", "1"),
        ("VMALLOC_TRAP", "1"),
    ];
    for (name, value) in settings {
        // A thread that waits for itself does so for ever, with all signals blocked at the start.
        let words = ["--signal=KILL", "100", stress.to_str().unwrap(), "2", "400", "6", &seed];
        done(&run(Path::new("timeout"), &words, &[("LD_PRELOAD", &preloaded), (name, value)]));
    }
}

/// RDMA, MPI and drivers of GPUs do so with what devices write to. It found a child that aborted:
/// the kernel mapped glibc's blocks into the hole.
#[test]
fn attributes_of_a_block_end_with_it_and_children_without_it_go_on() {
    let attributes = program("attributes.c");
    for settings in [&[][..], &[("VMALLOC_THREAD", "1"), ("VMALLOC_GUARDS", "1")], &[("VMALLOC_TRAP", "1")]] {
        for name in ["left-out", "wiped", "not-dumped", "resized", "given-back", "many"] {
            done(&run(&attributes, &[name], settings));
        }
    }
}

/// Functions of the C library that the library may call.
///
/// The first ask the system: at the library's start, when glibc serves everything, or outside of
/// all locks. It calls those of the first line; Rust's standard library calls the others, as it
/// starts a thread, and to tell of a panic. The last three lines ask for nothing, or only the
/// dynamic loader, from the constructor.
const MAY_CALL: &str = "
    sigaction raise clock_gettime clock_nanosleep getpid process_vm_readv pthread_create pthread_detach pthread_join pthread_sigmask sysconf
    close fcntl fstat64 getcwd getenv getrandom gettid lseek64 mmap64 munmap open64 poll pthread_mutex_lock
    pthread_mutex_unlock pthread_once read readlink realpath stat64 statx syscall write writev abort dl_iterate_phdr
    program_invocation_short_name bcmp dladdr1 dlerror dlsym getauxval getcontext makecontext memcpy memmove memset
    pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize pthread_key_create pthread_key_delete pthread_self
    pthread_setspecific gnu_get_libc_version sigdelset sigfillset strlen swapcontext memcmp pthread_getspecific pthread_atfork strerror_r memchr";

#[test]
fn the_library_asks_the_system_by_no_function_that_others_replace() {
    const NAME: &str = "the_library_asks_the_system_by_no_function_that_others_replace";
    let symbols = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library()).output();
    let Ok(symbols) = symbols else { return not_run(NAME, "readelf is not installed") };
    let text = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let needed = text.lines().filter(|line| line.contains(" UND ")).filter_map(|line| {
        let (name, _) = line.split_once(" UND ")?.1.trim().split_once('@')?;
        Some(name.to_owned())
    });
    let needed: Vec<_> = needed.filter(|name| !name.starts_with('_')).collect();
    assert!(needed.iter().any(|name| name == "memcpy"), "{needed:?}");
    let may_call = |name: &&String| MAY_CALL.split_whitespace().any(|known| known == *name);
    let others: Vec<_> = needed.iter().filter(|name| !may_call(name)).collect();
    assert!(others.is_empty(), "ask the kernel itself instead, by rustix or `os/raw.rs`: {others:?}");
}
