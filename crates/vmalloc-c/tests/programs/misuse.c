/* Every call with NULL, and what each makes of wrong addresses, sizes and structs. */
#include "check.h"

static int seen(void *context, const vmalloc_area *area)
{
    (void)context, (void)area;
    return 0;
}

static void no_space(void)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    vmalloc_area area = VMALLOC_AREA_INIT;
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    vmalloc_node_stats node = VMALLOC_NODE_STATS_INIT;
    vmalloc_slots_options slots = VMALLOC_SLOTS_OPTIONS_INIT;
    size_t bytes = 1;
    uint64_t number = 0;
    void *base = NULL;
    char room[8];
    NO_POINTER(vmalloc_alloc(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_zalloc(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_alloc_with(NULL, &request, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_reserve(NULL, &request, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_alloc_or_heap(NULL, 1, 1, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_alloc_exec(NULL, &request, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_alloc_shared(NULL, &request, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_map_shared(NULL, room, 1, 0, NULL, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_map_frames(NULL, NULL, 0, 0, NULL, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_map_short(NULL, NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_realloc(NULL, room, 1, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_frames_take(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_frames_take_run(NULL, 1, 1, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_mapping_new(NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_slots_new(NULL, &slots, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_notifier_new(NULL, NULL, NULL, NULL, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_watch_new(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_free(NULL, room, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_free_altered(NULL, room, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_free_atomic(NULL, room, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_free_or_heap(NULL, room, 1, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_unreserve(NULL, room, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_unmap(NULL, room, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_unmap_short(NULL, room, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_pages(NULL, room, NULL, 0, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_unmap_pages(NULL, room, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_alloc_congruent(NULL, &bytes, &bytes, 1, 1, &base, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_free_congruent(NULL, room, &bytes, &bytes, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_grow_in_place(NULL, room, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_shrink_in_place(NULL, room, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_find(NULL, room, &area, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_try_find(NULL, room, &area, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_remove(NULL, room, &area, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_walk(NULL, NULL, seen, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_find_tag(NULL, "x", seen, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_info(NULL, NULL, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_get_stats(NULL, &stats, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_get_node_stats(NULL, 0, &node, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_purge(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_flush(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_decay(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_drain(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_shrink(NULL, 1, &number, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_verify(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_read(NULL, room, room, 1, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_physical_page(NULL, room, &number, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_commit(NULL, NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_decommit(NULL, NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_discard(NULL, NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_reset(NULL, NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_protect(NULL, room, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_span(NULL, NULL, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_frames_swap(NULL, 0, 0, detail), EINVAL, VMALLOC_E_NULL);
    CHECK(vmalloc_usable_size(NULL, room) == 0 && vmalloc_node_count(NULL) == 0 && vmalloc_shrinkable(NULL) == 0);
    CHECK(vmalloc_frames_count(NULL) == 0 && vmalloc_frames_numbers(NULL) == NULL);
    CHECK(vmalloc_mapping_addr(NULL) == NULL && vmalloc_mapping_size(NULL) == 0);
    vmalloc_frames_free(NULL), vmalloc_mapping_free(NULL), vmalloc_notifier_free(NULL), vmalloc_watch_free(NULL);
}

static void addresses(vmalloc_space *space)
{
    char *memory = vmalloc_alloc(space, 3 * page(), NULL);
    int local;
    vmalloc_error error;
    CHECK(vmalloc_free(space, memory + page(), &error) == -EINVAL && error.code == VMALLOC_E_INTERIOR);
    CHECK(error.addr == (uintptr_t)(memory + page()) && error.other_start == (uintptr_t)memory);
    REFUSED(vmalloc_free(space, memory + 1, detail), EINVAL, VMALLOC_E_UNALIGNED);
    REFUSED(vmalloc_free(space, (void *)((uintptr_t)&local & ~(page() - 1)), detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_free_atomic(space, memory + page(), detail), EINVAL, VMALLOC_E_INTERIOR);
    REFUSED(vmalloc_unreserve(space, memory, detail), EPERM, VMALLOC_E_WRONG_KIND);
    REFUSED(vmalloc_unmap(space, memory, detail), EPERM, VMALLOC_E_WRONG_KIND);
    REFUSED(vmalloc_protect(space, memory, 0, detail), EPERM, VMALLOC_E_WRONG_KIND);
    REFUSED(vmalloc_protect(space, memory, 9, detail), EINVAL, VMALLOC_E_VALUE);
    NO_POINTER(vmalloc_realloc(space, memory + page(), 1, detail), EINVAL, VMALLOC_E_INTERIOR);
    NO_POINTER(vmalloc_realloc(space, memory, 0, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    REFUSED(vmalloc_shrink_in_place(space, memory, 900 * page(), detail), ERANGE, VMALLOC_E_BEYOND);
    REFUSED(vmalloc_get_node_stats(space, 12345, &(vmalloc_node_stats)VMALLOC_NODE_STATS_INIT, detail), EINVAL,
            VMALLOC_E_NODE);
    memset(memory, 1, 3 * page());
    CHECK(vmalloc_free(space, memory, NULL) == 0);
    CHECK(vmalloc_free(space, memory, &error) == -EALREADY && error.code == VMALLOC_E_ALREADY_FREED);
    CHECK(strstr(error.text, "freed already") != NULL);
    NO_POINTER(vmalloc_realloc(space, memory, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
}

/* One address of memory that is none of the space's, or of the space's and in no area. */
static void foreign(vmalloc_space *space, char *addr)
{
    vmalloc_area area = VMALLOC_AREA_INIT;
    vmalloc_range range = { addr, page() };
    vmalloc_frames *frames = vmalloc_frames_take(space, 1, NULL);
    size_t zero = 0, bytes = page();
    CHECK(frames != NULL);
    REFUSED(vmalloc_free(space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_free_altered(space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_free_atomic(space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_free_congruent(space, addr, &zero, &bytes, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_unreserve(space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_unmap(space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_unmap_short(space, addr, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    NO_POINTER(vmalloc_realloc(space, addr, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_grow_in_place(space, addr, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_shrink_in_place(space, addr, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_find(space, addr, &area, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_try_find(space, addr, &area, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_remove(space, addr, &area, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_protect(space, addr, 0, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_commit(space, &range, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_decommit(space, &range, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_discard(space, &range, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_reset(space, &range, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    NO_POINTER(vmalloc_map_shared(space, addr, page(), 0, NULL, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_map_pages(space, addr, vmalloc_frames_numbers(frames), 1, 0, detail), EFAULT,
            VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_unmap_pages(space, addr, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    CHECK(vmalloc_usable_size(space, addr) == 0);
    vmalloc_frames_free(frames);
}

/* What the header says of an address in no area holds at a page boundary and beside one. */
static void foreign_addresses(vmalloc_space *space)
{
    static char data[3];
    size_t start, behind;
    int local;
    char *block = malloc(100);
    CHECK(block != NULL && vmalloc_span(space, &start, &behind, NULL) == 0);
    char *end = (char *)behind;
    char *const all[] = {
        block, block + 16, (char *)&local, data + 1, (char *)1, (char *)page(), end - 1, end - page(), end, end + 7
    };
    for (size_t nth = 0; nth < sizeof all / sizeof *all; nth++)
        foreign(space, all[nth]);
    free(block);
}

/* An address inside an area is told apart from foreign memory. */
static void inner_addresses(vmalloc_space *space)
{
    char *memory = vmalloc_alloc(space, 3 * page(), NULL);
    CHECK(memory != NULL);
    for (size_t nth = 0; nth < 3; nth++) {
        char *odd = memory + nth * page() + 8;
        REFUSED(vmalloc_free(space, odd, detail), EINVAL, VMALLOC_E_UNALIGNED);
        REFUSED(vmalloc_free_altered(space, odd, detail), EINVAL, VMALLOC_E_UNALIGNED);
        REFUSED(vmalloc_free_atomic(space, odd, detail), EINVAL, VMALLOC_E_UNALIGNED);
        REFUSED(vmalloc_unreserve(space, odd, detail), EINVAL, VMALLOC_E_UNALIGNED);
        REFUSED(vmalloc_unmap(space, odd, detail), EINVAL, VMALLOC_E_UNALIGNED);
        NO_POINTER(vmalloc_realloc(space, odd, 1, detail), EINVAL, VMALLOC_E_UNALIGNED);
        REFUSED(vmalloc_shrink_in_place(space, odd, 1, detail), EINVAL, VMALLOC_E_UNALIGNED);
    }
    CHECK(vmalloc_free(space, memory, NULL) == 0);
}

static void requests(vmalloc_space *space)
{
    NO_POINTER(vmalloc_alloc(space, 0, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    NO_POINTER(vmalloc_alloc(space, SIZE_MAX, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    vmalloc_error error;
    errno = 0;
    CHECK(vmalloc_alloc(space, (size_t)1 << 46, &error) == NULL && errno == ENOSPC);
    CHECK(error.code == VMALLOC_E_NO_SPACE && error.family == VMALLOC_FAMILY_ROOM);
    CHECK(error.requested >= (uint64_t)1 << 46 && error.largest_free > 0 && error.largest_free < error.requested);
    NO_POINTER(vmalloc_alloc_or_heap(space, 0, 1, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    NO_POINTER(vmalloc_alloc_or_heap(space, 1, 3, detail), EINVAL, VMALLOC_E_ALIGN);
    NO_POINTER(vmalloc_alloc_or_heap(space, SIZE_MAX, 1, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    NO_POINTER(vmalloc_alloc_with(space, NULL, detail), EINVAL, VMALLOC_E_NULL);
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 1, request.align = 3;
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), EINVAL, VMALLOC_E_ALIGN);
    NO_POINTER(vmalloc_reserve(space, &request, detail), EINVAL, VMALLOC_E_ALIGN);
    request.align = 0, request.range_start = 5 * page(), request.range_end = 3 * page();
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), EINVAL, VMALLOC_E_LIMITS);
    request.range_end = 9 * page();
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), ERANGE, VMALLOC_E_OUTSIDE);
    request.range_start = request.range_end = 0, request.flags = 1u << 31;
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), EINVAL, VMALLOC_E_FLAGS);
    request.flags = VMALLOC_PLACE, request.policy = 77;
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), EINVAL, VMALLOC_E_VALUE);
    request.flags = VMALLOC_ON_NODE, request.policy = 0, request.node = 999;
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), EINVAL, VMALLOC_E_NODE);
    request.flags = 0, request.tag = "\xff";
    NO_POINTER(vmalloc_alloc_with(space, &request, detail), EINVAL, VMALLOC_E_NAME);
}

static void structs(vmalloc_space *space)
{
    struct later {
        vmalloc_request request;
        uint64_t more;
    } later = { VMALLOC_REQUEST_INIT, 0 };
    later.request.size = sizeof later, later.request.bytes = 1;
    void *memory = vmalloc_alloc_with(space, &later.request, NULL);
    CHECK(memory != NULL && vmalloc_free(space, memory, NULL) == 0);
    later.more = 1;
    NO_POINTER(vmalloc_alloc_with(space, &later.request, detail), E2BIG, VMALLOC_E_UNKNOWN_BYTES);
    later.request.size = 8;
    NO_POINTER(vmalloc_alloc_with(space, &later.request, detail), EINVAL, VMALLOC_E_STRUCT_SIZE);
    later.request.size = SIZE_MAX;
    NO_POINTER(vmalloc_alloc_with(space, &later.request, detail), EINVAL, VMALLOC_E_STRUCT_SIZE);
    vmalloc_stats stats = { 0 };
    REFUSED(vmalloc_get_stats(space, &stats, detail), EINVAL, VMALLOC_E_STRUCT_SIZE);
    REFUSED(vmalloc_get_stats(space, NULL, detail), EINVAL, VMALLOC_E_NULL);
    vmalloc_area area = { 0 };
    memory = vmalloc_alloc(space, 1, NULL);
    REFUSED(vmalloc_find(space, memory, &area, detail), EINVAL, VMALLOC_E_STRUCT_SIZE);
    REFUSED(vmalloc_remove(space, memory, &area, detail), EINVAL, VMALLOC_E_STRUCT_SIZE);
    CHECK(vmalloc_free(space, memory, NULL) == 0);
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.flags = 1u << 30;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_FLAGS);
    options.flags = VMALLOC_OPEN_UNMAP_ON_FREE, options.cache_bytes = 1;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_FLAGS);
    options.flags = 0, options.cache_bytes = 0, options.max_bytes = 12345;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_NOT_PAGES);
    options.max_bytes = 0, options.nodes = 1000;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_NODE);
    options.nodes = 0, options.block_slots = 63;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_COUNT);
    options.block_slots = 0, options.policy = 9;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_VALUE);
    options.policy = 0, options.guards = 9;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_VALUE);
    options.guards = 0, options.max_slack_percent = 101;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_VALUE);
}

int main(void)
{
    no_space();
    vmalloc_space *space = open_space(0);
    addresses(space);
    foreign_addresses(space);
    inner_addresses(space);
    requests(space);
    structs(space);
    CHECK(vmalloc_verify(space, NULL) == 0);
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    CHECK(vmalloc_get_stats(space, &stats, NULL) == 0 && stats.busy_areas == 0);
    vmalloc_close(space);
    return 0;
}
