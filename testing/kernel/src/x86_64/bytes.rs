//! The functions that compilers call to move bytes. They move words, for a string instruction
//! counts once for each of its steps.

use core::arch::asm;

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: exactly `bytes` bytes are read and written, upwards.
    unsafe {
        asm!(
            "rep movsq",
            "mov ecx, {rest:e}",
            "rep movsb",
            rest = in(reg) bytes % 8,
            inout("rcx") bytes / 8 => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= bytes {
        // SAFETY: upwards, nothing is overwritten before it is read.
        return unsafe { memcpy(to, from, bytes) };
    }
    // SAFETY: exactly `bytes` bytes, downwards: the odd ones at the end, then words. The direction
    // is upwards again afterwards.
    unsafe {
        asm!(
            "std",
            "rep movsb",
            "sub rdi, 7",
            "sub rsi, 7",
            "mov rcx, {words}",
            "rep movsq",
            "cld",
            words = in(reg) bytes / 8,
            inout("rcx") bytes % 8 => _,
            inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _,
            options(nostack),
        );
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    let word = u64::from(byte as u8) * 0x0101_0101_0101_0101;
    // SAFETY: exactly `bytes` bytes are written, upwards.
    unsafe {
        asm!(
            "rep stosq",
            "mov ecx, {rest:e}",
            "rep stosb",
            rest = in(reg) bytes % 8,
            in("rax") word,
            inout("rcx") bytes / 8 => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    for at in 0..bytes {
        // SAFETY: both have `bytes` bytes. Volatile, so that the loop is not made a call of itself.
        let (one, other) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if one != other {
            return i32::from(one) - i32::from(other);
        }
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(one, other, bytes) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const core::ffi::c_char) -> usize {
    // SAFETY: up to the zero there are bytes. Volatile as above.
    (0..).take_while(|&at| unsafe { text.add(at).read_volatile() } != 0).count()
}
