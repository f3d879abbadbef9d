//! The text of `strace -f -e trace=mmap,munmap,mremap,mprotect,brk` on programs.
//!
//! ```text
//!  6517  1795256477.536862 brk(NULL)       = 0x55f70ae0a000
//!  6517  1795256477.539302 mmap(0x7fb4e69bf000, 1400832, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_FIXED, 3, 0x26000) = 0x7fb4e69bf000
//!  6518  1795256477.539804 munmap(0x7fb4e6b7b000, 47667 <unfinished ...>
//!  6517  1795256477.540808 mmap(NULL, 1099511627776, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = -1 ENOMEM (Cannot allocate memory)
//!  6518  1795256477.540811 <... munmap resumed>) = 0
//!  6518  1795256477.540815 +++ exited with 0 +++
//! ```
//!
//! - The thread is missing without `-f`, or written `[pid 6517]`; the time (`-r`, `-t`, `-tt`, `-ttt`, and both `-t` and
//!   `-r`) may be missing. Times of day and times between lines say nothing about when: such events have none.
//! - The result stands behind the last `= `. A size is rounded up to pages, as the call does.
//! - A call of another thread may come between the halves of one. What is unmapped can be mapped again before the second
//!   half is printed: `munmap` is an event at its first half, all others, whose results are needed, at their second. The
//!   other half is a known line.
//! - Exits, signals, notes of strace and other calls are known lines.
//! - A log may have the calls of several processes, each in a space of its own. The spaces are
//!   counted ([`spaces`]), and their addresses are not told apart.

mod call;
mod prefix;
mod spaces;

use super::account::{Known, Reason};
use super::event::{Event, Kind};
use call::Call;
use prefix::Prefix;
use regex::Regex;
use spaces::Spaces;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Calls whose second half is waited for, and tasks that are told apart by number, at most: threads
/// that a Linux machine can have.
const MOST_TASKS: usize = 1 << 22;

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Strace {
    /// First halves, by thread.
    halves: HashMap<u32, Half>,
    /// The tasks in order of appearance.
    cpus: HashMap<u32, u32>,
    spaces: Spaces,
}

#[derive(Debug)]
struct Half {
    name: String,
    arguments: String,
}

/// The form of a line.
enum Form<'a> {
    Whole { name: &'a str, arguments: &'a str, result: &'a str },
    First { name: &'a str, arguments: &'a str },
    Second { name: &'a str, rest: &'a str },
    Other,
}

impl Strace {
    /// Reads a line.
    pub(super) fn line(&mut self, line: &str) -> Result<Result<Event, Known>, Reason> {
        if line.trim().is_empty() {
            return Ok(Err(Known::Header));
        }
        let (prefix, rest) = Prefix::split(line);
        let task = prefix.task;
        let kind = match form(rest).ok_or(Reason::Strange)? {
            Form::Other => None,
            Form::Whole { name, arguments, result } => self.call(task, &Call { name, arguments, result })?,
            Form::First { name, arguments } => self.first(task, name, arguments)?,
            Form::Second { name, rest } => self.second(task, name, rest)?,
        };
        let Some(kind) = kind else { return Ok(Err(Known::Other)) };
        self.spaces.event(task, kind);
        Ok(Ok(Event { time_ns: prefix.time_ns, cpu: self.cpu(task), task, kind }))
    }

    /// Returns how many address spaces the calls so far are of.
    pub(super) fn spaces(&self) -> u64 {
        self.spaces.count()
    }

    fn call(&mut self, task: u32, call: &Call<'_>) -> Result<Option<Kind>, Reason> {
        self.spaces.call(task, call);
        call::kind(call)
    }

    fn cpu(&mut self, task: u32) -> u32 {
        let next = self.cpus.len() as u32;
        if self.cpus.len() < MOST_TASKS { *self.cpus.entry(task).or_insert(next) } else { task }
    }

    fn first(&mut self, task: u32, name: &str, arguments: &str) -> Result<Option<Kind>, Reason> {
        if self.halves.len() < MOST_TASKS {
            let half = Half { name: name.into(), arguments: arguments.into() };
            self.halves.insert(task, half);
        }
        if name == "munmap" {
            return call::kind(&Call { name, arguments, result: "0" });
        }
        Ok(None)
    }

    fn second(&mut self, task: u32, name: &str, rest: &str) -> Result<Option<Kind>, Reason> {
        if !is_read(name) {
            return Ok(None);
        }
        let Some(half) = self.halves.remove(&task).filter(|half| half.name == name) else {
            return if call::is_known(name) { Err(Reason::Orphan) } else { Ok(None) };
        };
        let (arguments, result) = split_result(rest).ok_or(Reason::Field("result"))?;
        if name == "munmap" {
            return Ok(None);
        }
        let arguments = half.arguments + arguments;
        self.call(task, &Call { name, arguments: &arguments, result })
    }
}

/// Returns true if the arguments and the result of a call matter.
fn is_read(name: &str) -> bool {
    call::is_known(name) || spaces::is_known(name)
}

/// Exits, signals, messages of strace about itself, and frames of a stack with `-k`:
/// `> /usr/lib/libc.so.6(mmap64+0x1) [0x1]`, without the mark if the text is quoted, whose mark is
/// the same.
static OTHER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:\+\+\+ |--- |strace: |Process .* (?:attached|detached|resumed|suspended))",
        r"|\) \[0x[[:xdigit:]]+\]\s*$"
    ))
    .expect("a pattern")
});

fn form(line: &str) -> Option<Form<'_>> {
    if OTHER.is_match(line) {
        return Some(Form::Other);
    }
    if let Some(rest) = line.strip_prefix("<... ") {
        let (name, rest) = rest.split_once(" resumed>")?;
        return is_name(name).then_some(Form::Second { name, rest });
    }
    let (name, rest) = line.split_once('(')?;
    if !is_name(name) {
        return None;
    }
    if let Some(arguments) = rest.trim_end().strip_suffix("<unfinished ...>") {
        return Some(Form::First { name, arguments: arguments.trim_end() });
    }
    match split_result(rest) {
        _ if !is_read(name) => Some(Form::Other),
        Some((arguments, result)) => Some(Form::Whole { name, arguments, result }),
        // `clone(child_stack=NULL, flags=…strace: Process 7 attached`: the second half is whole.
        None => spaces::is_known(name).then_some(Form::First { name, arguments: rest }),
    }
}

/// Splits `arguments) = result`.
fn split_result(text: &str) -> Option<(&str, &str)> {
    let (arguments, result) = text.rsplit_once("= ")?;
    Some((arguments.trim_end().strip_suffix(')')?, result.trim_end()))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests;
