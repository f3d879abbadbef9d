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

int main(void)
{
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

    vmalloc_root_close(root), vmalloc_root_close(NULL);
    memory = vmalloc_alloc(modules, 1, NULL); /* sub-spaces live on */
    memory[0] = 1;
    vmalloc_close(modules), vmalloc_close(windows);
    return 0;
}
