//! Progress on stderr, for people who wait longer than a second.

use crate::error::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The time after which people begin to wonder.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the bar is drawn.
const PERIOD: Duration = Duration::from_millis(100);

/// Work that is waited for.
pub(crate) struct Wait<'a> {
    /// The things that are counted, in plural.
    pub(crate) what: &'static str,
    /// How many of it there will be.
    pub(crate) all: u64,
    /// How many of it are done, told how much time has passed.
    pub(crate) done: &'a dyn Fn(Duration) -> u64,
    /// How long to wait at most.
    pub(crate) limit: Option<Duration>,
}

impl Wait<'_> {
    /// Waits until every sender of `finished` is gone or the time is over, and shows how far it has
    /// come.
    pub(crate) fn wait(&self, finished: &Receiver<()>) {
        let start = Instant::now();
        let mut bar = None;
        while let Some(blocking) = self.left(start) {
            if finished.recv_timeout(blocking) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if start.elapsed() >= PATIENCE && std::io::stderr().is_terminal() {
                let bar = bar.get_or_insert_with(|| self.bar().with_elapsed(start.elapsed()));
                bar.set_position((self.done)(start.elapsed()));
                // The time that passed is news too.
                bar.tick();
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    /// How long to wait until the next look; `None` when the time is over.
    fn left(&self, start: Instant) -> Option<Duration> {
        let left = self.limit.map_or(PERIOD, |limit| limit.saturating_sub(start.elapsed()));
        (!left.is_zero()).then(|| left.min(PERIOD))
    }

    fn bar(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(self.all), ProgressDrawTarget::stderr());
        let template = format!("{{bar:40}} {{pos}}/{{len}} {}, {{elapsed}} elapsed", self.what);
        match ProgressStyle::with_template(&template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

/// Does `work` in a thread, and shows how far it has come: `done` of `all`, called `what`.
pub(crate) fn watched<T: Send>(
    what: &'static str,
    all: u64,
    done: &(dyn Fn() -> u64 + Sync),
    work: impl FnOnce() -> T + Send,
) -> Result<T, Failure> {
    thread::scope(|scope| {
        let (sender, finished) = mpsc::channel();
        let work = move || {
            // Dropped at the end, which is what the other side waits for.
            let _sender = sender;
            work()
        };
        let thread = thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Failure::new(format!("can't start a thread: {error}")))?;
        Wait { what, all, done: &|_| done(), limit: None }.wait(&finished);
        thread.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}
