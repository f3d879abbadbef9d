//! Cache lines: which CPUs have each, and what it takes to get one.
//!
//! ```text
//!             first use: free              another CPU writes: a line
//!   no CPU ─────────────────► one CPU ◄──────────────────────────────┐
//!                                │ another CPU reads: a line          │
//!                                └───────────────────────────► many CPUs
//! ```
//!
//! * `L1` The CPUs in `sharers` have the line. A CPU that is the only one may write, and each of
//!   them may read, at no cost.
//! * `L2` A line passes to one CPU at a time: `free_at` is when it has arrived at the last one.
//!
//! Caches never lose a line to make room, and a line takes as long from any CPU.

use crate::Picos;

/// Bytes of a line.
pub(crate) const LINE: usize = 64;

/// The most CPUs of a machine.
pub const MAX_CPUS: usize = u128::BITS as usize;

/// How a CPU uses a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
}

/// The state of a line: all zeros before its first use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    sharers: u128,
    free_at: Picos,
}

impl Line {
    /// Returns whether the CPU has it in the state that this needs; at its first use it gets it.
    #[inline]
    pub(crate) fn is_at_hand(&mut self, cpu: usize, to: Use) -> bool {
        if self.sharers == 0 {
            self.sharers = 1 << cpu;
        }
        match to {
            Use::Read => self.sharers & 1 << cpu != 0,
            Use::Write => self.sharers == 1 << cpu,
        }
    }

    /// Brings it to a CPU, from `clock` on. Returns when it is there, and how long the CPU waited
    /// for the passes before.
    pub(crate) fn pass(&mut self, cpu: usize, to: Use, clock: Picos, cost: Picos) -> (Picos, Picos) {
        let begin = clock.max(self.free_at);
        self.free_at = begin + cost;
        self.give(cpu, to);
        (self.free_at, begin - clock)
    }

    /// Makes it that CPU's, or one CPU's more.
    pub(crate) fn give(&mut self, cpu: usize, to: Use) {
        self.sharers = match to {
            Use::Read => self.sharers | 1 << cpu,
            Use::Write => 1 << cpu,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_passes_to_one_cpu_at_a_time() {
        let mut line = Line { sharers: 0, free_at: 0 };
        assert!(line.is_at_hand(0, Use::Read) && line.is_at_hand(0, Use::Write), "first use");
        assert!(!line.is_at_hand(1, Use::Read));
        assert_eq!(line.pass(1, Use::Read, 100, 70), (170, 0));
        assert!(line.is_at_hand(0, Use::Read) && !line.is_at_hand(0, Use::Write), "two have it");
        assert_eq!(line.pass(2, Use::Write, 110, 70), (240, 60), "after the pass before");
        assert!(line.is_at_hand(2, Use::Write) && !line.is_at_hand(0, Use::Read));
    }
}
