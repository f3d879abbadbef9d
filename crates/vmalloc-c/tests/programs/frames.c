/* The same pages at several addresses. */
#include "check.h"

static void owned(vmalloc_space *space)
{
    vmalloc_frames *frames = vmalloc_frames_take(space, 4, NULL);
    vmalloc_frames *run = vmalloc_frames_take_run(space, 8, 4, NULL);
    CHECK(frames != NULL && run != NULL && vmalloc_frames_count(frames) == 4);
    CHECK(vmalloc_frames_numbers(run)[0] % 4 == 0);
    CHECK(vmalloc_frames_numbers(run)[7] == vmalloc_frames_numbers(run)[0] + 7);
    vmalloc_mapping *one = vmalloc_mapping_new(frames, 0, NULL);
    CHECK(vmalloc_frames_swap(frames, 0, 3, NULL) == 0);
    vmalloc_mapping *two = vmalloc_mapping_new(frames, VMALLOC_MAP_READ_ONLY, NULL);
    vmalloc_mapping *three = vmalloc_mapping_new(frames, VMALLOC_MAP_SHORT, NULL);
    CHECK(one != NULL && two != NULL && three != NULL && vmalloc_mapping_size(one) == 4 * page());
    char *first = vmalloc_mapping_addr(one);
    first[0] = 7;
    CHECK(((char *)vmalloc_mapping_addr(two))[3 * page()] == 7);
    CHECK(((char *)vmalloc_mapping_addr(three))[3 * page()] == 7);
    NO_POINTER(vmalloc_mapping_new(frames, 3, detail), EINVAL, VMALLOC_E_FLAGS);
    NO_POINTER(vmalloc_mapping_new(frames, 4, detail), EINVAL, VMALLOC_E_FLAGS);
    REFUSED(vmalloc_frames_swap(frames, 0, 4, detail), EINVAL, VMALLOC_E_COUNT);
    vmalloc_frames_free(frames); /* the mappings keep them */
    CHECK(first[0] == 7);
    vmalloc_mapping_free(two), vmalloc_mapping_free(three), vmalloc_mapping_free(one);
    vmalloc_frames_free(run);
    NO_POINTER(vmalloc_frames_take(space, 0, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    NO_POINTER(vmalloc_frames_take_run(space, 1, 3, detail), EINVAL, VMALLOC_E_ALIGN);
}

static void by_number(vmalloc_space *space)
{
    vmalloc_frames *frames = vmalloc_frames_take(space, 2, NULL);
    const uint64_t *numbers = vmalloc_frames_numbers(frames);
    uint64_t list[3] = { numbers[1], numbers[0], numbers[1] };
    char *map = vmalloc_map_frames(space, list, 3, VMALLOC_READ_WRITE, "list", NULL);
    map[0] = 5;
    CHECK(map[2 * page()] == 5);
    CHECK(vmalloc_protect(space, map, VMALLOC_READ, NULL) == 0);
    char *brief = vmalloc_map_short(space, list, 3, NULL);
    CHECK(brief != NULL && brief[0] == 5);
    REFUSED(vmalloc_unmap_short(space, brief, 2, detail), EINVAL, VMALLOC_E_WRONG_COUNT);
    CHECK(vmalloc_unmap_short(space, brief, 3, NULL) == 0);
    CHECK(vmalloc_unmap(space, map, NULL) == 0);
    FREED_TWICE(vmalloc_unmap(space, map, detail));
    uint64_t foreign = 1 << 20;
    NO_POINTER(vmalloc_map_frames(space, &foreign, 1, 0, NULL, detail), ENXIO, VMALLOC_E_BAD_FRAME);
    NO_POINTER(vmalloc_map_short(space, &foreign, 1, detail), ENXIO, VMALLOC_E_BAD_FRAME);
    NO_POINTER(vmalloc_map_frames(space, NULL, 0, 0, NULL, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    NO_POINTER(vmalloc_map_frames(space, NULL, 2, 0, NULL, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_map_frames(space, list, 3, 8, NULL, detail), EINVAL, VMALLOC_E_VALUE);

    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 10 * page();
    char *pages_of_frames = vmalloc_reserve(space, &request, NULL);
    CHECK(vmalloc_map_pages(space, pages_of_frames + 3 * page(), list, 2, VMALLOC_READ_WRITE, NULL) == 0);
    CHECK(pages_of_frames[3 * page()] == 5);
    REFUSED(vmalloc_map_pages(space, pages_of_frames + 4 * page(), list, 1, 0, detail), EEXIST, VMALLOC_E_MAPPED);
    REFUSED(vmalloc_map_pages(space, pages_of_frames + 9 * page(), list, 2, 0, detail), ERANGE, VMALLOC_E_BEYOND);
    REFUSED(vmalloc_unmap_pages(space, pages_of_frames, 1, detail), ENOENT, VMALLOC_E_NOT_MAPPED);
    CHECK(vmalloc_unmap_pages(space, pages_of_frames + 3 * page(), 1, NULL) == 0);
    CHECK(vmalloc_unreserve(space, pages_of_frames, NULL) == 0);

    size_t offsets[2] = { 0, 64 * page() }, sizes[2] = { page(), 2 * page() };
    void *base = NULL;
    CHECK(vmalloc_alloc_congruent(space, offsets, sizes, 2, page(), &base, NULL) == 0);
    CHECK(vmalloc_map_pages(space, (char *)base + offsets[1], list, 2, VMALLOC_READ_WRITE, NULL) == 0);
    CHECK(((char *)base)[offsets[1]] == 5);
    sizes[1] = page();
    REFUSED(vmalloc_free_congruent(space, base, offsets, sizes, 2, detail), EINVAL, VMALLOC_E_WRONG_SIZE);
    sizes[1] = 2 * page();
    CHECK(vmalloc_free_congruent(space, base, offsets, sizes, 2, NULL) == 0);
    REFUSED(vmalloc_alloc_congruent(space, offsets, sizes, 0, page(), &base, detail), EINVAL, VMALLOC_E_COUNT);
    REFUSED(vmalloc_alloc_congruent(space, offsets, sizes, 2, 3, &base, detail), EINVAL, VMALLOC_E_ALIGN);
    REFUSED(vmalloc_alloc_congruent(space, offsets, sizes, 2, page(), NULL, detail), EINVAL, VMALLOC_E_NULL);
    offsets[1] = 0;
    REFUSED(vmalloc_alloc_congruent(space, offsets, sizes, 2, page(), &base, detail), EINVAL, VMALLOC_E_OVERLAP);
    CHECK(vmalloc_flush(space, NULL) == 0);
    vmalloc_frames_free(frames);
}

static void shared(vmalloc_space *space)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 4 * page();
    char *memory = vmalloc_alloc_shared(space, &request, NULL);
    char *again = vmalloc_map_shared(space, memory + page(), 2 * page(), VMALLOC_READ, NULL, NULL);
    memory[page()] = 3;
    CHECK(again != NULL && again[0] == 3);
    CHECK(vmalloc_free(space, memory, NULL) == 0 && again[0] == 3);
    CHECK(vmalloc_unmap(space, again, NULL) == 0);
    NO_POINTER(vmalloc_map_shared(space, memory, page(), 0, NULL, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
}

int main(void)
{
    vmalloc_space *space = open_space(0);
    owned(space);
    by_number(space);
    shared(space);
    vmalloc_frames *frames = vmalloc_frames_take(space, 1, NULL);
    vmalloc_mapping *mapping = vmalloc_mapping_new(frames, 0, NULL);
    vmalloc_close(space); /* it lives on behind these */
    vmalloc_frames_free(frames);
    *(char *)vmalloc_mapping_addr(mapping) = 1;
    vmalloc_mapping_free(mapping);
    return 0;
}
