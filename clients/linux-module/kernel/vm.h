/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define PAGES(size) (PAGE_ALIGN(size) >> PAGE_SHIFT)
#define ADDR(page) ((unsigned long)(page) << PAGE_SHIFT)

/* How an allocation asks for pages: the core hands it from vm_alloc to linux_map. */
struct context {
	gfp_t gfp;
	int node;
	bool may_wait;
};

static inline struct context context_of(gfp_t gfp, int node)
{
	return (struct context){ gfp | __GFP_NOWARN, node, gfpflags_allow_blocking(gfp) };
}

/* The Rust half. */
struct vm *vm_open(unsigned long start, unsigned long bytes, unsigned int cpus, bool lends_memory);
unsigned int vm_close(struct vm *vm);
void vm_flush(struct vm *vm);
void vm_purge(struct vm *vm);
void vm_drain(struct vm *vm);
unsigned long vm_alloc(struct vm *vm, unsigned long bytes, unsigned long align, void *record,
		       struct context context);
bool vm_free(struct vm *vm, unsigned long addr);
void *vm_free_with(struct vm *vm, unsigned long addr, void (*unmap)(struct vm_struct *record));
unsigned long vm_short(struct vm *vm, u64 pages);
bool vm_short_end(struct vm *vm, unsigned long addr, u64 pages);

/* linux.c: the two spaces, and what Linux does not export. */
extern struct vm *plain, *lazy;
extern int (*map_range)(unsigned long start, unsigned long end, pgprot_t prot, struct page **pages,
			unsigned int shift, gfp_t gfp);
extern void (*unmap_range)(unsigned long start, unsigned long end);
extern void (*flush_range)(unsigned long start, unsigned long end);
extern void (*free_bulk)(struct page **pages, unsigned long count); /* since 7.0 */
void *find_symbol(const char *name);

/* pages.c */
bool put_pages(unsigned long addr, struct page **pages, unsigned long count, struct context how);
void take_pages(unsigned long addr, unsigned long end, struct list_head *found);
void give_pages(struct page **pages, unsigned long count);
void give_list(struct list_head *pages);

/* Each design has the calls of Linux. */
void *plain_alloc(unsigned long size, unsigned long align, gfp_t gfp, int node, const void *caller);
void plain_free(const void *addr);
void *plain_map_ram(struct page **pages, unsigned int count, int node);
void plain_unmap_ram(const void *addr, unsigned int count);
void *lazy_alloc(unsigned long size, unsigned long align, gfp_t gfp, int node, const void *caller);
void lazy_free(const void *addr);
