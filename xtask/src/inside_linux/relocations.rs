//! Calls and addresses through a table, which the precompiled `core` has and Linux's loader refuses: made direct.
//!
//! In an object of ELF for x86-64 such an instruction has a relocation of a kind of its own, and is as long as the direct one.

use anyhow::{Context, Result, bail};

/// The kinds of relocations through the table, and the kind of the direct one.
const THROUGH_TABLE: [u32; 3] = [9, 41, 42];
const DIRECT: u32 = 2;
/// A section of relocations, in its header.
const RELOCATIONS: u32 = 4;
const HEADER: usize = 64;
const RELOCATION: usize = 24;

/// Rewrites an object. Returns how many instructions were changed.
pub(super) fn rewrite(object: &mut [u8]) -> Result<usize> {
    let (start, count) = (word(object, 40)?, short(object, 60)?);
    let mut changed = 0;
    for section in (0..count).map(|nth| start + nth * HEADER) {
        if half(object, section + 4)? != RELOCATIONS {
            continue;
        }
        // Of the section that they are for, its place in the file.
        let code = word(object, start + half(object, section + 44)? as usize * HEADER + 24)?;
        let (first, bytes) = (word(object, section + 24)?, word(object, section + 32)?);
        for relocation in (first..first + bytes).step_by(RELOCATION) {
            if THROUGH_TABLE.contains(&half(object, relocation + 8)?) {
                make_direct(object, code + word(object, relocation)?)?;
                object[relocation + 8..relocation + 12].copy_from_slice(&DIRECT.to_le_bytes());
                changed += 1;
            }
        }
    }
    Ok(changed)
}

/// Changes the instruction whose address part is at `place`: a call, a jump, or a load of an address.
fn make_direct(object: &mut [u8], place: usize) -> Result<()> {
    let opcode = place.checked_sub(2).and_then(|start| object.get_mut(start..place)).context("an address")?;
    match *opcode {
        // The first byte of each fills the place of the longer opcode.
        [0xff, 0x15] => opcode.copy_from_slice(&[0x67, 0xe8]),
        [0xff, 0x25] => opcode.copy_from_slice(&[0x2e, 0xe9]),
        [0x8b, _] => opcode[0] = 0x8d,
        _ => bail!("an instruction {opcode:x?} through the table"),
    }
    Ok(())
}

fn word(object: &[u8], at: usize) -> Result<usize> {
    let bytes = object.get(at..at + 8).context("the object is short")?;
    Ok(u64::from_le_bytes(bytes.try_into()?) as usize)
}

fn half(object: &[u8], at: usize) -> Result<u32> {
    let bytes = object.get(at..at + 4).context("the object is short")?;
    Ok(u32::from_le_bytes(bytes.try_into()?))
}

fn short(object: &[u8], at: usize) -> Result<usize> {
    let bytes = object.get(at..at + 2).context("the object is short")?;
    Ok(u16::from_le_bytes(bytes.try_into()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an object of two sections: code, and one relocation of it.
    fn object(code: [u8; 6], kind: u8) -> Vec<u8> {
        let mut object = vec![0; 64 + 2 * HEADER];
        object[40] = 64;
        object[60] = 2;
        let (place, relocations) = (object.len() as u8, 64 + HEADER);
        object[64 + 24] = place;
        object[relocations + 4] = RELOCATIONS as u8;
        object[relocations + 24] = place + 6;
        object[relocations + 32] = RELOCATION as u8;
        object.extend(code);
        object.extend([2, 0, 0, 0, 0, 0, 0, 0, kind]);
        object.extend([0; 15]);
        object
    }

    #[test]
    fn calls_jumps_and_addresses_become_direct() {
        let cases =
            [([0xff, 0x15], [0x67, 0xe8]), ([0xff, 0x25], [0x2e, 0xe9]), ([0x8b, 0x05], [0x8d, 0x05])];
        for (before, after) in cases {
            let mut object = object([before[0], before[1], 1, 2, 3, 4], 41);
            let code = object.len() - RELOCATION - 6;
            assert_eq!(rewrite(&mut object).unwrap(), 1);
            assert_eq!(object[code..code + 6], [after[0], after[1], 1, 2, 3, 4]);
            assert_eq!(object[code + 6 + 8], DIRECT as u8);
        }
    }

    #[test]
    fn other_relocations_stay_and_unknown_instructions_are_refused() {
        let other = object([0xff, 0x15, 0, 0, 0, 0], 4);
        let mut same = other.clone();
        assert_eq!(rewrite(&mut same).unwrap(), 0);
        assert_eq!(same, other);
        assert!(rewrite(&mut object([0x03, 0x05, 0, 0, 0, 0], 42)).is_err());
        assert!(rewrite(&mut [0; 20]).is_err());
    }
}
