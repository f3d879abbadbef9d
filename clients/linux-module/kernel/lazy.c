// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of the core. A free touches neither the page table nor the pages: a purge takes the pages
 * of many areas out of the table, flushes once, and then frees them all.
 */
#include "vm.h"

/* Pages that no table shows any more, and that a CPU may still reach at these addresses. */
static LIST_HEAD(gone);
static unsigned long gone_start = ULONG_MAX, gone_end;
static DEFINE_SPINLOCK(gone_lock);

void linux_unmap(u64 start, u64 pages)
{
	LIST_HEAD(found);

	take_pages(ADDR(start), ADDR(start + pages), &found);
	spin_lock(&gone_lock);
	list_splice(&found, &gone);
	gone_start = min(gone_start, ADDR(start));
	gone_end = max(gone_end, ADDR(start + pages));
	spin_unlock(&gone_lock);
}

/* Flushes on every CPU what was unmapped, and only then frees the pages. */
void linux_flush(u64 start, u64 end)
{
	unsigned long from, to;
	LIST_HEAD(flushed);

	spin_lock(&gone_lock);
	list_splice_init(&gone, &flushed);
	from = min(gone_start, ADDR(start));
	to = max(gone_end, ADDR(end));
	gone_start = ULONG_MAX;
	gone_end = 0;
	spin_unlock(&gone_lock);
	flush_range(from, to);
	give_list(&flushed);
}

int linux_map(u64 start, u64 count, struct context how)
{
	struct page *pages[64];
	u64 done, now;

	for (done = 0; done < count; done += now) {
		now = min(count - done, 64ull);
		memset(pages, 0, now * sizeof(*pages));
		if (!put_pages(ADDR(start + done), pages, now, how)) {
			linux_unmap(start, done);
			linux_flush(start, start + done);
			return -ENOMEM;
		}
	}
	return 0;
}

void *lazy_alloc(unsigned long size, unsigned long align, gfp_t gfp, int node, const void *caller)
{
	unsigned long addr = 0, at;

	if (PAGES(size) <= totalram_pages())
		addr = vm_alloc(lazy, size, align, NULL, context_of(gfp & ~__GFP_ZERO, node));

	for (at = addr; addr && gfp & __GFP_ZERO && at < addr + size; at += PAGE_SIZE)
		clear_page((void *)at);
	return (void *)addr;
}

void lazy_free(const void *addr)
{
	WARN_ON(addr && !vm_free(lazy, (unsigned long)addr));
}
