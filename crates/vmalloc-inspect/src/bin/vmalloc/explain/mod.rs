//! `vmalloc explain`: what an address is to a space in another process, or in a core dump.

mod story;

use crate::args::ExplainOptions;
use crate::error::{Exit, Failure};
use crate::{input, output};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use story::story;
use vmalloc_inspect::program::decompress::{self, Compression};
use vmalloc_inspect::{CoreDump, Explanation, InspectError, Process, Source, Target};

/// Bytes that are unpacked at a time: a number, and no page size.
const PAGE: u64 = 4096;

/// The answer as JSON.
#[derive(Serialize)]
struct Report<'a> {
    target: &'a str,
    recorded_frees: Option<u64>,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// Runs the command.
pub(crate) fn run(options: &ExplainOptions, json: bool) -> Result<Exit, Failure> {
    let addr = options.address;
    let is_dump = options.target.parse::<i32>().is_err();
    let source = open(&options.target)?;
    let (explanation, recorded_frees) =
        look(&*source, addr).map_err(|error| Failure::new(error.to_string()))?;
    if let Some(cut) = source.cut() {
        output::note(&cut.to_string());
    }
    let report = Report { target: &options.target, recorded_frees, explanation: &explanation };
    output::tell("explain", &report, &story(&explanation, recorded_frees, is_dump), json)?;
    Ok(Exit::of(explanation.place.is_some() || explanation.freed.is_some()))
}

/// Returns the answer, and how many frees were recorded so far, if any were.
fn look(source: &dyn Source, addr: u64) -> Result<(Explanation, Option<u64>), InspectError> {
    let target = Target::find(source)?;
    Ok((target.explain(addr)?, target.recorded_frees()?))
}

/// Opens the process of that number, or the core dump of that name, compressed or not.
fn open(target: &str) -> Result<Box<dyn Source>, Failure> {
    let told = |error: InspectError| Failure::new(error.to_string());
    if let Ok(pid) = target.parse() {
        return Ok(Box::new(Process::open(pid).map_err(told)?));
    }
    let path = Path::new(target);
    match unpacked(path).map_err(|error| input::unreadable(path, &error))? {
        Some(file) => {
            let dump = CoreDump::of(file);
            let refused = |why| told(InspectError::NotACore { path: target.to_owned(), why });
            Ok(Box::new(dump.map_err(refused)?))
        }
        None => Ok(Box::new(CoreDump::open(path).map_err(told)?)),
    }
}

/// Unpacks a compressed file into one that has no name, in the folder of temporary files: memory is
/// read from it at any place. Pages of zeros take no room there. `None` of one that is not
/// compressed, or not there.
fn unpacked(path: &Path) -> io::Result<Option<File>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let (compression, mut source) = decompress::open(file)?;
    if compression == Compression::Plain {
        return Ok(None);
    }
    let unpacked = tempfile::tempfile()?;
    let (mut at, mut page) = (0, Vec::new());
    while source.by_ref().take(PAGE).read_to_end(&mut page)? > 0 {
        if page.iter().any(|byte| *byte != 0) {
            unpacked.write_all_at(&page, at)?;
        }
        at += page.len() as u64;
        page.clear();
    }
    unpacked.set_len(at)?;
    Ok(Some(unpacked))
}
