// SPDX-License-Identifier: GPL-2.0
/*
 * What `cargo xtask inside-linux` measures, over Linux's functions and over ours. A word that is
 * written to the parameter `bench` chooses what. A figure ends with its side's flush, and
 * each design is measured twice, before the others and after them.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include "vm.h"

/* What the kernel's own suite calls: suite-linux.h, suite-ours.h. */
static bool use_lazy;
module_param(use_lazy, bool, 0644);
void *(*linux_vmalloc_node)(unsigned long, unsigned long, gfp_t, int, const void *);
EXPORT_SYMBOL_GPL(linux_vmalloc_node);

void *ours_alloc(unsigned long size, unsigned long align, gfp_t gfp, int node, const void *caller)
{
	return use_lazy ? lazy_alloc(size, align, gfp, node, caller) : plain_alloc(size, align, gfp, node, caller);
}
EXPORT_SYMBOL_GPL(ours_alloc);

void ours_free(const void *addr) { use_lazy ? lazy_free(addr) : plain_free(addr); }
EXPORT_SYMBOL_GPL(ours_free);
EXPORT_SYMBOL_GPL(plain_map_ram);
EXPORT_SYMBOL_GPL(plain_unmap_ram);

struct design {
	const char *name;
	void *(*alloc)(unsigned long bytes);
	void (*free)(void *area);
	void (*flush)(void);
	/* Forgets which sizes were freed lately, so that a row does not depend on the one before. */
	void (*settle)(void);
	bool has_memory;
};

static struct vm_struct *(*get_area)(unsigned long size, unsigned long flags);
static struct vm_struct *(*find_area)(const void *addr);

static void *linux_alloc(unsigned long bytes) { return vmalloc(bytes); }
static void linux_free(void *area) { vfree(area); }
static void linux_end(void) { vm_unmap_aliases(); }
/* Linux gives a part back with each flush. */
static void linux_settle(void)
{
	int nth;

	for (nth = 0; nth < 20; nth++)
		vm_unmap_aliases();
}
static void *ours_plain(unsigned long bytes)
{
	return plain_alloc(bytes, 1, GFP_KERNEL, NUMA_NO_NODE, __builtin_return_address(0));
}
static void ours_plain_free(void *area) { plain_free(area); }
static void plain_end(void) { vm_flush(plain); }
static void plain_settle(void) { vm_purge(plain); }
static void *ours_lazy(unsigned long bytes)
{
	return lazy_alloc(bytes, 1, GFP_KERNEL, NUMA_NO_NODE, __builtin_return_address(0));
}
static void ours_lazy_free(void *area) { lazy_free(area); }
static void lazy_end(void) { vm_flush(lazy); }
static void lazy_settle(void) { vm_purge(lazy); }

/* Addresses alone, with a record. */
static void *linux_addresses(unsigned long bytes) { return get_area(bytes, VM_MAP)->addr; }
static void linux_addresses_end(void *area) { free_vm_area(find_area(area)); }
static void *ours_addresses(unsigned long bytes)
{
	struct vm_struct *area = kzalloc(sizeof(*area), GFP_KERNEL);

	area->caller = __builtin_return_address(0);
	area->size = bytes + PAGE_SIZE;
	area->addr = (void *)vm_alloc(plain, bytes, 1, area, context_of(GFP_KERNEL, NUMA_NO_NODE));
	return area->addr;
}
static void nothing(struct vm_struct *area) { }
static void ours_addresses_end(void *addr) { kfree(vm_free_with(plain, (unsigned long)addr, nothing)); }

static const struct design designs[] = {
	{ "linux", linux_alloc, linux_free, linux_end, linux_settle, true },
	{ "plain", ours_plain, ours_plain_free, plain_end, plain_settle, true },
	{ "lazy", ours_lazy, ours_lazy_free, lazy_end, lazy_settle, true },
	{ "linux addresses", linux_addresses, linux_addresses_end, linux_end, linux_settle, false },
	{ "plain addresses", ours_addresses, ours_addresses_end, plain_end, plain_settle, false },
};

/* What a row has taken, over all of its rounds. */
static struct row {
	const char *name;
	u64 ns;
	unsigned long count;
} rows[16];

static u64 started;
static void begin(void) { started = ktime_get_ns(); }
static void end(const char *name, unsigned long count)
{
	u64 ns = ktime_get_ns() - started;
	struct row *row = rows;

	while (row->name && strcmp(row->name, name))
		row++;
	row->name = name;
	row->ns += ns;
	row->count += count;
}

static void forget(void) { memset(rows, 0, sizeof(rows)); }

static void tell(const struct design *design)
{
	struct row *row;

	for (row = rows; row->name; row++)
		pr_info("ROW %s|%s|%llu\n", design->name, row->name, row->ns / row->count);
	forget();
}

/* An area whose first and last page are written to. */
static int *area_of(const struct design *design, unsigned long pages, int value)
{
	int *area = design->alloc(pages << PAGE_SHIFT);

	if (area && design->has_memory)
		area[0] = area[((pages << PAGE_SHIFT) - 4) / 4] = value;
	return area;
}

static void give(const struct design *design, int *area, int value)
{
	WARN_ON(!area || (design->has_memory && area[0] != value));
	design->free(area);
}

/* One round of pairs, with the flush. */
static void round_of(const struct design *design, const char *row, unsigned long pages, int count)
{
	int nth;

	begin();
	for (nth = 0; nth < count; nth++)
		give(design, area_of(design, pages, nth), nth);
	design->flush();
	end(row, count);
}

/* The rounds behind the first: a purge keeps addresses of the sizes that were asked for lately. */
static void pairs_of(const struct design *design, const char *row, unsigned long pages, int count)
{
	int round;

	design->settle();
	round_of(design, "warm", pages, count);
	for (round = 0; round < 5; round++)
		round_of(design, row, pages, count);
}

