/* Sub-spaces of one reservation, and notifiers. */
#include "check.h"

static int count(void *context, const vmalloc_subspace_info *info)
{
    CHECK(info->end > info->start && info->state == VMALLOC_SUBSPACE_LIVE);
    CHECK(strcmp(info->name, "modules") == 0 || strcmp(info->name, "windows") == 0);
    *(int *)context += 1;
    return 0;
}

struct cache {
    vmalloc_space *space;
    void *kept;
    int calls, released;
};

static uint64_t give_back(void *context, uint64_t bytes)
{
    struct cache *cache = context;
    CHECK(bytes > 0);
    cache->calls += 1;
    if (cache->kept == NULL)
        return 0;
    CHECK(vmalloc_free(cache->space, cache->kept, NULL) == 0);
    cache->kept = NULL;
    return 1 << 20;
}

static void release(void *context)
{
    ((struct cache *)context)->released += 1;
}

static void notifiers(vmalloc_space *space, size_t bytes)
{
    struct cache cache = { space, vmalloc_alloc(space, bytes, NULL), 0, 0 };
    vmalloc_notifier *notifier = vmalloc_notifier_new(space, give_back, &cache, release, NULL);
    CHECK(cache.kept != NULL && notifier != NULL);
    void *memory = vmalloc_alloc(space, bytes, NULL); /* both have no room */
    CHECK(memory != NULL && cache.calls >= 1 && cache.kept == NULL);
    CHECK(vmalloc_alloc(space, bytes, NULL) == NULL && cache.calls >= 2);
    int calls = cache.calls;
    vmalloc_notifier_free(notifier);
    CHECK(cache.released == 1);
    CHECK(vmalloc_alloc(space, bytes, NULL) == NULL && cache.calls == calls);
    CHECK(vmalloc_free(space, memory, NULL) == 0);
    NO_POINTER(vmalloc_notifier_new(space, NULL, NULL, NULL, detail), EINVAL, VMALLOC_E_NULL);
}

/* Spaces at an address, near one, below one, aligned. */
static void windows_of_spaces(void)
{
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.max_bytes = options.min_bytes = 64 << 20, options.align = 1 << 28;
    vmalloc_space *space = vmalloc_open(&options, NULL);
    size_t start, end, first, last;
    CHECK(vmalloc_span(space, &start, &end, NULL) == 0);
    CHECK(start % (1 << 28) == 0 && end - start == 64 << 20);
    options.at = start;
    vmalloc_error error;
    CHECK(vmalloc_open(&options, &error) == NULL && errno == ENOSPC && error.code == VMALLOC_E_NO_SPACE);
    CHECK(error.requested == 64 << 20 && error.range_start == start && error.range_end == end);
    CHECK(error.largest_free == 0);
    vmalloc_close(space);
    space = vmalloc_open(&options, NULL);
    CHECK(vmalloc_span(space, &first, &last, NULL) == 0 && first == start && last == end);
    options.at = 0, options.align = 0, options.near = start, options.within = 1 << 30;
    vmalloc_space *other = vmalloc_open(&options, NULL);
    CHECK(vmalloc_span(other, &first, &last, NULL) == 0);
    CHECK(first >= start - (1 << 30) && last <= start + (1 << 30) && (last <= start || first >= end));
    vmalloc_close(other), vmalloc_close(space);
    options.near = 0;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_VALUE);
    options.within = 0, options.below = 1u << 31;
    space = vmalloc_open(&options, NULL);
    CHECK(vmalloc_span(space, &first, &last, NULL) == 0 && last <= 1u << 31);
    vmalloc_close(space);
    options.below = 1 << 20;
    NO_POINTER(vmalloc_open(&options, detail), ENOSPC, VMALLOC_E_NO_SPACE);
    options.below = 0, options.at = 1;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_ALIGN);
    options.at = 0, options.align = 3;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_ALIGN);
    options.align = 0, options.min_bytes *= 2;
    NO_POINTER(vmalloc_open(&options, detail), ERANGE, VMALLOC_E_TOO_LARGE);
    options.min_bytes = 1;
    NO_POINTER(vmalloc_open(&options, detail), EINVAL, VMALLOC_E_NOT_PAGES);
}

/* Sub-spaces near an address, and within limits. */
static void near_windows(vmalloc_root *root, size_t start, size_t end)
{
    size_t middle = start + (end - start) / 2 / page() * page(), first, last;
    vmalloc_placement placement = VMALLOC_PLACEMENT_INIT;
    placement.bytes = 8 * page(), placement.start = middle + 1, placement.flags = VMALLOC_PLACE_NEAR;
    vmalloc_space *one = vmalloc_subspace_open(root, "one", &placement, NULL, NULL);
    CHECK(vmalloc_span(one, &first, &last, NULL) == 0 && first == middle);
    vmalloc_space *two = vmalloc_subspace_open(root, "two", &placement, NULL, NULL);
    CHECK(vmalloc_span(two, &first, &last, NULL) == 0 && first == middle + 8 * page());
    placement.range_start = middle - 4 * page(), placement.range_end = middle + 20 * page();
    NO_POINTER(vmalloc_subspace_open(root, "three", &placement, NULL, detail), ENOSPC, VMALLOC_E_NO_SPACE);
    placement.range_start = middle - 8 * page();
    vmalloc_space *three = vmalloc_subspace_open(root, "three", &placement, NULL, NULL);
    CHECK(vmalloc_span(three, &first, &last, NULL) == 0 && last == middle);
    placement.flags = VMALLOC_PLACE_NEAR | VMALLOC_PLACE_HIGHEST;
    NO_POINTER(vmalloc_subspace_open(root, "four", &placement, NULL, detail), EINVAL, VMALLOC_E_FLAGS);
    placement.flags = VMALLOC_PLACE_AT; /* with limits */
    NO_POINTER(vmalloc_subspace_open(root, "four", &placement, NULL, detail), EINVAL, VMALLOC_E_FLAGS);
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = page(), request.flags = VMALLOC_PLACE | VMALLOC_NO_GUARD;
    request.policy = VMALLOC_POLICY_NEAR, request.seed = middle + 5 * page() + 7;
    char *memory = vmalloc_alloc_with(one, &request, NULL);
    CHECK((size_t)memory == middle + 5 * page());
    vmalloc_close(one), vmalloc_close(two), vmalloc_close(three);
}

