//! A megabyte goes through a ring buffer of 64 KiB. No record is split where the ring ends.
//!
//! `cargo run -p vmalloc-examples --example ring_stream`

use vmalloc_linux::{Error, LinuxOptions, Ring, SpaceOptions, open};

/// Mixes bytes into a checksum (FNV-1a).
fn mix(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(crate) fn main() -> Result<(), Error> {
    let space = open(LinuxOptions::new(), SpaceOptions::default())?;
    let mut ring = Ring::new(&*space, 64 << 10)?;
    let source: Vec<u8> = (0..1_usize << 20).map(|nth| (nth * 31 + nth / 251) as u8).collect();

    // Counts of bytes since the start. Their remainders by the size of the ring are places in it.
    let (mut written, mut read) = (0, 0);
    let (mut sum, mut across) = (0, 0);
    while read < source.len() {
        // The writer fills the ring with records of 1,777 bytes.
        while let Some(record) = source[written..].chunks(1777).next() {
            if written + record.len() - read > ring.len() {
                break;
            }
            let at = written % ring.len();
            across += usize::from(at + record.len() > ring.len());
            ring.get_mut(at, record.len()).expect("it fits").copy_from_slice(record);
            written += record.len();
        }
        // The reader takes pieces of another size, each as one slice.
        let count = 2311.min(written - read);
        sum = mix(sum, ring.get(read % ring.len(), count).expect("it fits"));
        read += count;
    }
    assert_eq!(sum, mix(0, &source));
    println!("{read} bytes, {across} records across the end, checksum {sum:#x}");
    Ok(())
}
