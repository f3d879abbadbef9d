/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's own suite over ours: each name leads to bench.c. */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#undef __vmalloc
#undef __vmalloc_node
#undef vmalloc
#undef vzalloc
#undef vmalloc_huge
void *ours_alloc(unsigned long size, unsigned long align, gfp_t gfp, int node, const void *caller);
void ours_free(const void *addr);
void *plain_map_ram(struct page **pages, unsigned int count, int node);
void plain_unmap_ram(const void *addr, unsigned int count);
#define __vmalloc_node(...) ours_alloc(__VA_ARGS__)
#define __vmalloc(n, gfp) vmalloc_huge(n, gfp)
#define vmalloc_huge(n, gfp) ours_alloc(n, 1, gfp, NUMA_NO_NODE, __builtin_return_address(0))
#define vmalloc(n) vmalloc_huge(n, GFP_KERNEL)
#define vfree(p) ours_free(p)
#define vm_map_ram(...) plain_map_ram(__VA_ARGS__)
#define vm_unmap_ram(...) plain_unmap_ram(__VA_ARGS__)
