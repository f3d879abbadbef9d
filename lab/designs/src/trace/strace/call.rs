//! The calls that move addresses: their arguments and results.

use crate::trace::account::Reason;
use crate::trace::event::{Kind, pages_of};
use crate::trace::fields::{check_room, number, page};

/// A call, whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
    pub(super) result: &'a str,
}

/// Returns true if [`kind`] knows the call.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "mmap" | "mmap2" | "munmap" | "mremap" | "mprotect" | "pkey_mprotect" | "brk")
}

/// Returns the effect of a call; `None` if it moved no addresses, or if its end is not known.
pub(super) fn kind(call: &Call<'_>) -> Result<Option<Kind>, Reason> {
    if call.result.starts_with('?') {
        return Ok(None);
    }
    let outcome = Outcome::of(call.result)?;
    let arguments = Arguments(call.arguments);
    let kind = match call.name {
        "mmap" | "mmap2" => map(arguments, outcome)?,
        "munmap" => unmap(arguments, outcome)?,
        "mremap" => remap(arguments, outcome)?,
        "mprotect" | "pkey_mprotect" => protect(arguments, outcome)?,
        "brk" => moved_break(arguments, outcome)?,
        _ => return Ok(None),
    };
    Ok(Some(kind))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Value(u64),
    Error,
}

impl Outcome {
    /// `0x7f0000000000`, `0`, or `-1 ENOMEM (Cannot allocate memory)`; a duration may follow, with
    /// `-T`.
    fn of(result: &str) -> Result<Self, Reason> {
        if result.starts_with("-1 E") {
            return Ok(Self::Error);
        }
        let (value, rest) = result.split_once(' ').unwrap_or((result, "<>"));
        let good = rest.trim().starts_with('<') && rest.trim().ends_with('>');
        if good { number(value, "result").map(Self::Value) } else { Err(Reason::Field("result")) }
    }

    /// The page of the result, if there is one.
    fn page(self) -> Result<Option<u64>, Reason> {
        match self {
            Self::Value(addr) => page(addr, "result").map(Some),
            Self::Error => Ok(None),
        }
    }
}

/// Arguments, of which those that matter come first: names of files, which may hold anything, come
/// later.
#[derive(Clone, Copy)]
struct Arguments<'a>(&'a str);

impl<'a> Arguments<'a> {
    fn word(self, index: usize, name: &'static str) -> Result<&'a str, Reason> {
        self.0.split(',').nth(index).map(str::trim).filter(|word| !word.is_empty()).ok_or(Reason::Field(name))
    }

    fn number(self, index: usize, name: &'static str) -> Result<u64, Reason> {
        match self.word(index, name)? {
            "NULL" => Ok(0),
            word => number(word, name),
        }
    }

    /// The page at an address and the pages of a length, as many as there are addresses.
    fn range(self, index: usize) -> Result<(u64, u64), Reason> {
        let start = page(self.number(index, "address")?, "address")?;
        let pages = pages_of(self.number(index + 1, "length")?);
        check_room(start, pages, "length")?;
        Ok((start, pages))
    }

    /// The pages of a length.
    fn pages(self, index: usize) -> Result<u64, Reason> {
        self.number(index, "length").map(pages_of)
    }
}

fn map(arguments: Arguments<'_>, outcome: Outcome) -> Result<Kind, Reason> {
    arguments.word(5, "offset")?;
    let pages = arguments.pages(1)?;
    let Some(start) = outcome.page()? else { return Ok(Kind::Failed { pages }) };
    check_room(start, pages, "length")?;
    Ok(Kind::Map { start, pages })
}

fn unmap(arguments: Arguments<'_>, outcome: Outcome) -> Result<Kind, Reason> {
    if outcome == Outcome::Error {
        return Ok(Kind::Failed { pages: 0 });
    }
    arguments.range(0).map(|(start, pages)| Kind::Unmap { start, pages })
}

/// With an old size of 0, or with `MREMAP_DONTUNMAP`, the old mapping stays.
fn remap(arguments: Arguments<'_>, outcome: Outcome) -> Result<Kind, Reason> {
    let to_pages = arguments.pages(2)?;
    let flags = arguments.word(3, "flags")?;
    let Some(to) = outcome.page()? else { return Ok(Kind::Failed { pages: to_pages }) };
    check_room(to, to_pages, "length")?;
    if arguments.pages(1)? == 0 || flags.contains("MREMAP_DONTUNMAP") {
        return Ok(Kind::Map { start: to, pages: to_pages });
    }
    let (from, from_pages) = arguments.range(0)?;
    Ok(Kind::Remap { from, from_pages, to, to_pages })
}

fn protect(arguments: Arguments<'_>, outcome: Outcome) -> Result<Kind, Reason> {
    arguments.word(2, "protection")?;
    let (start, pages) = (page(arguments.number(0, "address")?, "address"), arguments.pages(1)?);
    match (outcome, pages) {
        (Outcome::Error, _) => Ok(Kind::Failed { pages: 0 }),
        (_, pages) => start.map(|start| Kind::Protect { start, pages }),
    }
}

/// The result is where the heap ends now, and a refusal leaves it where it was.
fn moved_break(arguments: Arguments<'_>, outcome: Outcome) -> Result<Kind, Reason> {
    let wanted = arguments.number(0, "address")?;
    let Outcome::Value(end) = outcome else { return Ok(Kind::Failed { pages: 0 }) };
    Ok(match wanted {
        0 => Kind::BreakIs { end: pages_of(end) },
        _ if wanted == end => Kind::Break { end: pages_of(end) },
        _ => Kind::Failed { pages: 0 },
    })
}
