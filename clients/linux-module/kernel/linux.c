// SPDX-License-Identifier: GPL-2.0
/* What the core takes from Linux, and two spaces. plain.c and lazy.c are allocators over these. */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/workqueue.h>
#include "vm.h"

#define SPAN (1ul << 40)

int (*map_range)(unsigned long, unsigned long, pgprot_t, struct page **, unsigned int, gfp_t);
void (*unmap_range)(unsigned long, unsigned long);
void (*flush_range)(unsigned long, unsigned long);
void (*free_bulk)(struct page **, unsigned long);
static struct vm_struct *(*get_area)(unsigned long size, unsigned long flags);
static unsigned long (*lookup)(const char *name);

void *find_symbol(const char *name) { return (void *)lookup(name); }

struct vm *plain, *lazy;
static struct vm_struct *plain_span, *lazy_span;

/* A request that must not wait may want memory for the core as well. */
void *linux_heap_alloc(unsigned long bytes)
{
	return preemptible() ? kvmalloc(bytes, GFP_KERNEL) : kmalloc(bytes, GFP_ATOMIC);
}

void linux_heap_free(void *block) { kvfree(block); }
unsigned int linux_cpu(void) { return raw_smp_processor_id(); }
void linux_preempt_disable(void) { preempt_disable(); }
void linux_preempt_enable(void) { preempt_enable(); }
void linux_relax(void) { cpu_relax(); }
void linux_yield(void) { cond_resched(); cpu_relax(); }
void linux_zero(u64 start, u64 pages) { memset((void *)ADDR(start), 0, ADDR(pages)); }
void linux_print(const char *text, unsigned long bytes) { pr_cont("%.*s", (int)bytes, text); }
void linux_bug(void) { BUG(); }

static void drain_plain(struct work_struct *work) { vm_drain(plain); }
static void drain_lazy(struct work_struct *work) { vm_drain(lazy); }
static DECLARE_WORK(plain_work, drain_plain);
static DECLARE_WORK(lazy_work, drain_lazy);

bool linux_drain_later(u64 start)
{
	schedule_work(ADDR(start) == (unsigned long)plain_span->addr ? &plain_work : &lazy_work);
	return true;
}

static struct vm *open(struct vm_struct *span, bool lends_memory)
{
	return span ? vm_open((unsigned long)span->addr, SPAN, nr_cpu_ids, lends_memory) : NULL;
}

static void stop(void)
{
	unsigned int wrong = 0;

	flush_work(&plain_work);
	flush_work(&lazy_work);
	if (plain)
		wrong = vm_close(plain);
	if (lazy)
		wrong |= vm_close(lazy);
	if (plain_span)
		free_vm_area(plain_span);
	if (lazy_span)
		free_vm_area(lazy_span);
	pr_info("closed, wrong %u\n", wrong);
}

static int __init start(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };

	if (register_kprobe(&probe))
		return -ENOENT;
	lookup = (void *)probe.addr;
	unregister_kprobe(&probe);
	get_area = find_symbol("get_vm_area");
	flush_range = find_symbol("flush_tlb_kernel_range");
	map_range = find_symbol("__vmap_pages_range_noflush");
	unmap_range = find_symbol("__vunmap_range_noflush");
	free_bulk = find_symbol("free_pages_bulk");
	if (!get_area || !flush_range || !map_range || !unmap_range)
		return -ENOENT;
	plain_span = get_area(SPAN, VM_MAP);
	lazy_span = get_area(SPAN, VM_MAP);
	plain = open(plain_span, false);
	lazy = open(lazy_span, true);
	if (plain && lazy)
		return 0;
	stop();
	return -ENOMEM;
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Areas whose addresses come from the core of vmalloc");
