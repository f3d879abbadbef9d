//! Older kernels and sandboxes, played by a seccomp filter: what they refuse is done by other
//! means.

use crate::common::*;
use vmalloc::ReadNofault;
use vmalloc_linux::{BatchAdvise, GuardMeans, Linux, LinuxOptions, ReserveError};

const SPAN: usize = 1 << 30;

#[derive(Clone, Copy, PartialEq)]
enum Lacks {
    ProcessMadvise,
    GuardMarks,
    ProcessVmReadv,
    /// Both ways to ask the kernel for it: the call, and the file of a /proc that is mounted.
    AuxiliaryVector,
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `jt` statements if the value loaded equals `k`, else `jf`.
const fn jump_if(k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k }
}

/// From here on the calls of this thread that need `what` fail, as they do on a kernel without it.
fn take_away(what: Lacks) {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    /// The third argument of madvise(2), its lower half.
    const ADVICE: u32 = FIRST + 16;
    /// The first argument of any call, its lower half.
    const FIRST: u32 = std::mem::offset_of!(libc::seccomp_data, args) as u32;
    /// The older call, where the architecture has it.
    #[cfg(target_arch = "x86_64")]
    const OPEN: libc::c_long = libc::SYS_open;
    #[cfg(not(target_arch = "x86_64"))]
    const OPEN: libc::c_long = libc::SYS_openat;
    /// prctl(2) on Linux 6.4; the crate libc does not have it.
    const PR_GET_AUXV: u32 = 0x4155_5856;
    let allow = statement(RETURN, libc::SECCOMP_RET_ALLOW);
    let fail = |errno: i32| statement(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32);
    let refuse = |call: libc::c_long, errno| {
        vec![statement(LOAD, NUMBER), jump_if(call as u32, 0, 1), fail(errno), allow]
    };
    let mut program = match what {
        Lacks::ProcessMadvise => refuse(libc::SYS_process_madvise, libc::ENOSYS),
        Lacks::ProcessVmReadv => refuse(libc::SYS_process_vm_readv, libc::EPERM),
        Lacks::GuardMarks => vec![
            statement(LOAD, NUMBER),
            jump_if(libc::SYS_madvise as u32, 0, 4),
            statement(LOAD, ADVICE),
            jump_if(102, 1, 0),
            jump_if(103, 0, 1),
            fail(libc::EINVAL),
            allow,
        ],
        Lacks::AuxiliaryVector => vec![
            statement(LOAD, NUMBER),
            jump_if(OPEN as u32, 5, 0),
            jump_if(libc::SYS_openat as u32, 4, 0),
            jump_if(libc::SYS_prctl as u32, 0, 4),
            statement(LOAD, FIRST),
            jump_if(PR_GET_AUXV, 0, 2),
            fail(libc::EINVAL),
            fail(libc::ENOENT),
            allow,
        ],
    };
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a filter of that length; it only makes calls fail.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter),
        ]
    };
    assert_eq!(answers, [0, 0]);
}

/// Maps, fills and purges many scattered ranges.
fn purge_scattered(linux: &Linux) {
    let ranges: Vec<_> = (0..40).map(|index| pages(linux, index * 8, 3)).collect();
    for range in &ranges {
        map(linux, *range);
        assert_reads(linux, *range, 0);
        fill(linux, *range, 1);
    }
    linux.do_unmap(&ranges).unwrap();
    ranges.iter().for_each(|range| assert_traps(linux, *range));
}

#[test]
fn without_process_madvise_ranges_are_purged_one_by_one() {
    in_own_process(|| {
        take_away(Lacks::ProcessMadvise);
        let linux = Linux::reserve(LinuxOptions::new()).unwrap();
        assert_eq!(linux.batch_advise(), BatchAdvise::Loop);
        purge_scattered(&linux);

        let insisting = Linux::reserve(LinuxOptions::new().batch_advise(BatchAdvise::PidfdSelf)).unwrap_err();
        let ReserveError::Unsupported { code: libc::ENOSYS, .. } = insisting else { panic!("{insisting:?}") };
    });
}

#[test]
fn without_guard_marks_guards_are_by_mprotect() {
    in_own_process(|| {
        take_away(Lacks::GuardMarks);
        let linux = Linux::reserve(LinuxOptions::new()).unwrap();
        assert_eq!(linux.guard_means(), GuardMeans::Mprotect);
        purge_scattered(&linux);

        let insisting = Linux::reserve(LinuxOptions::new().guard_means(GuardMeans::PteMarkers)).unwrap_err();
        assert_eq!(insisting.to_string(), "this kernel refuses madvise(MADV_GUARD_INSTALL) (errno 22)");
    });
}

/// It found a panic on Linux 6.1 without /proc: the size of pages was read from there.
#[test]
fn a_space_opens_where_no_file_tells_the_auxiliary_vector() {
    in_own_process(|| {
        take_away(Lacks::AuxiliaryVector);
        purge_scattered(&Linux::reserve(LinuxOptions::new()).unwrap());
    });
}

/// A sandbox that is entered after the span was reserved.
#[test]
fn what_is_refused_later_is_done_by_other_means() {
    in_own_process(|| {
        let platforms: Vec<_> = GuardMeans::all()
            .flat_map(|guards| BatchAdvise::all().map(move |vectors| (guards, vectors)))
            .filter_map(|(guards, vectors)| reserve(SPAN, guards, vectors))
            .collect();
        take_away(Lacks::ProcessMadvise);
        platforms.iter().for_each(purge_scattered);
    });
}

/// As daemons do; a descriptor of the platform is among the closed ones.
#[test]
fn a_program_may_close_all_descriptors() {
    in_own_process(|| {
        let Some(linux) = reserve(SPAN, GuardMeans::PteMarkers, BatchAdvise::Pidfd) else { return };
        purge_scattered(&linux);
        // SAFETY: this process was made for it.
        unsafe { process::close_from(3) };
        purge_scattered(&linux);
        in_forked_child(|| {
            purge_scattered(&linux);
            true
        });
    });
}

#[test]
fn without_process_vm_readv_peeking_goes_through_a_pipe() {
    in_own_process(|| {
        let linux = Linux::reserve(LinuxOptions::new()).unwrap();
        let area = pages(&linux, 3, 2);
        map(&linux, area);
        fill(&linux, area, 1);
        take_away(Lacks::ProcessVmReadv);
        let mut to = [9; 3 * 4096];
        assert_eq!(linux.read_nofault(page_ptr(&linux, area.start()).addr() + 5, &mut to), 2 * 4096 - 5);
        assert_eq!((to[0], to[4096 - 5], to[2 * 4096 - 5]), (0, 1, 9));
        assert_eq!(linux.read_nofault(page_ptr(&linux, area.end()).addr(), &mut to), 0);
    });
}
