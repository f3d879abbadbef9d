//! Memory for code.

use super::*;
use vmalloc::{Protection, Request};

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
#[test]
fn code_runs_once_it_is_sealed() {
    /// mov eax, 42; ret
    const CODE: [u8; 6] = [0xb8, 42, 0, 0, 0, 0xc3];
    in_both_modes(SpaceOptions::default(), |space| {
        for round in 0..5 {
            let addr = space.raw().alloc_exec(&Request::new(2 * PAGE).tag("jit")).unwrap();
            assert!((0..2 * PAGE).all(|byte| get(addr + byte) == 0), "round {round}");
            // From one page to the next.
            let entry = addr + PAGE - 3;
            CODE.iter().zip(entry..).for_each(|(byte, addr)| set(addr, *byte));
            // SAFETY: what is there is code, and nothing writes to it any more.
            unsafe { space.raw().protect(addr, Protection::ReadExecute) }.unwrap();
            assert!(
                !can_write(addr + 100) && !can_write(addr + PAGE + 100),
                "writable or executable, never both"
            );
            assert!(traps(space, addr + 2 * PAGE), "the guard");
            // SAFETY: a function of this signature begins there.
            let call: extern "C" fn() -> u32 = unsafe { std::mem::transmute(pointer(entry)) };
            assert_eq!(call(), 42);
            free(space, addr);
            space.purge().unwrap();
            assert!(traps(space, addr) && traps(space, addr + PAGE));
        }
    });
}
