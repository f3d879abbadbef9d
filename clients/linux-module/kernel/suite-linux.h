/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's own suite over Linux: bench.c has looked up what is not exported. */
#include <linux/vmalloc.h>
#undef __vmalloc_node
extern void *(*linux_vmalloc_node)(unsigned long, unsigned long, gfp_t, int, const void *);
#define __vmalloc_node(...) linux_vmalloc_node(__VA_ARGS__)
