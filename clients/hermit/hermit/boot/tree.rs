//! A device tree with what Hermit's kernel reads: the memory, and the arguments.

use core::ffi::CStr;

const BYTES: usize = 4096;
/// Header, and the end of the list of reserved memory.
const HEADER: usize = 40 + 16;
const BEGIN: u32 = 1;
const END: u32 = 2;
const PROPERTY: u32 = 3;
const END_OF_TREE: u32 = 9;
/// Names of properties, which are known by their places.
const NAMES: &[u8] = b"compatible\0#address-cells\0#size-cells\0bootargs\0device_type\0reg\0";

#[repr(C, align(8))]
struct Tree {
    bytes: [u8; BYTES],
    end: usize,
}

/// Makes the tree, once, and returns its address.
pub(super) fn make(arguments: &CStr, memory: impl Iterator<Item = (u64, u64)>) -> usize {
    static mut TREE: Tree = Tree { bytes: [0; BYTES], end: HEADER };
    // SAFETY: The only CPU calls this, once.
    let tree = unsafe { &mut *&raw mut TREE };
    tree.begin(b"");
    tree.property("compatible", b"vmalloc,pvh\0");
    tree.property("#address-cells", &2u32.to_be_bytes());
    tree.property("#size-cells", &2u32.to_be_bytes());
    tree.begin(b"chosen");
    tree.property("bootargs", arguments.to_bytes_with_nul());
    tree.word(END);
    for (start, bytes) in memory {
        let mut name = *b"memory@0000000000000000";
        for (digit, at) in name[7..].iter_mut().zip((0..16).rev()) {
            *digit = b"0123456789abcdef"[(start >> (4 * at)) as usize & 15];
        }
        tree.begin(&name);
        tree.property("device_type", b"memory\0");
        let mut reg = [0; 16];
        reg[..8].copy_from_slice(&start.to_be_bytes());
        reg[8..].copy_from_slice(&bytes.to_be_bytes());
        tree.property("reg", &reg);
        tree.word(END);
    }
    tree.word(END);
    tree.word(END_OF_TREE);
    tree.finish();
    tree.bytes.as_ptr().expose_provenance()
}

impl Tree {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end = (self.end + bytes.len()).next_multiple_of(4);
    }

    fn word(&mut self, word: u32) {
        self.put(&word.to_be_bytes());
    }

    fn begin(&mut self, name: &[u8]) {
        self.word(BEGIN);
        self.put(name);
        // The zero at the end of the name needs a word of its own where the name fills the last.
        if name.len() % 4 == 0 {
            self.word(0);
        }
    }

    fn property(&mut self, name: &str, value: &[u8]) {
        let at = NAMES.windows(name.len()).position(|place| place == name.as_bytes());
        self.word(PROPERTY);
        self.word(value.len() as u32);
        self.word(at.expect("one of the names") as u32);
        self.put(value);
    }

    /// Writes names and header.
    fn finish(&mut self) {
        let names = self.end;
        self.put(NAMES);
        let end = self.end;
        self.end = 0;
        // Magic, size, tree, names, reserved memory, versions, CPU, sizes of names and tree.
        let header = [0xd00d_feed, end, HEADER, names, 40, 17, 16, 0, NAMES.len(), names - HEADER];
        header.into_iter().for_each(|word| self.word(word as u32));
        self.end = end;
    }
}
