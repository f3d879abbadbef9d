// SPDX-License-Identifier: GPL-2.0
/* The supply of pages: as Linux of the same version asks for them and gives them back. */
#include <linux/version.h>
#include "vm.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define alloc_pages_bulk alloc_pages_bulk_array
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define take_large(pages, count, gfp) 0

void give_list(struct list_head *pages) { put_pages_list(pages); }
#else
/* Pages of large orders, split: Linux asks for such first. */
static unsigned long take_large(struct page **pages, unsigned long count, gfp_t gfp)
{
	unsigned int order = min_t(unsigned int, ilog2(count), MAX_PAGE_ORDER);
	unsigned long done = 0, end;
	struct page *page;

	while (order) {
		page = (count - done) >> order ? alloc_pages(gfp & ~__GFP_DIRECT_RECLAIM, order) : NULL;
		if (!page) {
			order--;
			continue;
		}
		split_page(page, order);
		for (end = done + (1ul << order); done < end; done++)
			pages[done] = page++;
	}
	return done;
}

void give_list(struct list_head *list)
{
	struct page *page, *next, *pages[64];
	unsigned long count = 0;

	list_for_each_entry_safe(page, next, list, lru) {
		if (count == ARRAY_SIZE(pages)) {
			give_pages(pages, count);
			count = 0;
		}
		pages[count++] = page;
	}
	give_pages(pages, count);
}
#endif

/* Puts new pages at an address. If that fails, nothing is there. */
bool put_pages(unsigned long addr, struct page **pages, unsigned long count, gfp_t gfp)
{
	unsigned long done = take_large(pages, count, gfp), now = 1;

	for (; now && done < count; done += now) {
		now = alloc_pages_bulk(gfp, min(100ul, count - done), pages + done);
		cond_resched();
	}
	if (done == count && !map_range(addr, addr + ADDR(count), PAGE_KERNEL, pages, PAGE_SHIFT, gfp))
		return true;
	unmap_range(addr, addr + ADDR(count));
	give_pages(pages, done);
	return false;
}

void give_pages(struct page **pages, unsigned long count)
{
	unsigned long nth;

	if (free_bulk)
		return free_bulk(pages, count);
	for (nth = 0; nth < count; nth++) {
		__free_page(pages[nth]);
		cond_resched();
	}
}