int main(void)
{
    windows_of_spaces();
    vmalloc_root *root = vmalloc_root_open(NULL, NULL);
    CHECK(root != NULL);
    vmalloc_placement placement = VMALLOC_PLACEMENT_INIT;
    placement.bytes = 16 << 20, placement.flags = VMALLOC_PLACE_HIGHEST, placement.limit_bytes = 1 << 20;
    vmalloc_space *modules = vmalloc_subspace_open(root, "modules", &placement, NULL, NULL);
    CHECK(modules != NULL);
    NO_POINTER(vmalloc_subspace_open(root, "modules", &placement, NULL, detail), EEXIST, VMALLOC_E_DUPLICATE_NAME);
    placement.flags = 0, placement.align = 1 << 21, placement.limit_bytes = 0;
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.policy = VMALLOC_POLICY_HIGHEST;
    char name[] = "windows";
    vmalloc_space *windows = vmalloc_subspace_open(root, name, &placement, &options, NULL);
    name[0] = 'x'; /* it was copied */
    CHECK(windows != NULL);
    int parts = 0;
    CHECK(vmalloc_root_walk(root, count, &parts, NULL) == 0 && parts == 2);

    vmalloc_error error;
    CHECK(vmalloc_alloc(modules, 2 << 20, &error) == NULL && errno == EDQUOT && error.code == VMALLOC_E_LIMIT);
    char *memory = vmalloc_alloc(modules, 100000, NULL);
    CHECK(memory != NULL && vmalloc_contains(modules, memory) && !vmalloc_contains(windows, memory));
    REFUSED(vmalloc_free(windows, memory, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    CHECK(vmalloc_free(modules, memory, NULL) == 0);
    vmalloc_frames *frames = vmalloc_frames_take(windows, 2, NULL);
    vmalloc_mapping *mapping = vmalloc_mapping_new(frames, 0, NULL);
    CHECK(mapping != NULL && vmalloc_contains(windows, vmalloc_mapping_addr(mapping)));
    vmalloc_mapping_free(mapping), vmalloc_frames_free(frames);
    notifiers(windows, 10 << 20);

    size_t start, end;
    CHECK(vmalloc_span(windows, &start, &end, NULL) == 0);
    placement.align = 0, placement.flags = VMALLOC_PLACE_AT, placement.start = start, placement.bytes = page();
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), EEXIST, VMALLOC_E_OCCUPIED);
    /* Part of a page is rounded up to the page that is taken. */
    placement.bytes = 1;
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), EEXIST, VMALLOC_E_OCCUPIED);
    placement.bytes = page();
    for (size_t pages = 1; pages <= 2; pages++) {
        placement.start = start + 1, placement.bytes = pages * page();
        NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), EINVAL, VMALLOC_E_NOT_PAGES);
    }
    placement.bytes = page();
    placement.start = page();
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), ERANGE, VMALLOC_E_OUTSIDE);
    placement.start = 0, placement.flags = 3;
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), EINVAL, VMALLOC_E_FLAGS);
    placement.flags = 0, placement.bytes = 0;
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    placement.bytes = (size_t)1 << 60;
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, NULL, detail), ENOSPC, VMALLOC_E_NO_SPACE);
    placement.bytes = page();
    NO_POINTER(vmalloc_subspace_open(root, NULL, &placement, NULL, detail), EINVAL, VMALLOC_E_NAME);
    NO_POINTER(vmalloc_subspace_open(root, "\xff", &placement, NULL, detail), EINVAL, VMALLOC_E_NAME);
    NO_POINTER(vmalloc_subspace_open(root, "third", NULL, NULL, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_subspace_open(NULL, "third", &placement, NULL, detail), EINVAL, VMALLOC_E_NULL);
    options.max_bytes = page();
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, &options, detail), EINVAL, VMALLOC_E_VALUE);
    REFUSED(vmalloc_root_walk(NULL, count, &parts, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_root_span(NULL, NULL, NULL, detail), EINVAL, VMALLOC_E_NULL);
    CHECK(vmalloc_root_span(root, &start, &end, NULL) == 0 && end > start);

    near_windows(root, start, end);
    options.max_bytes = 0, options.at = page();
    NO_POINTER(vmalloc_subspace_open(root, "third", &placement, &options, detail), EINVAL, VMALLOC_E_VALUE);

    vmalloc_root_close(root), vmalloc_root_close(NULL);
    memory = vmalloc_alloc(modules, 1, NULL); /* sub-spaces live on */
    memory[0] = 1;
    vmalloc_close(modules), vmalloc_close(windows);
    return 0;
}
