//! Progress on stderr, for people who wait longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long nobody wonders.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the bar is drawn.
const PERIOD: Duration = Duration::from_millis(100);

/// Waits until every sender of `finished` is gone, and shows how many of `runs` are `done`.
pub(super) fn wait(finished: &Receiver<()>, done: &AtomicU64, runs: u64) {
    let start = Instant::now();
    let mut bar = None;
    while finished.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        if start.elapsed() >= PATIENCE && std::io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(|| shown(runs).with_elapsed(start.elapsed()));
            bar.set_position(done.load(Ordering::Relaxed));
            // The time that passed is news too.
            bar.tick();
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn shown(runs: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:40} {pos}/{len} runs of a case, {elapsed} elapsed") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
