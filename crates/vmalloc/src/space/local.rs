//! Memory for a node of the caller's choice.

use super::alloc::Backing;
use super::request::Checked;
use super::{Kind, Request, Space};
use crate::addr::PageRange;
use crate::error::{AllocError, RequestError};
use crate::platform::Platform;

impl<P: Platform> Space<P> {
    /// As [`alloc`](Self::alloc), from what node `node` has freed, where there is something: for memory near the CPUs that will use it. When it
    /// is freed and purged, it goes back to that node.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); [`RequestError::NoSuchNode`].
    #[doc(alias = "vmalloc_node")]
    pub fn alloc_node(&self, request: &Request, node: usize) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        if node >= self.nodes.len() {
            return Err(RequestError::NoSuchNode { node, nodes: self.nodes.len() }.into());
        }
        let Some((area, backing)) = self.obtain_from(node, &checked) else {
            let addr = self.alloc(request)?;
            let page = (addr >> self.shift) as u64;
            self.map().leaf(page).set_owner_node(node);
            return Ok(addr);
        };
        let annotation = checked.annotation(area, self.shift, Kind::Vmalloc, request.tag);
        self.hand_out(area, annotation, backing)?;
        match backing {
            Backing::None => self.back_with(area, &checked, annotation, request),
            Backing::Kept => {
                self.clean(area, &checked, request);
                Ok(self.addr(area.start()))
            }
        }
    }

    /// Claims an area of those that wait in a node.
    fn obtain_from(&self, node: usize, checked: &Checked) -> Option<(PageRange, Backing)> {
        let fit = &checked.fit;
        fit.lowest_order()?;
        let mut node = self.nodes[node].0.lock();
        if self.possible(Backing::Kept, checked) == Backing::Kept
            && let Some(area) = self.take_from(&mut node, fit)
        {
            return Some((area, Backing::Kept));
        }
        let start = node.pools.take(fit.pages(), fit.alignment())?;
        Some((PageRange::of(start, start + fit.pages()), Backing::None))
    }
}
