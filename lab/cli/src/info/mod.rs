//! `vmalloc info`: a small session on a live space, and what the space tells of it.

mod report;
mod session;

use crate::args::InfoOptions;
use crate::error::Failure;
use crate::machine::Machine;
use crate::output;
use report::Report;
use session::session;

/// Runs the command.
pub(crate) fn run(options: &InfoOptions, json: bool) -> Result<(), Failure> {
    let machine = Machine::new(options.machine)?;
    let look = || {
        let report = Report::new(&machine, options.machine.strategy);
        let text = if json { String::new() } else { report.text(&machine) };
        (report, text)
    };
    let (report, text) =
        session(&machine, look).map_err(|error| Failure::new(format!("the session was refused: {error}")))?;
    if let Some(complaint) = machine.check_whole().into_iter().next() {
        return Err(Failure::new(complaint));
    }
    output::tell("info", &report, &text, json)
}
