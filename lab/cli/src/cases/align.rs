//! Cases about alignment. They take zeroed areas, and check the address they get.

use super::area::request;
use super::{Area, Context, Refusal};
use vmalloc::{AllocError, Request};

/// A kernel stack's size, to which Linux aligns.
const STACK_BYTES: usize = 16 << 10;

/// A loop: five zeroed pages at a multiple of a stack's size.
pub(super) fn fix_align(context: &mut Context<'_>) -> Result<(), Refusal> {
    let wanted = request(context.machine, 5).zeroed();
    for _ in context.turns() {
        aligned_and_freed(context, wanted, STACK_BYTES)?;
    }
    Ok(())
}

/// A loop: for a random byte, 1 to 10 zeroed pages at a multiple of 2^(byte % 23) bytes.
pub(super) fn random_size_align(context: &mut Context<'_>) -> Result<(), Refusal> {
    for _ in context.turns() {
        let byte = context.random.below(256);
        let (pages, align) = (byte % 10 + 1, 1 << (byte % 23));
        aligned_and_freed(context, request(context.machine, pages).zeroed(), align)?;
    }
    Ok(())
}

/// A loop: for each bit of a word, one page at a multiple of that power of two. No space has an
/// address for the largest ones, so the first loop is expected to be the last; it must leave
/// everything intact.
pub(super) fn align_shift(context: &mut Context<'_>) -> Result<(), Refusal> {
    for _ in context.turns() {
        let mut refused = false;
        for bit in 0..usize::BITS {
            match aligned_and_freed(context, request(context.machine, 1), 1 << bit) {
                Err(Refusal::Expected) => refused = true,
                result => result?,
            }
        }
        // An area that another worker frees may be between two lists. What is left behind then, the
        // check after the run sees.
        if context.workers == 1 {
            context.machine.space.verify()?;
        }
        if refused {
            return Err(Refusal::Expected);
        }
    }
    Ok(())
}

/// A refusal is expected where the space has fewer such addresses than there are workers to want
/// one, of which other workers' held areas may take half.
fn aligned_and_freed(context: &Context<'_>, wanted: Request, align: usize) -> Result<(), Refusal> {
    let wanted_at_once = if context.workers == 1 { 1 } else { 2 * context.workers };
    let area = match Area::new(context.machine, &wanted.align(align)) {
        Ok(area) => area,
        Err(AllocError::NoSpace(_)) if addresses(context, align) < wanted_at_once => {
            return Err(Refusal::Expected);
        }
        Err(error) => return Err(error.into()),
    };
    if !area.addr().is_multiple_of(align) {
        let addr = area.addr();
        return Err(Refusal::Failed(format!("{addr:#x} is not a multiple of {align:#x}")));
    }
    Ok(area.free()?)
}

/// How many addresses of the space are multiples of `align`, but for those in the last page, which
/// leaves no room for a guard page.
fn addresses(context: &Context<'_>, align: usize) -> u64 {
    let span = context.machine.space.geometry().span;
    let align_pages = (align / context.machine.page_bytes).max(1) as u64;
    (span.end() - 1).div_ceil(align_pages) - span.start().div_ceil(align_pages)
}
