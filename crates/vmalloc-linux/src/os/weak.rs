//! Variables of the C library that older ones lack.
//!
//! They are weak references, which the dynamic linker fills in at the start. dlsym(3) would take
//! the loader's lock, which a thread may hold that waits for the caller (in a constructor, inside
//! dlopen(3)), and would replace what dlerror(3) is about to tell.

/// Returns a pointer to the variable of that name in the C library; null where it has none.
///
/// The reference is made by hand, since Rust has no weak ones. The address comes from the global
/// offset table, which holds 0 for a weak name that nothing defines.
#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
macro_rules! weak_variable {
    ($name:literal as $type:ty) => {{
        let found: *const $type;
        // SAFETY: it reads one entry of the global offset table, which is constant.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {found}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                found = out(reg) found,
                options(nostack, preserves_flags, pure, readonly)
            );
        }
        found
    }};
}

/// Returns null: here no variable is looked for.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu", not(miri))))]
macro_rules! weak_variable {
    ($name:literal as $type:ty) => {
        core::ptr::null::<$type>()
    };
}

pub(crate) use weak_variable;
