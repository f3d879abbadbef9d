// SPDX-License-Identifier: GPL-2.0
/* The supply of pages: as Linux of the same version asks for them and gives them back. */
#include <linux/sched/mm.h>
#include <linux/version.h>
#include "vm.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define alloc_pages_bulk_node alloc_pages_bulk_array_node
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define take_large(pages, count, how) 0

void give_list(struct list_head *pages) { put_pages_list(pages); }
#else
/* Pages of large orders, split: Linux asks for such first. */
static unsigned long take_large(struct page **pages, unsigned long count, struct context how)
{
	unsigned int order = min_t(unsigned int, ilog2(count), MAX_PAGE_ORDER);
	unsigned long done = 0, end;
	struct page *page;

	while (order) {
		page = NULL;
		if ((count - done) >> order)
			page = alloc_pages_node(how.node, how.gfp & ~__GFP_DIRECT_RECLAIM, order);
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

static void let_others_run(void)
{
	if (preemptible())
		cond_resched();
}

/* A map that must not wait: before 6.18 Linux waits for a page of its table, so that has to be there. */
static int map(unsigned long addr, unsigned long end, struct page **pages, struct context how)
{
	unsigned long at = LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0) ? addr : end;
	unsigned int level, scope;
	int error;

	if (how.may_wait)
		return map_range(addr, end, PAGE_KERNEL, pages, PAGE_SHIFT, how.gfp);
	for (; at < end; at = ALIGN(at + 1, PMD_SIZE))
		if (!lookup_address(at, &level) || level != PG_LEVEL_4K)
			return -ENOMEM;
	scope = memalloc_noreclaim_save();
	error = map_range(addr, end, PAGE_KERNEL, pages, PAGE_SHIFT, how.gfp);
	memalloc_noreclaim_restore(scope);
	return error;
}

/* Takes pages out of the table, and never waits, as Linux may. */
void take_pages(unsigned long addr, unsigned long end, struct list_head *found)
{
	unsigned long stop;
	unsigned int level;
	pte_t *pte, old;

	for (; addr < end; addr = stop) {
		stop = min(end, ALIGN(addr + 1, PMD_SIZE));
		pte = lookup_address(addr, &level);
		for (; pte && level == PG_LEVEL_4K && addr < stop; addr += PAGE_SIZE, pte++) {
			old = native_ptep_get_and_clear(pte);
			if (found && pte_present(old))
				list_add_tail(&pte_page(old)->lru, found);
		}
	}
}

/* Puts new pages at an address. If that fails, nothing is there. */
bool put_pages(unsigned long addr, struct page **pages, unsigned long count, struct context how)
{
	unsigned long done = take_large(pages, count, how), now = 1, end = addr + ADDR(count);

	WARN_ON_ONCE(how.may_wait && !preemptible());
	for (; now && done < count; done += now) {
		now = alloc_pages_bulk_node(how.gfp, how.node, min(100ul, count - done), pages + done);
		let_others_run();
	}
	if (done == count && !map(addr, end, pages, how))
		return true;
	take_pages(addr, end, NULL);
	flush_range(addr, end);
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
		let_others_run();
	}
}
