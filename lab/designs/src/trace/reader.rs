//! A trace from any source, decompressed and told apart by its content.

use super::account::{Account, Damage, Known, Reason};
use super::detect::Format;
use super::event::Event;
use super::ftrace;
use super::lines::Lines;
use super::strace::Strace;
use std::io::{self, Read};
use vmalloc_inspect::program::decompress::{self, Compression};
use vmalloc_inspect::program::text::{self, Margin, Source};

/// Why a source is not read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The source fails before anything is read.
    #[error("can't be read: {0}")]
    Io(#[from] io::Error),
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// A known file that is no trace.
    #[error("is {0}")]
    Foreign(&'static str),
    /// Nothing in it looks like a trace; its first line.
    #[error("has no format that is known: neither ftrace nor strace; it begins with '{0}'")]
    Unknown(String),
}

/// A trace. As an iterator it gives its events, and damage between them.
pub struct Reader<'a> {
    compression: Compression,
    format: Format,
    margin: Margin,
    account: Account,
    body: Body<'a>,
}

enum Body<'a> {
    Ftrace(Lines<Source<'a>>),
    Strace(Lines<Source<'a>>, Strace),
}

impl<'a> Reader<'a> {
    /// Begins.
    ///
    /// # Errors
    /// [`OpenError`] when nothing can be read, or it is not a trace.
    pub fn open(source: impl Read + 'a) -> Result<Self, OpenError> {
        let (compression, source) = decompress::open(source)?;
        let (head, source) = text::peek(source)?;
        let (format, margin) = Format::of(&head)?;
        let body = match format {
            Format::Ftrace => Body::Ftrace(Lines::new(source)),
            Format::Strace => Body::Strace(Lines::new(source), Strace::default()),
        };
        Ok(Self { compression, format, margin, account: Account::default(), body })
    }

    /// How it was compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Its format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the counts so far, which are complete once the iterator has ended.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Event, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let (account, margin) = (&mut self.account, self.margin);
        match &mut self.body {
            Body::Ftrace(lines) => next_of(lines, account, |line| ftrace::line(margin.strip(line))),
            Body::Strace(lines, strace) => {
                let event = next_of(lines, account, |line| strace.line(margin.strip(line)));
                account.spaces = strace.spaces();
                event
            }
        }
    }
}

/// The next event or damage of a text; what else there is, is counted.
fn next_of(
    lines: &mut Lines<Source<'_>>,
    account: &mut Account,
    mut read: impl FnMut(&str) -> Result<Result<Event, Known>, Reason>,
) -> Option<Result<Event, Damage>> {
    loop {
        match lines.next()?.and_then(&mut read) {
            Ok(Ok(event)) => {
                account.event(&event);
                return Some(Ok(event));
            }
            Ok(Err(known)) => account.known(known),
            Err(reason) => {
                let damage = Damage { line: lines.number(), reason };
                account.damage(&damage);
                return Some(Err(damage));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmalloc_inspect::program::text::Failed;

    const FREE: &str =
        "  a-1 [000] ..... 1.0: free_vmap_area_noflush: va_start=0x1000 nr_lazy=7 nr_lazy_max=1\n";

    #[test]
    fn every_line_is_one_thing() {
        let text = format!(
            "# tracer: nop\n{FREE}what\n  a-1 [000] ..... 1.0: other: x\n{FREE}\nCPU:1 [LOST 5 EVENTS]\n"
        );
        let mut reader = Reader::open(text.as_bytes()).expect("a trace");
        assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 2);
        let damage = Damage { line: 3, reason: Reason::Strange };
        let expected = Account {
            total: 7,
            events: 2,
            kinds: reader.account().kinds.clone(),
            headers: 2,
            other: 2,
            damaged: 1,
            first_damages: vec![damage],
            lost: 5,
            spaces: 0,
        };
        assert_eq!(reader.account(), &expected);
        assert!(reader.account().adds_up());
    }

    #[test]
    fn failing_source_is_damage_after_its_events() {
        let source = FREE.as_bytes().chain(Failed(Some(io::Error::other("gone"))));
        let read: Vec<_> = Reader::open(source).expect("a trace").collect();
        assert!(read[0].is_ok());
        let reason = Reason::Unreadable("gone".into());
        assert_eq!(read[1], Err(Damage { line: 2, reason }));
        assert_eq!(read.len(), 2);
        assert!(matches!(Reader::open(Failed(Some(io::Error::other("gone")))), Err(OpenError::Io(_))));
    }
}
