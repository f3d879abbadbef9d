//! A system call that the kernel lacks, played by a filter (seccomp(2)).

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// From here on `call` fails in this thread, as on a kernel without it.
pub fn take_away(call: libc::c_long) {
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let is_call = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER),
        libc::sock_filter { code: is_call, jt: 0, jf: 1, k: call as u32 },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a filter of that length; it only makes a call fail.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter),
        ]
    };
    assert_eq!(answers, [0, 0]);
}