#define LIVE 10000
static void cycle(const struct design *design, int **live)
{
	int nth;

	begin();
	for (nth = 0; nth < LIVE; nth++)
		live[nth] = area_of(design, 1, nth);
	end("10,000 of 1 made, each", LIVE);
	begin();
	for (nth = 0; nth < LIVE; nth += 2)
		give(design, live[nth], nth);
	design->flush();
	end("every other freed and flushed, each", LIVE / 2);
	round_of(design, "pair of 2 among 5,000 holes", 2, LIVE / 2);
	begin();
	for (nth = 1; nth < LIVE; nth += 2)
		give(design, live[nth], nth);
	design->flush();
	end("the rest freed and flushed, each", LIVE / 2);
}

static void pairs(const struct design *design)
{
	int **live = kvcalloc(LIVE, sizeof(*live), GFP_KERNEL), round;

	pairs_of(design, "pair of 1", 1, 8000);
	pairs_of(design, "pair of 2", 2, 8000);
	if (design->has_memory) {
		pairs_of(design, "pair of 4", 4, 8000);
		pairs_of(design, "pair of 16", 16, 2500);
		pairs_of(design, "pair of 64", 64, 625);
	}
	tell(design);
	design->settle();
	for (round = 0; live && round < 4; round++) {
		cycle(design, live);
		if (!round)
			forget();
	}
	kvfree(live);
	tell(design);
}

#define THREADS 4
#define LOOPS 4000
static const struct design *under_load;
static DECLARE_COMPLETION(done);

static int replace(void *unused)
{
	int *held[16] = {}, nth;

	for (nth = 0; nth < LOOPS; nth++) {
		if (nth >= 16)
			give(under_load, held[nth % 16], nth - 16);
		held[nth % 16] = area_of(under_load, nth % 7 + 1, nth);
		cond_resched();
	}
	for (; nth < LOOPS + 16; nth++)
		give(under_load, held[nth % 16], nth - 16);
	complete(&done);
	return 0;
}

static void threads(const struct design *design)
{
	struct task_struct *task;
	int nth;

	under_load = design;
	begin();
	for (nth = 0; nth < THREADS; nth++) {
		task = kthread_create(replace, NULL, "replace%d", nth);
		kthread_bind(task, nth % num_online_cpus());
		wake_up_process(task);
	}
	for (nth = 0; nth < THREADS; nth++)
		wait_for_completion(&done);
	design->flush();
	end("4 threads, 4,000 replacements each", THREADS * LOOPS);
}

static void *lazy_now(unsigned long pages, gfp_t gfp)
{
	unsigned long switches;
	void *area;

	preempt_disable();
	switches = current->nvcsw;
	area = lazy_alloc(ADDR(pages), 1, gfp, NUMA_NO_NODE, NULL);
	WARN_ON(current->nvcsw != switches);
	preempt_enable();
	return area;
}

/* What an allocation says reaches the supply of pages: whether to wait, and which memory node to ask. */
static void contexts(void)
{
	int *held[16] = {}, nth, node, refused = 0;

	/* Pages of the table, which a request that must not wait can't have made. */
	lazy_free(lazy_alloc(ADDR(16384), 1, GFP_KERNEL, NUMA_NO_NODE, NULL));
	vm_flush(lazy);
	for_each_online_node(node) {
		held[0] = lazy_alloc(PAGE_SIZE, 1, GFP_KERNEL | __GFP_THISNODE, node, NULL);
		WARN_ON(!held[0] || page_to_nid(vmalloc_to_page(held[0])) != node);
		lazy_free(held[0]);
		held[0] = NULL;
	}
	for (nth = 0; nth < 1000; nth++) {
		lazy_free(held[nth % 16]);
		held[nth % 16] = lazy_now(nth % 8 + 1, nth % 2 ? GFP_ATOMIC : GFP_NOWAIT);
		if (held[nth % 16])
			held[nth % 16][0] = nth;
		else
			refused++;
	}
	for (nth = 0; nth < 16; nth++)
		lazy_free(held[nth]);
	WARN_ON(lazy_now(totalram_pages(), GFP_NOWAIT));
	vm_flush(lazy);
	pr_info("must not wait: %d of 1000 refused\n", refused);
	WARN_ON(refused);
}

static int find_all(void)
{
	get_area = find_symbol("get_vm_area");
	find_area = find_symbol("find_vm_area");
	linux_vmalloc_node = find_symbol("__vmalloc_node_noprof");
	if (!linux_vmalloc_node)
		linux_vmalloc_node = find_symbol("__vmalloc_node");
	return get_area && find_area && linux_vmalloc_node ? 0 : -ENOENT;
}

static int bench(const char *word, const struct kernel_param *param)
{
	int error = find_all(), pass, nth;

	if (!error && sysfs_streq(word, "contexts"))
		contexts();
	for (pass = 0; !error && pass < 2; pass++)
		for (nth = 0; nth < ARRAY_SIZE(designs); nth++) {
			const struct design *design = &designs[nth];

			if (sysfs_streq(word, "pairs")) {
				pairs(design);
			} else if (sysfs_streq(word, "threads") && design->has_memory) {
				threads(design);
				forget();
				threads(design);
				tell(design);
			} else if (sysfs_streq(word, "some") && pass) {
				round_of(design, "some", 2, 500);
				forget();
			} else if (sysfs_streq(word, "settle")) {
				design->settle();
			} else if (sysfs_streq(word, design->name) && pass) {
				begin();
				design->flush();
				end("flush", 1);
				tell(design);
			}
		}
	return error;
}

static const struct kernel_param_ops bench_ops = { .set = bench };
module_param_cb(bench, &bench_ops, NULL, 0200);
