//! Handlers of forks, installed once in a process.

use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

/// The state of the handlers: [`NO`], [`YES`], or the number of the process in which a thread
/// installs them.
pub(super) struct Installed(AtomicI32);

/// No thread has begun to install them.
const NO: i32 = 0;
/// They are installed. No process has this number.
const YES: i32 = -1;

impl Installed {
    pub(super) const fn new() -> Self {
        Self(AtomicI32::new(NO))
    }

    /// For a handler: it runs, so it is installed, whether or not the thread that installs it knows
    /// already. Without this, a child of that moment would install the handlers twice.
    pub(super) fn confirm(&self) {
        // Relaxed: a flag. Nothing else is published by it.
        self.0.store(YES, Ordering::Relaxed);
    }

    /// Calls `install`, unless the handlers are installed. Waits while another thread of this
    /// process, which is `process`, installs them: the caller may fork right after this. A thread
    /// of another process was left behind by a fork, and this process installs them itself.
    pub(super) fn ensure(
        &self,
        process: i32,
        install: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        loop {
            // Relaxed, here and below: as in `confirm`. The C library orders what it has installed
            // by locks of its own.
            let found = self.0.load(Ordering::Relaxed);
            if found == YES {
                return Ok(());
            }
            if found == process {
                std::thread::yield_now();
            } else if self.0.compare_exchange(found, process, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        let outcome = install();
        self.0.store(if outcome.is_ok() { YES } else { NO }, Ordering::Relaxed);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    #[test]
    fn a_second_thread_waits_for_the_one_that_installs() {
        let installed = Installed::new();
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            let install = || {
                scope.spawn(|| done.send(installed.ensure(7, || panic!("installed twice"))));
                let early = is_done.recv_timeout(Duration::from_millis(50));
                assert_eq!(early, Err(RecvTimeoutError::Timeout), "handlers are not installed yet");
                Ok(())
            };
            assert_eq!(installed.ensure(7, install), Ok(()));
            assert_eq!(is_done.recv(), Ok(Ok(())));
        });
    }

    #[test]
    fn a_child_installs_them_unless_its_fork_ran_them() {
        for runs in [false, true] {
            let installed = Installed::new();
            let mut in_child = 0;
            let install = || {
                if runs {
                    installed.confirm();
                }
                // What the child of a fork at this moment does.
                let child = Installed(AtomicI32::new(installed.0.load(Ordering::Relaxed)));
                let install = || {
                    in_child += 1;
                    Ok(())
                };
                child.ensure(8, install).unwrap();
                child.ensure(8, || panic!("installed twice")).unwrap();
                Ok(())
            };
            installed.ensure(7, install).unwrap();
            assert_eq!(in_child, u32::from(!runs));
        }
    }

    #[test]
    fn refused_handlers_are_tried_again() {
        let installed = Installed::new();
        assert_eq!(installed.ensure(7, || Err(Errno::NOMEM)), Err(Errno::NOMEM));
        assert_eq!(installed.ensure(7, || Ok(())), Ok(()));
        assert_eq!(installed.ensure(7, || panic!("installed twice")), Ok(()));
    }
}
