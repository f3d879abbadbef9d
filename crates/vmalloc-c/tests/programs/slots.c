/* Slots of one size. */
#include "check.h"

int main(void)
{
    vmalloc_space *space = open_space(0);
    vmalloc_slots_options options = VMALLOC_SLOTS_OPTIONS_INIT;
    options.slot_bytes = 1 << 26, options.max_slots = 2;
    vmalloc_slots *pool = vmalloc_slots_new(space, &options, NULL);
    vmalloc_close(space); /* the pool keeps it */
    vmalloc_slot *one = vmalloc_slot_alloc(pool, NULL);
    vmalloc_slot *two = vmalloc_slot_alloc_for(pool, 7, NULL);
    CHECK(one != NULL && two != NULL && vmalloc_slot_size(one) == 1 << 26 && vmalloc_slot_committed(one) == 65536);
    NO_POINTER(vmalloc_slot_alloc(pool, detail), ENOSPC, VMALLOC_E_EXHAUSTED);
    char *bytes = vmalloc_slot_addr(one);
    bytes[65535] = 1;
    CHECK(vmalloc_slot_grow(one, 1 << 20, NULL) == 0 && vmalloc_slot_committed(one) == 1 << 20);
    bytes[(1 << 20) - 1] = 1;
    REFUSED(vmalloc_slot_grow(one, (1 << 26) + 1, detail), ERANGE, VMALLOC_E_BEYOND);
    CHECK(vmalloc_slot_reset(one, NULL, 0, NULL) == 0 && bytes[65535] == 0 && bytes[(1 << 20) - 1] == 0);
    bytes[5] = 1;
    vmalloc_slot_bytes dirty = { 0, 6 };
    REFUSED(vmalloc_slot_free(one, NULL, 3, detail), EINVAL, VMALLOC_E_NULL);
    CHECK(bytes[5] == 1 && vmalloc_slot_free(one, &dirty, 1, NULL) == 0);
    one = vmalloc_slot_alloc(pool, NULL);
    CHECK(((char *)vmalloc_slot_addr(one))[5] == 0);
    vmalloc_slots_stats stats = VMALLOC_SLOTS_STATS_INIT;
    CHECK(vmalloc_slots_get_stats(pool, &stats, NULL) == 0 && stats.reserved == 2);
    CHECK(vmalloc_slot_free(two, NULL, 0, NULL) == 0 && vmalloc_slot_free(NULL, NULL, 0, NULL) == 0);
    CHECK(vmalloc_slots_flush(pool, NULL) == 0 && vmalloc_slots_trim(pool, 0, NULL) == 0);
    vmalloc_slots_free(pool); /* its last slot keeps it */
    ((char *)vmalloc_slot_addr(one))[0] = 1;
    CHECK(vmalloc_slot_free(one, NULL, 0, NULL) == 0);

    space = open_space(0);
    NO_POINTER(vmalloc_slots_new(space, NULL, detail), EINVAL, VMALLOC_E_NULL);
    options.slot_bytes = 0;
    NO_POINTER(vmalloc_slots_new(space, &options, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    options.slot_bytes = 4096, options.head_bytes = 8192;
    NO_POINTER(vmalloc_slots_new(space, &options, detail), ERANGE, VMALLOC_E_BEYOND);
    options.flags = VMALLOC_SLOTS_NO_HEAD;
    NO_POINTER(vmalloc_slots_new(space, &options, detail), EINVAL, VMALLOC_E_FLAGS);
    options.head_bytes = 0, options.flags = 0, options.max_slots = (size_t)-1;
    NO_POINTER(vmalloc_slots_new(space, &options, detail), EINVAL, VMALLOC_E_COUNT);
    options.max_slots = 0, options.slot_bytes = (size_t)1 << 50;
    NO_POINTER(vmalloc_slots_new(space, &options, detail), ERANGE, VMALLOC_E_TOO_LARGE);
    options.slot_bytes = 4096, options.reserved = 1;
    NO_POINTER(vmalloc_slots_new(space, &options, detail), EINVAL, VMALLOC_E_VALUE);
    NO_POINTER(vmalloc_slot_alloc(NULL, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_slot_alloc_for(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_slot_grow(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_slot_reset(NULL, NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_slots_flush(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_slots_trim(NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_slots_get_stats(NULL, &stats, detail), EINVAL, VMALLOC_E_NULL);
    CHECK(vmalloc_slot_addr(NULL) == NULL && vmalloc_slot_size(NULL) == 0 && vmalloc_slot_committed(NULL) == 0);
    vmalloc_slots_free(NULL);
    vmalloc_close(space);
    return 0;
}
