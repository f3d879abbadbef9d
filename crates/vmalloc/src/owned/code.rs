//! Memory for code: writable, or executable.

use super::handle::{Ends, Owned, SpaceRef, sealed::Sealed};
use crate::platform::{DirectMemory, Protect, Protection};
use crate::space::{Request, Space};
use crate::{AllocError, AreaError, FreeError};
use core::ops::{Deref, DerefMut};
use thiserror::Error;

/// Memory for code: see [`CodeBuffer`] and [`Code`].
#[derive(Debug)]
pub struct Exec<const EXECUTABLE: bool>(());

impl<const X: bool> Sealed for Exec<X> {}

// SAFETY: areas of `Raw::alloc_exec` end by `Raw::free`.
unsafe impl<P: Protect, const X: bool> Ends<P> for Exec<X> {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        unsafe { space.raw().free(addr) }
    }
}

/// Owned memory for code, zeroed and writable. [`seal`](Self::seal) makes it [`Code`].
///
/// ```
/// # use vmalloc::{CodeBuffer, DirectMemory, Protect, Request, Space};
/// # fn example<P: DirectMemory + Protect>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
/// let mut buffer = CodeBuffer::new(space, &Request::new(4096))?;
/// buffer[0] = 0xc3;
/// let code = buffer.seal().map_err(|refused| refused.cause)?;
/// assert_eq!(code[0], 0xc3);
/// # Ok(())
/// # }
/// ```
pub type CodeBuffer<S> = Owned<S, Exec<false>>;

/// Owned memory that can be read and executed, and not written. Freed code may still run until its
/// pages are unmapped: at once with [`SpaceOptions::trap_on_free`](crate::SpaceOptions::trap_on_free).
pub type Code<S> = Owned<S, Exec<true>>;

/// The refusal of the platform to change what may be done with code. It has the memory.
#[derive(Debug, Error)]
#[cfg_attr(feature = "error-texts", error("code can't be sealed or unsealed: {cause}"))]
#[cfg_attr(not(feature = "error-texts"), error("ProtectError"))]
pub struct ProtectError<S: SpaceRef<Platform: Protect>> {
    /// The memory.
    pub memory: Code<S>,
    /// The reason.
    #[source]
    pub cause: AreaError,
}

impl<S: SpaceRef<Platform: Protect + DirectMemory>> CodeBuffer<S> {
    /// Allocates memory for code. Cost as [`Raw::alloc`](crate::Raw::alloc).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, request: &Request) -> Result<Self, AllocError> {
        let addr = space.raw().alloc_exec(request)?;
        Ok(Self::own(space, addr, request.bytes(), Exec(())))
    }

    /// Makes the memory executable, and no longer writable. On return that holds for every CPU.
    ///
    /// # Errors
    /// The platform's, with the memory, of which some pages may not be writable any more, so it can
    /// only be dropped, or [unsealed](Code::unseal) and sealed again.
    pub fn seal(self) -> Result<Code<S>, ProtectError<S>> {
        self.change(Protection::ReadExecute)
    }
}

impl<S: SpaceRef<Platform: Protect + DirectMemory>> Code<S> {
    /// Makes the memory writable again, and no longer executable.
    ///
    /// # Safety
    /// No thread executes the code any more.
    ///
    /// # Errors
    /// The platform's, with the memory, which is as it was, but for some pages that are writable
    /// and not executable.
    pub unsafe fn unseal(self) -> Result<CodeBuffer<S>, ProtectError<S>> {
        self.change(Protection::ReadWrite)
    }

    /// Returns the function at `offset`, as a function pointer of the type `F`; `None` behind the
    /// end. A type of another size than an address does not compile.
    ///
    /// ```
    /// # use vmalloc::{Code, DirectMemory, Protect, SpaceRef};
    /// # unsafe fn example<S: SpaceRef<Platform: Protect + DirectMemory>>(code: &Code<S>) -> Option<i32> {
    /// // SAFETY: such a function begins there, and `code` outlives the call.
    /// let answer = unsafe { code.entry::<extern "C" fn() -> i32>(0) }?;
    /// Some(answer())
    /// # }
    /// ```
    ///
    /// # Safety
    /// `F` is a type of function pointers. A function of this type, with its calling convention,
    /// begins at `offset`. The pointer and its copies are not called once this is unsealed or
    /// dropped.
    #[must_use]
    pub unsafe fn entry<F: Copy>(&self, offset: usize) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*const u8>(), "no function pointer") };
        let start: *const u8 = self.get(offset)?;
        // SAFETY: a function pointer is an address, and the caller promises that this is one of
        // such a function.
        Some(unsafe { core::mem::transmute_copy(&start) })
    }
}

impl<S: SpaceRef<Platform: Protect>, const X: bool> Owned<S, Exec<X>> {
    /// Changes the protection. The memory comes back readable in any case.
    fn change<const Y: bool>(self, protection: Protection) -> Result<Owned<S, Exec<Y>>, ProtectError<S>> {
        let (space, addr, bytes) = self.into_parts();
        // SAFETY: this owns the area, and no reference into it is left. The owner of code answers
        // for what it executes.
        match unsafe { space.raw().protect(addr, protection) } {
            Ok(()) => Ok(Owned::own(space, addr, bytes, Exec(()))),
            Err(cause) => Err(ProtectError { memory: Owned::own(space, addr, bytes, Exec(())), cause }),
        }
    }
}

impl<S: SpaceRef<Platform: Protect + DirectMemory>, const X: bool> Deref for Owned<S, Exec<X>> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the area is mapped, readable and owned by this (`DirectMemory`); it began as
        // zeros.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }
}

impl<S: SpaceRef<Platform: Protect + DirectMemory>> DerefMut for CodeBuffer<S> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; it is writable until it is sealed, and borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.as_ptr(), self.len()) }
    }
}
