//! How many address spaces a log has calls of.
//!
//! - A child that does not share its parent's memory has a space of its own: `fork`, and `clone`
//!   without `CLONE_VM`.
//! - `execve` begins a new space. So does a task that asks where its heap ends before anything else
//!   is known of it, as the C library does at its start: logs of the calls that move addresses have
//!   neither `execve` nor `clone`.
//! - A space counts from its first event on.

use super::MOST_TASKS;
use super::call::Call;
use crate::trace::event::Kind;
use std::collections::HashMap;

/// The spaces.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    /// The number of each task's space.
    of: HashMap<u32, u32>,
    /// Spaces so far, by number: whether an event was in it.
    used: Vec<bool>,
    /// How many of them are used.
    count: u64,
}

/// Returns true for a call that may make a space.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "execve" | "execveat" | "fork" | "vfork" | "clone" | "clone3")
}

impl Spaces {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A task made a call that may make a space.
    pub(super) fn call(&mut self, task: u32, call: &Call<'_>) {
        let result = call.result.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
        match (call.name, result) {
            ("execve" | "execveat", Some(0)) => self.begin(task),
            ("fork" | "vfork" | "clone" | "clone3", Some(child)) if !self.of.contains_key(&child) => {
                if call.name == "vfork" || call.arguments.contains("CLONE_VM") {
                    let space = self.space(task);
                    self.enter(child, space);
                } else {
                    self.begin(child);
                }
            }
            _ => {}
        }
    }

    /// A task made an event.
    pub(super) fn event(&mut self, task: u32, kind: Kind) {
        if matches!(kind, Kind::BreakIs { .. }) && !self.of.contains_key(&task) {
            self.begin(task);
        }
        let space = self.space(task);
        let before = std::mem::replace(&mut self.used[space as usize], true);
        self.count += u64::from(!before);
    }

    /// The space of a task; where nothing is known of it, that of the first one.
    fn space(&mut self, task: u32) -> u32 {
        if self.used.is_empty() {
            self.begin(task);
        }
        self.of.get(&task).copied().unwrap_or(0)
    }

    fn begin(&mut self, task: u32) {
        if self.used.len() < MOST_TASKS {
            self.used.push(false);
            self.enter(task, self.used.len() as u32 - 1);
        }
    }

    fn enter(&mut self, task: u32, space: u32) {
        if self.of.len() < MOST_TASKS {
            self.of.insert(task, space);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::strace::Strace;

    fn spaces(log: &[&str]) -> u64 {
        let mut strace = Strace::default();
        for line in log {
            assert!(strace.line(line).is_ok(), "{line}");
        }
        strace.spaces()
    }

    const MAP: &str = "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7000";

    #[test]
    fn threads_share_a_space_and_processes_do_not() {
        let map = |task: u32| format!("{task} {MAP}");
        let of = |call: &str| spaces(&[&map(1), call, &map(2)]);
        assert_eq!(of("1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD, tls=0x2) = 2"), 1);
        assert_eq!(of("1 clone3({flags=CLONE_VM|CLONE_FS, stack=0x1}, 88) = 2 <0.00001>"), 1);
        assert_eq!(of("1 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 2"), 2);
        assert_eq!(of("1 fork() = 2"), 2);
        assert_eq!(of("1 vfork() = 2"), 1);
        assert_eq!(of("1 fork() = -1 EAGAIN (Resource temporarily unavailable)"), 1);
        assert_eq!(of("2 brk(NULL) = 0x1000"), 2);
        assert_eq!(of("2 execve(\"/bin/true\", [\"true\"], 0x7ffc /* 3 vars */) = 0"), 2);
        assert_eq!(of("2 +++ exited with 0 +++"), 1);
    }

    #[test]
    fn a_program_that_is_replaced_is_another_space() {
        let execve = "1 execve(\"/bin/sh\", [\"sh\"], 0x7ffc /* 3 vars */) = 0";
        let map = format!("1 {MAP}");
        assert_eq!(spaces(&[execve, "1 brk(NULL) = 0x1000", &map]), 1);
        assert_eq!(spaces(&[execve, &map, execve, "1 brk(NULL) = 0x1000"]), 2);
        assert_eq!(spaces(&[execve]), 0);
    }

    #[test]
    fn a_call_in_halves_makes_a_space_too() {
        let first = "1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTIDstrace: Process 2 attached";
        let second = "1 <... clone resumed>, child_tidptr=0x7f00) = 2";
        let (one, two) = (format!("1 {MAP}"), format!("2 {MAP}"));
        assert_eq!(spaces(&[&one, first, second, &two]), 2);
        assert_eq!(spaces(&[&one, "1 fork( <unfinished ...>", "1 <... fork resumed>) = 2", &two]), 2);
    }
}
