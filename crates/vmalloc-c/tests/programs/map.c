/* The address map alone, on the heap and in memory of the program's. */
#include "check.h"

static int count(void *context, const vmalloc_segment *segment)
{
    CHECK(segment->end > segment->start);
    *(int *)context += 1;
    return 0;
}

static void use(vmalloc_map *map)
{
    vmalloc_fit fit = VMALLOC_FIT_INIT;
    uint64_t start, end;
    fit.pages = 5, fit.start = 3, fit.end = 1000;
    CHECK(vmalloc_map_alloc(map, &fit, &start, NULL) == 0 && start == 3);
    fit.start = 9, fit.align = 4;
    CHECK(vmalloc_map_alloc(map, &fit, &start, NULL) == 0 && start == 12);
    CHECK(vmalloc_map_alloc_at(map, 50, 60, NULL) == 0);
    vmalloc_error error;
    CHECK(vmalloc_map_alloc_at(map, 40, 51, &error) == -EEXIST && error.code == VMALLOC_E_OCCUPIED);
    CHECK(error.other_start == 50 && error.other_end == 60); /* in units of the map */
    CHECK(vmalloc_map_grow(map, 50, 20, NULL) == 0 && vmalloc_map_shrink(map, 50, 15, NULL) == 0);
    CHECK(vmalloc_map_split(map, 50, 55, NULL) == 0 && vmalloc_map_release(map, 50, &end, NULL) == 0 && end == 55);
    CHECK(vmalloc_map_release_part(map, 57, 60, NULL) == 0);
    vmalloc_segment segment = VMALLOC_SEGMENT_INIT;
    CHECK(vmalloc_map_find(map, 58, &segment, NULL) == 0 && segment.state == VMALLOC_SEGMENT_FREE);
    CHECK(segment.start == 57 && segment.end == 60);
    CHECK(vmalloc_map_find(map, 56, &segment, NULL) == 0 && segment.state == VMALLOC_SEGMENT_BUSY);
    CHECK(vmalloc_map_extend(map, 2000, NULL) == 0);
    uint64_t offsets[2] = { 0, 100 }, sizes[2] = { 5, 5 }, base;
    CHECK(vmalloc_map_alloc_congruent(map, offsets, sizes, 2, 1, &base, NULL) == 0 && base == 2000 - 105);
    int segments = 0;
    CHECK(vmalloc_map_walk(map, 0, count, &segments, NULL) == 0 && segments > 5);
    vmalloc_map_stats stats = VMALLOC_MAP_STATS_INIT;
    CHECK(vmalloc_map_get_stats(map, &stats, NULL) == 0 && stats.end == 2000 && stats.areas == 6);
    CHECK(vmalloc_map_verify(map, NULL) == 0);
    vmalloc_map *copy = vmalloc_map_copy(map, NULL);
    CHECK(copy != NULL && vmalloc_map_release(copy, 12, NULL, NULL) == 0);
    CHECK(vmalloc_map_find(map, 12, &segment, NULL) == 0 && segment.state == VMALLOC_SEGMENT_BUSY);
    vmalloc_map_free(copy);

    REFUSED(vmalloc_map_release(map, 13, NULL, detail), EINVAL, VMALLOC_E_INTERIOR);
    REFUSED(vmalloc_map_release(map, 1000, NULL, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_map_alloc_at(map, 7, 7, detail), EINVAL, VMALLOC_E_LIMITS);
    REFUSED(vmalloc_map_alloc_at(map, 1999, 2001, detail), ERANGE, VMALLOC_E_OUTSIDE);
    REFUSED(vmalloc_map_split(map, 12, 17, detail), ERANGE, VMALLOC_E_BEYOND);
    REFUSED(vmalloc_map_grow(map, 12, 2, detail), EINVAL, VMALLOC_E_WRONG_SIZE);
    REFUSED(vmalloc_map_shrink(map, 12, 99, detail), EINVAL, VMALLOC_E_WRONG_SIZE);
    REFUSED(vmalloc_map_release_part(map, 15, 40, detail), ERANGE, VMALLOC_E_BEYOND);
    REFUSED(vmalloc_map_extend(map, 5, detail), EINVAL, VMALLOC_E_LIMITS);
    REFUSED(vmalloc_map_find(map, 5000, &segment, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_map_alloc(map, &fit, NULL, detail), EINVAL, VMALLOC_E_NULL);
    fit.reserved = 2;
    REFUSED(vmalloc_map_alloc(map, &fit, &start, detail), EINVAL, VMALLOC_E_VALUE);
    fit.reserved = 0, fit.align = 6;
    REFUSED(vmalloc_map_alloc(map, &fit, &start, detail), EINVAL, VMALLOC_E_ALIGN);
    fit.align = 0, fit.pages = 1 << 20;
    CHECK(vmalloc_map_alloc(map, &fit, &start, &error) == -ENOSPC && error.requested == 1 << 20);
    fit.pages = 0;
    REFUSED(vmalloc_map_alloc(map, &fit, &start, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    fit.pages = 5, fit.start = 1990, fit.end = 1995, fit.policy = VMALLOC_POLICY_HIGHEST;
    CHECK(vmalloc_map_alloc(map, &fit, &start, NULL) == 0 && start == 1990);
    fit.pages = 2, fit.start = fit.end = 0, fit.policy = VMALLOC_POLICY_NEAR, fit.seed = 1500;
    CHECK(vmalloc_map_alloc(map, &fit, &start, NULL) == 0 && start == 1500);
    CHECK(vmalloc_map_alloc(map, &fit, &start, NULL) == 0 && start == 1502);
    CHECK(vmalloc_map_alloc(map, &fit, &start, NULL) == 0 && start == 1498);
    fit.policy = 4;
    REFUSED(vmalloc_map_alloc(map, &fit, &start, detail), EINVAL, VMALLOC_E_VALUE);
}

int main(void)
{
    vmalloc_map *map = vmalloc_map_new(0, 1000, NULL);
    CHECK(map != NULL);
    use(map);
    vmalloc_map_free(map);
    static char memory[100001];
    map = vmalloc_map_new_in(memory + 1, sizeof memory - 1, 0, 1000, NULL);
    CHECK((char *)map > memory && (char *)map < memory + sizeof memory);
    use(map);
    vmalloc_map_free(map);
    NO_POINTER(vmalloc_map_new_in(memory, 100, 0, 10, detail), ENOMEM, VMALLOC_E_METADATA);
    NO_POINTER(vmalloc_map_new_in(NULL, 100, 0, 10, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_map_new(7, 7, detail), EINVAL, VMALLOC_E_LIMITS);
    /* Figures are in units of the map, whichever call refuses. */
    vmalloc_error refusal = { 0 };
    CHECK(vmalloc_map_new(10, 5, &refusal) == NULL && refusal.range_start == 10 && refusal.range_end == 5);
    refusal.range_start = 0;
    CHECK(vmalloc_map_new_in(memory, sizeof memory, 10, 5, &refusal) == NULL && refusal.range_start == 10);
    map = vmalloc_map_new(0, 1000, NULL);
    refusal.range_start = 0;
    CHECK(vmalloc_map_alloc_at(map, 10, 5, &refusal) == -EINVAL && refusal.range_start == 10);
    vmalloc_map_free(map);
    NO_POINTER(vmalloc_map_copy(NULL, detail), EINVAL, VMALLOC_E_NULL);
    uint64_t number = 0;
    vmalloc_map_stats stats = VMALLOC_MAP_STATS_INIT;
    vmalloc_segment segment = VMALLOC_SEGMENT_INIT;
    vmalloc_fit fit = VMALLOC_FIT_INIT;
    REFUSED(vmalloc_map_alloc(NULL, &fit, &number, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_alloc_at(NULL, 1, 2, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_release(NULL, 1, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_release_part(NULL, 1, 2, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_split(NULL, 1, 2, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_grow(NULL, 1, 2, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_shrink(NULL, 1, 2, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_extend(NULL, 2, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_find(NULL, 1, &segment, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_walk(NULL, 1, count, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_get_stats(NULL, &stats, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_verify(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_map_alloc_congruent(NULL, &number, &number, 1, 1, &number, detail), EINVAL, VMALLOC_E_NULL);
    vmalloc_map_free(NULL);
    return 0;
}
