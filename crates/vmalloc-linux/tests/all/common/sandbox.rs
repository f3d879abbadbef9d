//! System calls answered by the test: a seccomp filter that asks a thread of the same process
//! (seccomp_unotify(2)).

use libc::{c_int, c_long};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND` of `linux/seccomp.h`, which are the
/// same on all architectures with the generic numbering.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;

/// A call that is about to be made.
pub struct Call {
    pub number: c_long,
    pub args: [u64; 6],
}

/// The fate of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The kernel does it.
    Go,
    /// It fails with this `errno`.
    Fail(c_int),
    /// It returns this without being made.
    Return(i64),
}

/// Runs `body` in a thread of its own, in which `answer` says what becomes of these `calls`. So it
/// does in the threads and the children that it creates. `answer` runs in the calling thread, which
/// is free to make them.
pub fn supervised<R: Send>(
    calls: &[c_long],
    answer: impl Fn(&Call) -> Answer,
    body: impl FnOnce() -> R + Send,
) -> R {
    thread::scope(|scope| {
        let (to, listeners) = mpsc::channel();
        let worker = scope.spawn(move || {
            to.send(listen(calls)).unwrap();
            body()
        });
        let listener = listeners.recv().unwrap();
        while !worker.is_finished() {
            if is_ready(&listener) {
                serve(&listener, &answer);
            }
        }
        // Where an answer panics, this fails the calls that wait for one, and the worker ends.
        drop(listener);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `body` as [`supervised`] does. Calls that are meant fail with `error` until `body` ends
/// that.
pub fn refused<R: Send>(
    calls: &[c_long],
    error: c_int,
    is_meant: impl Fn(&Call) -> bool,
    body: impl FnOnce(&Refusal) -> R + Send,
) -> R {
    let refusal = Refusal(AtomicBool::new(true));
    let answer = |call: &Call| match refusal.0.load(Ordering::SeqCst) && is_meant(call) {
        true => Answer::Fail(error),
        false => Answer::Go,
    };
    supervised(calls, answer, || body(&refusal))
}

/// A refusal of calls that may end.
pub struct Refusal(AtomicBool);

impl Refusal {
    /// Has no call refused any more.
    pub fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// From here on `call` fails in this thread, as on a kernel without it.
pub fn take_away(call: c_long) {
    filter(&[call], libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0);
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Puts the calling thread under a filter that does so with these `calls`, and nothing with others.
fn filter(calls: &[c_long], fate: u32, flags: libc::c_ulong) -> c_int {
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER)];
    for (nth, call) in calls.iter().enumerate() {
        let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let to_the_end = (calls.len() - nth) as u8;
        program.push(libc::sock_filter { code: equal, jt: to_the_end, jf: 0, k: *call as u32 });
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    program.push(statement(libc::BPF_RET | libc::BPF_K, fate));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a filter of that length; it only makes calls fail, or asks the thread that listens.
    let answer = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    assert!(answer >= 0, "{}", std::io::Error::last_os_error());
    answer as c_int
}

/// Puts the calling thread under a filter that asks about `calls`; the descriptor at which it does.
fn listen(calls: &[c_long]) -> OwnedFd {
    let fd = filter(calls, libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the kernel has just opened it, for this alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Waits a little for a call.
fn is_ready(listener: &OwnedFd) -> bool {
    let mut wanted = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: room for one answer.
    unsafe { libc::poll(&mut wanted, 1, 5) == 1 && wanted.revents & libc::POLLIN != 0 }
}

fn serve(listener: &OwnedFd, answer: &impl Fn(&Call) -> Answer) {
    // SAFETY: a struct of numbers, which the kernel wants to be zero.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: room for what the kernel writes. Fails where the caller has gone since.
    if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut asked) } != 0 {
        return;
    }
    let call = Call { number: asked.data.nr.into(), args: asked.data.args };
    let (val, error, flags) = match answer(&call) {
        Answer::Go => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        Answer::Fail(errno) => (0, -errno, 0),
        Answer::Return(value) => (value, 0, 0),
    };
    let mut response = libc::seccomp_notif_resp { id: asked.id, val, error, flags };
    // SAFETY: an answer to the call just received. Fails where the caller has gone since.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw mut response) };
}
