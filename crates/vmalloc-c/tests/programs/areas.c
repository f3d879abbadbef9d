/* Areas: made, found, resized, freed, counted. */
#include "check.h"

static int count(void *context, const vmalloc_area *area)
{
    CHECK(area->size == sizeof(vmalloc_area) && area->pages > 0);
    *(int *)context += 1;
    return 0;
}

static int stop(void *context, const vmalloc_area *area)
{
    (void)context, (void)area;
    return 7;
}

static int collect(void *context, const char *text, size_t bytes)
{
    strncat(context, text, bytes);
    return 0;
}

/* Areas of one size, again and again: what the quick way has to refuse, and whose record is found. */
static void records(vmalloc_space *space)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    vmalloc_area area = VMALLOC_AREA_INIT;
    for (uint64_t turn = 1; turn < 200; turn++) {
        request.bytes = 3 * page() - 1;
        request.record = turn % 3;
        char *memory = vmalloc_alloc_with(space, &request, NULL);
        CHECK(memory != NULL && vmalloc_find(space, memory + 1, &area, NULL) == 0);
        CHECK(area.record == turn % 3 && area.kind == VMALLOC_KIND_MEMORY);
        CHECK(vmalloc_unreserve(space, memory, NULL) < 0);
        CHECK(vmalloc_free(space, memory + 1, NULL) == -EINVAL);
        CHECK(vmalloc_free(space, memory, NULL) == 0 && vmalloc_free(space, memory, NULL) == -EALREADY);
        char *addresses = vmalloc_reserve(space, &request, NULL);
        CHECK(addresses != NULL && vmalloc_find(space, addresses, &area, NULL) == 0);
        CHECK(area.record == turn % 3 && area.kind == VMALLOC_KIND_RESERVED);
        CHECK(vmalloc_free(space, addresses, NULL) < 0);
        CHECK(vmalloc_unreserve(space, addresses, NULL) == 0);
        CHECK(vmalloc_unreserve(space, addresses, NULL) < 0);
        request.bytes = 0;
        CHECK(vmalloc_alloc_with(space, &request, NULL) == NULL && errno == EINVAL);
        request.bytes = SIZE_MAX;
        CHECK(vmalloc_reserve(space, &request, NULL) == NULL);
        request.bytes = 1;
        request.align = 3;
        CHECK(vmalloc_alloc_with(space, &request, NULL) == NULL && errno == EINVAL);
        request.align = 0;
    }
}

static void memory(vmalloc_space *space)
{
    char *one = vmalloc_alloc(space, 10000, NULL);
    CHECK(one != NULL && (uintptr_t)one % page() == 0);
    memset(one, 1, 10000);
    CHECK(vmalloc_usable_size(space, one) >= 10000);
    char *two = vmalloc_zalloc(space, 100000, NULL);
    for (int at = 0; at < 100000; at += 1000)
        CHECK(two[at] == 0);
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 50000;
    request.align = 1 << 20;
    request.flags = VMALLOC_ZERO;
    request.tag = "frame buffer";
    request.record = 3;
    char *three = vmalloc_alloc_with(space, &request, NULL);
    CHECK(three != NULL && (uintptr_t)three % (1 << 20) == 0 && three[49999] == 0);

    vmalloc_area area = VMALLOC_AREA_INIT;
    CHECK(vmalloc_find(space, three + 4711, &area, NULL) == 0);
    CHECK(area.addr == (uintptr_t)three && area.bytes >= 50000 && area.guard == 1);
    CHECK(area.kind == VMALLOC_KIND_MEMORY && strcmp(area.tag, "frame buffer") == 0);
    CHECK(area.record == 3 && vmalloc_set_record(space, two, UINT64_MAX, NULL) == 0);
    CHECK(vmalloc_try_find(space, two + 1, &area, NULL) == 0 && area.addr == (uintptr_t)two);
    CHECK(area.record == UINT64_MAX && vmalloc_set_record(space, two + 1, 1, NULL) == -EINVAL);
    int areas = 0;
    CHECK(vmalloc_walk(space, NULL, count, &areas, NULL) == 0 && areas == 3);
    areas = 0;
    CHECK(vmalloc_find_tag(space, "frame buffer", count, &areas, NULL) == 0 && areas == 1);
    CHECK(vmalloc_walk(space, NULL, stop, NULL, NULL) == 7);
    static char text[4096];
    CHECK(vmalloc_info(space, collect, text, NULL) == 0 && strstr(text, "frame buffer") != NULL);

    CHECK(vmalloc_free(space, one, NULL) == 0);
    CHECK(vmalloc_free_altered(space, two, NULL) == 0);
    CHECK(vmalloc_remove(space, three, &area, NULL) == 0 && area.bytes >= 50000);
    CHECK(vmalloc_free(space, NULL, NULL) == 0);
    CHECK(vmalloc_free_atomic(space, vmalloc_alloc(space, 1, NULL), NULL) == 0);
}

