//! Filters of system calls (seccomp(2)), which play older kernels and sandboxes.

/// The means that a kernel or a sandbox lacks.
#[derive(Clone, Copy, PartialEq)]
pub enum Lacks {
    ProcessMadvise,
    GuardMarks,
    ProcessVmReadv,
    Userfaultfd,
    /// Both ways to ask the kernel for it: the call, and the file of a /proc that is mounted.
    AuxiliaryVector,
}

pub const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `jt` statements if the value loaded equals `k`, else `jf`.
const fn jump_if(k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k }
}

/// From here on the calls of this thread that need `what` fail, as they do on a kernel without it.
pub fn take_away(what: Lacks) {
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
        Lacks::Userfaultfd => refuse(libc::SYS_userfaultfd, libc::EPERM),
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
