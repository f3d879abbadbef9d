//! The end of a span, given back to the program.

use crate::error::platform_error;
use crate::guard::Guarding;
use crate::platform::Linux;
use rustix::io::Errno;
use vmalloc::{PageRange, PlatformError};

impl Linux {
    /// Unmaps a part of the span, and of the tables for it: it does not count as addresses of the
    /// program any more, and the kernel may map anything there. When this is dropped, the rest of
    /// the span stays mapped.
    ///
    /// # Safety
    /// The caller has [reserved](vmalloc::Raw::reserve) the pages, and never unreserves them.
    ///
    /// # Errors
    /// When the system refuses; then nothing is changed. With
    /// [`Guards::Userfault`](crate::Guards::Userfault) it always does.
    pub unsafe fn give_up(&self, range: PageRange) -> Result<(), PlatformError> {
        self.check(range)?;
        if let Guarding::Userfault(_) = self.guarding {
            // A child registers the whole span again.
            return Err(platform_error("munmap of a part of a registered span", Errno::NOSYS));
        }
        // SAFETY: by the caller's promise nobody uses the pages, now or later.
        unsafe { self.memory.give_up(range) }.map_err(|errno| platform_error("munmap", errno))?;
        self.table.give_up(range);
        Ok(())
    }
}
