//! Reads of addresses that may lead nowhere.

use super::Clause;
use crate::bench::{Bench, Verdict, ensure, word};
use vmalloc::ReadNofault;
use vmalloc_programs::Seen;

pub(crate) fn read_nofault<P: ReadNofault>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "read_nofault() copies up to the first byte that can't be read", check: stops },
        Clause { promise: "read_nofault() never faults", check: nowhere },
    ]
}

fn stops<P: ReadNofault>(bench: &Bench<'_, P>) -> Verdict {
    let (range, size) = (bench.pages(30, 2), bench.geometry.page_bytes());
    bench.map(range)?;
    bench.write(range, 1);
    let start = range.start() as usize * size;
    let mut bytes = vec![0xa5; 3 * size];
    for skipped in [0, 8, size - 8, size, 2 * size - 8, 2 * size] {
        let expected = 2 * size - skipped;
        let copied = bench.platform.read_nofault(start + skipped, &mut bytes);
        ensure(copied == expected, || format!("{copied} bytes from {skipped} on, of {expected}"))?;
    }
    if bench.look.read(&bench.platform, 0, range.start()) == Seen::Unknown {
        return Ok(());
    }
    bench.platform.read_nofault(start, &mut bytes);
    let pages = bytes.chunks_exact(size).zip(range.start()..range.end());
    for (nth, (page, number)) in pages.enumerate() {
        let same = page.chunks_exact(8).all(|word_bytes| word_bytes == word(number, 1).to_le_bytes());
        ensure(same || cfg!(target_endian = "big"), || format!("other bytes in page {nth}"))?;
    }
    Ok(())
}

fn nowhere<P: ReadNofault>(bench: &Bench<'_, P>) -> Verdict {
    let (range, size) = (bench.pages(30, 4), bench.geometry.page_bytes());
    bench.map(range)?;
    bench.write(range, 1);
    bench.unmap_and_flush(&[range])?;
    let start = range.start() as usize * size;
    for addr in [start, start + 1, start + 4 * size - 1, 0, 1, usize::MAX - 3, usize::MAX] {
        let copied = bench.platform.read_nofault(addr, &mut [0; 16]);
        ensure(copied == 0, || format!("{copied} bytes from {addr:#x}, where nothing is mapped"))?;
    }
    ensure(bench.platform.read_nofault(start, &mut []) == 0, || "bytes for an empty buffer".into())
}
