// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses of the core, which also keeps the pointer to each area's record. All else is as in
 * vmalloc: the record has a list of pages, and a free unmaps and frees them at once. Addresses wait
 * for the flush. An allocation may wait.
 */
#include "vm.h"

void *plain_alloc(unsigned long size, unsigned long align, gfp_t gfp, int node, const void *caller)
{
	gfp_t inner = gfp & ~(__GFP_HIGHMEM | __GFP_ZERO);
	struct context how = context_of(gfp, node);
	unsigned long count = PAGES(size), addr;
	struct vm_struct *area;

	if (!count || count > totalram_pages() || !how.may_wait)
		return NULL;
	area = kzalloc_node(sizeof(*area), inner, node);
	addr = area ? vm_alloc(plain, size, align, area, how) : 0;
	if (!addr)
		goto no_addr;
	area->pages = kvzalloc_node(count * sizeof(*area->pages), inner, node);
	if (!area->pages || !put_pages(addr, area->pages, count, how))
		goto no_pages;
	area->addr = (void *)addr;
	area->size = ADDR(count + 1);
	area->nr_pages = count;
	area->caller = caller;
	return area->addr;
no_pages:
	vm_free(plain, addr);
	kvfree(area->pages);
no_addr:
	kfree(area);
	return NULL;
}

static void unmap(struct vm_struct *area)
{
	unmap_range((unsigned long)area->addr, (unsigned long)area->addr + ADDR(area->nr_pages));
}

void plain_free(const void *addr)
{
	struct vm_struct *area;

	might_sleep();
	if (!addr)
		return;
	area = vm_free_with(plain, (unsigned long)addr, unmap);
	if (WARN_ON(!area))
		return;
	give_pages(area->pages, area->nr_pages);
	kvfree(area->pages);
	kfree(area);
}

/* Addresses for the caller's pages, for a short while: they come of a block, and have no record. */
void *plain_map_ram(struct page **pages, unsigned int count, int node)
{
	unsigned long addr = vm_short(plain, count), end = addr + ADDR(count);

	if (!addr || !map_range(addr, end, PAGE_KERNEL, pages, PAGE_SHIFT, GFP_KERNEL))
		return (void *)addr;
	plain_unmap_ram((void *)addr, count);
	return NULL;
}

void plain_unmap_ram(const void *addr, unsigned int count)
{
	unmap_range((unsigned long)addr, (unsigned long)addr + ADDR(count));
	WARN_ON(!vm_short_end(plain, (unsigned long)addr, count));
}
