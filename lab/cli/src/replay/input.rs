//! Where traces come from, and what is read.

use crate::args::ReplayOptions;
use crate::error::Failure;
use crate::output;
use crate::progress::watched;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vmalloc_lab::replay::{Compiler, Script};
use vmalloc_lab::trace::{Account, Compression, Event, Reader, Synthetic};

/// Events between two signs of progress, where no bytes are read.
const SIGN: u64 = 1 << 16;
/// The made-up trace is the same each time.
const SEED: u64 = 0;

/// Where a trace comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Input {
    File(PathBuf),
    Stdin,
    /// Nowhere: it is made up, of so many events.
    Synthetic(u64),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Stdin => f.write_str("standard input"),
            Self::Synthetic(_) => f.write_str("synthetic"),
        }
    }
}

/// A trace that was read.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) format: &'static str,
    pub(super) compression: Compression,
    pub(super) lines: Account,
    pub(super) read_seconds: f64,
}

impl Input {
    /// All inputs that are named.
    pub(super) fn all(options: &ReplayOptions) -> Result<Vec<Self>, Failure> {
        let is_stdin = |file: &&PathBuf| file.as_os_str() == "-";
        let one = |file| if is_stdin(&file) { Self::Stdin } else { Self::File(file.into()) };
        match (options.synthetic, options.files.as_slice()) {
            (Some(events), []) => Ok(vec![Self::Synthetic(events)]),
            (None, []) => {
                Err(Failure::new("a trace is needed: a FILE, '-' for standard input, or --synthetic N"))
            }
            (None, files) if files.iter().filter(is_stdin).count() > 1 => {
                Err(Failure::new("standard input can be read once only"))
            }
            (None, files) => Ok(files.iter().map(one).collect()),
            (Some(_), _) => Err(Failure::new("--synthetic takes the place of a FILE")),
        }
    }

    /// Reads all of it once, and makes it ready for a replay with each kind of purges.
    pub(super) fn compile(&self, options: &ReplayOptions) -> Result<(Trace, Vec<Script>), Failure> {
        let compiler = |&purges: &_| match options.pressure {
            Some(calls) => Compiler::new(purges).pressure_every(calls),
            None => Compiler::new(purges),
        };
        let mut compilers: Vec<_> = options.purges.purges().iter().map(compiler).collect();
        let read = self.read(options.strict, |event| {
            let pushed = compilers.iter_mut().try_for_each(|compiler| compiler.push(event));
            pushed.map_err(|error| Failure::new(format!("{self}: {error}")))
        })?;
        Ok((read, compilers.into_iter().map(Compiler::finish).collect()))
    }

    /// Reads all of it, and gives each event to `take`.
    pub(super) fn read(
        &self,
        strict: bool,
        take: impl FnMut(&Event) -> Result<(), Failure> + Send,
    ) -> Result<Trace, Failure> {
        let start = Instant::now();
        let done = AtomicU64::new(0);
        // Relaxed: for people to look at.
        let so_far = || done.load(Ordering::Relaxed);
        let mut read = match self {
            Self::File(path) => {
                let file =
                    File::open(path).map_err(|error| self.complain(format!("can't be read: {error}")))?;
                let bytes = file.metadata().map_or(0, |data| data.len());
                let source = Counted { source: file, done: &done };
                watched("bytes read", bytes, &so_far, || self.read_from(source, strict, take))?
            }
            Self::Stdin => {
                let source = Counted { source: io::stdin(), done: &done };
                watched("bytes read", 0, &so_far, || self.read_from(source, strict, take))?
            }
            Self::Synthetic(events) => {
                watched("events made", *events, &so_far, || self.make(*events, &done, take))?
            }
        }?;
        read.read_seconds = seconds(start.elapsed());
        self.judge(&read.lines)?;
        Ok(read)
    }

    fn read_from(
        &self,
        source: impl Read,
        strict: bool,
        mut take: impl FnMut(&Event) -> Result<(), Failure>,
    ) -> Result<Trace, Failure> {
        let mut reader = Reader::open(source).map_err(|error| self.complain(error))?;
        for event in reader.by_ref() {
            match event {
                Ok(event) => take(&event)?,
                Err(error) if strict => return Err(Failure::new(format!("{self}: {error}")).of_input()),
                Err(_) => {}
            }
        }
        Ok(Trace {
            name: self.to_string(),
            format: reader.format().as_str(),
            compression: reader.compression(),
            lines: reader.account().clone(),
            read_seconds: 0.0,
        })
    }

    /// Refuses a trace without events, and says what a replay of it will not show.
    fn judge(&self, lines: &Account) -> Result<(), Failure> {
        let Account { events, total, damaged, spaces, .. } = *lines;
        if events == 0 {
            return Err(self.complain(format!("has no event: of {total} lines {damaged} can't be read")));
        }
        if damaged > events {
            let most = format!(
                "is read in part alone: of {total} lines {damaged} can't be read, {events} are events"
            );
            return Err(self.complain(most));
        }
        if spaces > 1 {
            output::note(&format!(
                "{self} has the calls of {spaces} address spaces, of processes or of programs one after the other; \
                 they are replayed in one, where one's mapping replaces another's and an exit frees nothing"
            ));
        }
        Ok(())
    }

    fn make(
        &self,
        events: u64,
        done: &AtomicU64,
        mut take: impl FnMut(&Event) -> Result<(), Failure>,
    ) -> Result<Trace, Failure> {
        let mut lines = Account::default();
        for (made, event) in (1..).zip(Synthetic::new(events, SEED)) {
            lines.event(&event);
            take(&event)?;
            if made % SIGN == 0 {
                // Relaxed: for people to look at.
                done.store(made, Ordering::Relaxed);
            }
        }
        Ok(Trace {
            name: self.to_string(),
            format: "synthetic",
            compression: Compression::Plain,
            lines,
            read_seconds: 0.0,
        })
    }

    /// Says what is wrong with the input.
    fn complain(&self, error: impl fmt::Display) -> Failure {
        Failure::new(format!("{self} {error}"))
    }
}

pub(super) fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// A source whose bytes are counted.
struct Counted<'a, R> {
    source: R,
    done: &'a AtomicU64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        // Relaxed: for people to look at.
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