static void sizes(vmalloc_space *space)
{
    char *memory = vmalloc_realloc(space, NULL, 3 * page(), NULL);
    memset(memory, 7, 3 * page());
    memory = vmalloc_realloc(space, memory, 300 * page(), NULL);
    CHECK(memory != NULL && memory[0] == 7 && memory[3 * page() - 1] == 7);
    CHECK(vmalloc_shrink_in_place(space, memory, page(), NULL) == 0);
    CHECK(vmalloc_usable_size(space, memory) == page());
    CHECK(vmalloc_grow_in_place(space, memory, 2 * page(), NULL) == 0);
    memory[2 * page() - 1] = 1;
    vmalloc_resize resize = VMALLOC_RESIZE_INIT;
    resize.bytes = 20 * page();
    resize.align = 1 << 21;
    resize.flags = VMALLOC_ZERO;
    memory = vmalloc_realloc_with(space, memory, &resize, NULL);
    CHECK(memory != NULL && (uintptr_t)memory % (1 << 21) == 0 && memory[0] == 7 && memory[20 * page() - 1] == 0);
    CHECK(vmalloc_free(space, memory, NULL) == 0);
}

static void others(vmalloc_space *space)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = (size_t)1 << 30;
    char *addresses = vmalloc_reserve(space, &request, NULL);
    CHECK(addresses != NULL && vmalloc_contains(space, addresses) == 1);
    CHECK(vmalloc_unreserve(space, addresses, NULL) == 0);
    CHECK(vmalloc_contains(space, &request) == 0 && vmalloc_contains(NULL, NULL) == 0);

    char *small = vmalloc_alloc_or_heap(space, 100, 16, NULL);
    char *large = vmalloc_alloc_or_heap(space, 100000, 16, NULL);
    CHECK(small != NULL && !vmalloc_contains(space, small) && vmalloc_contains(space, large));
    CHECK(vmalloc_free_or_heap(space, small, 100, 16, NULL) == 0);
    CHECK(vmalloc_free_or_heap(space, large, 100000, 16, NULL) == 0);

#ifdef __x86_64__
    static const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 }; /* return 42 */
    request.bytes = sizeof code;
    unsigned char *memory = vmalloc_alloc_exec(space, &request, NULL);
    memcpy(memory, code, sizeof code);
    CHECK(vmalloc_protect(space, memory, VMALLOC_READ_EXECUTE, NULL) == 0);
    int (*function)(void);
    memcpy(&function, &memory, sizeof function);
    CHECK(function() == 42);
    CHECK(vmalloc_free(space, memory, NULL) == 0);
#endif
}

static void counts(vmalloc_space *space)
{
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    void *memory = vmalloc_alloc(space, 1 << 20, NULL);
    /* An area that the drain thread moves meanwhile may be counted twice, and not as busy. */
    for (int look = 0; look < 1000 && stats.busy_pages < (1 << 20) / page(); look++)
        CHECK(vmalloc_get_stats(space, &stats, NULL) == 0);
    CHECK(stats.busy_areas >= 1 && stats.page_bytes == page() && stats.busy_pages >= (1 << 20) / page());
    size_t nodes = vmalloc_node_count(space);
    vmalloc_node_stats node = VMALLOC_NODE_STATS_INIT;
    CHECK(nodes > 0 && vmalloc_get_node_stats(space, nodes - 1, &node, NULL) == 0);
    char byte = 9, copy[2] = { 9, 9 };
    size_t mapped = 7;
    memset(memory, byte, 1);
    CHECK(vmalloc_read(space, memory, copy, 2, &mapped, NULL) == 0 && copy[0] == 9 && mapped == 2);
    CHECK(vmalloc_read(space, (void *)8, copy, 2, &mapped, NULL) == 0 && copy[0] == 0 && mapped == 0);
    uint64_t number = 0;
    int told = vmalloc_physical_page(space, memory, &number, NULL);
    CHECK(told == 0 || told == -ENOENT);
    CHECK(vmalloc_free(space, memory, NULL) == 0);
    CHECK(vmalloc_decay(space, NULL) == 0 && vmalloc_drain(space, NULL) >= 0 && vmalloc_flush(space, NULL) == 0);
    uint64_t evicted = 99;
    CHECK(vmalloc_shrink(space, vmalloc_shrinkable(space), &evicted, NULL) == 0 && evicted < 99);
    CHECK(vmalloc_purge(space, NULL) == 0 && vmalloc_verify(space, NULL) == 0);
    CHECK(vmalloc_get_stats(space, &stats, NULL) == 0);
    size_t start, end;
    CHECK(vmalloc_span(space, &start, &end, NULL) == 0 && (end - start) / page() == stats.span_pages);
    CHECK(stats.busy_areas == 0 && stats.free_pages == stats.span_pages);
}

int main(void)
{
    CHECK(vmalloc_version() == VMALLOC_VERSION && strcmp(vmalloc_version_text(), "") != 0);
    for (uint32_t flags = 0; flags < 16; flags += 2) {
        vmalloc_space *space = open_space(flags);
        memory(space);
        sizes(space);
        others(space);
        counts(space);
        records(space);
        vmalloc_close(space);
    }
    vmalloc_close(NULL);
    return 0;
}
