//! `vmalloc top`: the spaces of another process, once a second.

mod picture;

use crate::args::TopOptions;
use crate::error::{Exit, Failure};
use crate::output;
use picture::Picture;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use vmalloc_inspect::{InspectError, Process, Target};

/// From one picture to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command.
pub(crate) fn run(options: &TopOptions, json: bool) -> Result<Exit, Failure> {
    let process = Process::open(options.pid).map_err(refused)?;
    let mut before = look(&process).map_err(refused)?;
    show(&before, options, json)?;
    if options.once {
        return Ok(Exit::Success);
    }
    loop {
        std::thread::sleep(INTERVAL);
        let mut now = match look(&process) {
            Ok(now) => now,
            // The program that was watched has ended, which is no failure.
            Err(error @ InspectError::Ended { .. }) => {
                output::note(&error.to_string());
                return Ok(Exit::Success);
            }
            Err(error) => return Err(refused(error)),
        };
        now.rates = Some(now.since(&before));
        show(&now, options, json)?;
        before = now;
    }
}

fn refused(error: InspectError) -> Failure {
    Failure::new(error.to_string())
}

fn look(process: &Process) -> Result<Picture, InspectError> {
    let taken = Instant::now();
    let target = Target::find(process)?;
    let tallies: Result<_, InspectError> =
        target.spaces()?.iter().map(|space| Ok(space.snapshot()?.tally())).collect();
    let frees = target.recorded_frees()?;
    let (pid, process) = (process.pid(), process.counters()?);
    Ok(Picture { pid, process, frees, rates: None, spaces: tallies?, taken })
}

fn show(picture: &Picture, options: &TopOptions, json: bool) -> Result<(), Failure> {
    let is_screen = !options.once && !json && std::io::stdout().is_terminal();
    let clear = if is_screen { CLEAR } else { "" };
    let text = format!("{clear}{}", picture.text(options.lines));
    output::tell("top", picture, &text, json)
}
