//! The device tree that firmware hands to a kernel: memory, CPUs and the command line.

use crate::cpu;
use crate::memory::direct;

/// A piece of physical memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Piece {
    /// Returns true if it is ordinary memory, as all pieces of a device tree are.
    pub(crate) fn is_ram(&self) -> bool {
        true
    }
}

/// The facts of the tree.
#[derive(Default)]
pub(crate) struct StartInfo {
    memory: [Piece; 1],
    command_line: &'static str,
    cpus: [u64; cpu::MAX],
    count: usize,
}

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;

/// A flattened tree in memory.
struct Tree(*const u8);

impl Tree {
    /// Returns the word at a byte of the tree.
    fn word(&self, at: usize) -> u32 {
        // SAFETY: inside of the tree, whose words are aligned, and which nothing writes.
        u32::from_be(unsafe { self.0.add(at).cast::<u32>().read() })
    }

    /// Returns the text that begins there and ends with zero.
    fn text(&self, at: usize) -> &'static str {
        // SAFETY: inside of the tree, by its format.
        unsafe { core::ffi::CStr::from_ptr(self.0.add(at).cast()) }.to_str().unwrap_or("")
    }

    /// Returns a number of two words.
    fn number(&self, at: usize) -> u64 {
        u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4))
    }

    /// Calls `act` with each property: the name of its node, its own name, and where its value is.
    fn each(&self, mut act: impl FnMut(&str, &str, usize)) {
        assert_eq!(self.word(0), MAGIC, "there is no device tree");
        let (mut at, names, mut node) = (self.word(8) as usize, self.word(12) as usize, "");
        loop {
            let token = self.word(at);
            at += 4;
            match token {
                BEGIN_NODE => {
                    node = self.text(at);
                    at = (at + node.len() + 1).next_multiple_of(4);
                }
                PROPERTY => {
                    let (len, name) = (self.word(at) as usize, self.word(at + 4) as usize);
                    act(node, self.text(names + name), at + 8);
                    at = (at + 8 + len).next_multiple_of(4);
                }
                END_NODE | NOTHING => {}
                _ => return,
            }
        }
    }
}

impl StartInfo {
    /// Reads the tree at physical address `at`.
    ///
    /// # Safety
    /// The firmware said that it is there.
    pub(crate) unsafe fn at(at: usize) -> Self {
        let (tree, mut info) = (Tree(direct(at as u64)), Self::default());
        tree.each(|node, name, value| match name {
            "bootargs" => info.command_line = tree.text(value),
            "reg" if node.starts_with("memory@") => {
                info.memory[0] = Piece { start: tree.number(value), bytes: tree.number(value + 8) };
            }
            "reg" if node.starts_with("cpu@") && info.count < cpu::MAX => {
                info.cpus[info.count] = u64::from(tree.word(value));
                info.count += 1;
            }
            _ => {}
        });
        info
    }

    pub(crate) fn memory(&self) -> &[Piece] {
        &self.memory
    }

    pub(crate) fn command_line(&self) -> &'static str {
        self.command_line
    }

    /// Returns the numbers of all CPUs.
    pub(crate) fn cpus(&self) -> &[u64] {
        &self.cpus[..self.count]
    }
}
