/*
 * Random programs over the whole header: worlds of half a second, in which two threads make, check,
 * change, misuse and end things of all kinds. VMALLOC_SECONDS=... goes on for longer, and
 * VMALLOC_SEED=... repeats the first world.
 */
#include "stress.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 2, WORLDS = 4 };

/* ---- Looks at the whole space ---- */

static int count_area(void *context, const vmalloc_area *area)
{
    CHECK(area->size == sizeof(vmalloc_area) && area->pages > 0);
    return ++*(int *)context > 500;
}

static int count_subspace(void *context, const vmalloc_subspace_info *info)
{
    CHECK(info->end > info->start && info->name != NULL);
    *(int *)context += 1;
    return 0;
}

static int count_text(void *context, const char *text, size_t bytes)
{
    *(int *)context += text[bytes - 1] != 0;
    return 0;
}

static uint64_t no_room(void *context, uint64_t bytes)
{
    CHECK(bytes > 0);
    atomic_fetch_add(&((struct notes *)context)->calls, 1);
    return 0;
}

static void released(void *context)
{
    atomic_fetch_add(&((struct notes *)context)->released, 1);
}

static void notifier(struct life *life)
{
    struct notes notes = { 0, 0 };
    vmalloc_notifier *notifier = vmalloc_notifier_new(life->space, no_room, &notes, released, NULL);
    CHECK(notifier != NULL);
    /* While the other thread asks the notifiers, this one fails without asking. Those of pools wait
       for the drain. */
    for (int tries = 0; tries < 1000000 && atomic_load(&notes.calls) == 0; tries++)
        NO_POINTER(vmalloc_alloc(life->space, (size_t)1 << 46, detail), ENOSPC, VMALLOC_E_NO_SPACE);
    CHECK(notes.calls > 0 && notes.released == 0);
    vmalloc_notifier_free(notifier);
    while (atomic_load(&notes.released) == 0) /* the other thread may be in the callback */
        sched_yield();
}

static void look_around(struct life *life)
{
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    vmalloc_node_stats node = VMALLOC_NODE_STATS_INIT;
    vmalloc_area area = VMALLOC_AREA_INIT;
    size_t start, end, copied;
    uint64_t evicted;
    char bytes[9000];
    int seen = 0;
    CHECK(vmalloc_span(life->space, &start, &end, NULL) == 0);
    char *anywhere = (char *)start + below(life, end - start);
    switch (below(life, 12)) {
    case 0: CHECK(vmalloc_walk(life->space, anywhere, count_area, &seen, NULL) >= 0); break;
    case 1: CHECK(vmalloc_find_tag(life->space, "tagged", count_area, &seen, NULL) >= 0); break;
    case 2: CHECK(vmalloc_info(life->space, count_text, &seen, NULL) == 0); break;
    case 3: CHECK(vmalloc_get_stats(life->space, &stats, NULL) == 0 && stats.page_bytes == page()); break;
    case 4: CHECK(vmalloc_get_node_stats(life->space, 0, &node, NULL) == 0); break;
    case 5: CHECK(vmalloc_purge(life->space, NULL) == 0 && vmalloc_flush(life->space, NULL) == 0); break;
    case 6: CHECK(vmalloc_decay(life->space, NULL) == 0 && vmalloc_drain(life->space, NULL) >= 0); break;
    case 7: CHECK(vmalloc_shrink(life->space, below(life, 9), &evicted, NULL) == 0 && evicted < 9); break;
    case 8: CHECK(vmalloc_read(life->space, anywhere, bytes, sizeof bytes, &copied, NULL) == 0); break;
    case 9: CHECK(vmalloc_root_walk(life->root, count_subspace, &seen, NULL) == 0 && seen > 0); break;
    case 10: notifier(life); break;
    default: seen = vmalloc_try_find(life->space, anywhere, &area, NULL);
        CHECK(seen == 0 || seen == -EFAULT || seen == -EAGAIN);
    }
    CHECK(vmalloc_slots_flush(life->slots, NULL) == 0);
    CHECK(below(life, 4) || vmalloc_slots_trim(life->slots, below(life, 5), NULL) == 0);
    CHECK(vmalloc_stacks_trim(life->stacks, NULL) == 0);
    CHECK(below(life, 4) || vmalloc_stacks_clear(life->stacks, NULL) == 0);
}

/* ---- Misuse ---- */

/* A space of this thread alone: nobody gets the addresses of a freed area. */
static void free_twice(struct life *life)
{
    vmalloc_error error;
    char *memory = vmalloc_alloc(life->own, 1 + below(life, 30 * page()), NULL);
    CHECK(memory != NULL && vmalloc_free(life->own, memory, NULL) == 0);
    int answer = below(life, 2) ? vmalloc_free(life->own, memory, &error)
                                : vmalloc_free_atomic(life->own, memory, &error);
    CHECK((answer == -EALREADY && error.code == VMALLOC_E_ALREADY_FREED)
          || (answer == -EFAULT && error.code == VMALLOC_E_NOT_AN_AREA));
    CHECK(vmalloc_purge(life->own, NULL) == 0);
    REFUSED(vmalloc_free(life->own, memory, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_free(life->space, memory, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
}

static void wrong_requests(struct life *life)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    NO_POINTER(vmalloc_alloc_with(life->space, &request, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    request.bytes = SIZE_MAX - below(life, 5000);
    NO_POINTER(vmalloc_alloc_with(life->space, &request, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    NO_POINTER(vmalloc_alloc_shared(life->space, &request, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    NO_POINTER(vmalloc_alloc_exec(life->space, &request, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    NO_POINTER(vmalloc_reserve(life->space, &request, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    request.bytes = 1 + below(life, 5000), request.align = 3 + 2 * below(life, 50);
    NO_POINTER(vmalloc_alloc_with(life->space, &request, detail), EINVAL, VMALLOC_E_ALIGN);
    request.align = 0, request.size = below(life, 16);
    NO_POINTER(vmalloc_alloc_with(life->space, &request, detail), EINVAL, VMALLOC_E_STRUCT_SIZE);
    NO_POINTER(vmalloc_frames_take(life->space, 0, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    NO_POINTER(vmalloc_mapping_new(NULL, 0, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_slot_alloc(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_free(NULL, life, detail), EINVAL, VMALLOC_E_NULL);
}

/* Addresses that no area of the space holds. */
static void foreign(struct life *life)
{
    static char data[3];
    vmalloc_area area = VMALLOC_AREA_INIT;
    char *block = malloc(100);
    char *const all[] = { block, block + 16, (char *)life, data + 1, (char *)1, (char *)page() };
    char *addr = all[below(life, sizeof all / sizeof *all)];
    vmalloc_range range = { addr, page() };
    REFUSED(vmalloc_free(life->space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_unmap(life->space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_unreserve(life->space, addr, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_find(life->space, addr, &area, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_remove(life->space, addr, &area, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_commit(life->space, &range, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    REFUSED(vmalloc_discard(life->space, &range, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    NO_POINTER(vmalloc_realloc(life->space, addr, 1, detail), EFAULT, VMALLOC_E_NOT_AN_AREA);
    CHECK(vmalloc_usable_size(life->space, addr) == 0 && !vmalloc_contains(life->space, addr));
    free(block);
}

/* ---- The life of a thread ---- */

static void step(struct life *life)
{
    uint64_t choice = below(life, 20);
    if (choice < 8 && life->count < MOST) {
        life->count += make_thing(life, &life->things[life->count]);
    } else if (choice < 9) {
        look_around(life);
    } else if (choice < 10) {
        void (*const all[])(struct life *) = { free_twice, wrong_requests, foreign };
        all[below(life, 3)](life);
    } else if (life->count > 0) {
        struct thing *thing = &life->things[below(life, life->count)];
        check_thing(life, thing);
        if (choice < 15) {
            change_thing(life, thing);
        } else if (choice < 16) {
            misuse_thing(life, thing);
            check_thing(life, thing);
        } else {
            end_thing(life, thing);
            *thing = life->things[--life->count];
        }
    }
    life->steps += 1;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *live(void *context)
{
    struct life *life = context;
    double end = now() + 0.5;
    while (now() < end)
        for (int nth = 0; nth < 50; nth++)
            step(life);
    while (life->count > 0) {
        struct thing *thing = &life->things[--life->count];
        check_thing(life, thing);
        end_thing(life, thing);
    }
    return NULL;
}

/* ---- A world ---- */

static void check_whole(vmalloc_space *space)
{
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    CHECK(vmalloc_purge(space, NULL) == 0 && vmalloc_verify(space, NULL) == 0);
    CHECK(vmalloc_get_stats(space, &stats, NULL) == 0);
    CHECK(stats.busy_areas == 0 && stats.free_pages == stats.span_pages);
}

static vmalloc_space *subspace(vmalloc_root *root, const char *name, size_t limit)
{
    vmalloc_placement placement = VMALLOC_PLACEMENT_INIT;
    placement.bytes = (size_t)1 << 32, placement.limit_bytes = limit;
    vmalloc_space *space = vmalloc_subspace_open(root, name, &placement, NULL, NULL);
    CHECK(space != NULL);
    return space;
}

/* NULL where the kernel has no such guards. */
static vmalloc_space *open_kind(vmalloc_root *root, int kind)
{
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.max_bytes = (size_t)1 << 36;
    options.flags = kind == 1 ? VMALLOC_OPEN_TRAP_ON_FREE : 0;
    options.guards = kind == 2 ? VMALLOC_GUARDS_USERFAULT : VMALLOC_GUARDS_BEST;
    return kind == 3 ? subspace(root, "shared", 64 << 20) : vmalloc_open(&options, NULL);
}

static vmalloc_slots *open_slots(vmalloc_space *space, struct life *life)
{
    vmalloc_slots_options options = VMALLOC_SLOTS_OPTIONS_INIT;
    options.slot_bytes = below(life, 2) ? (size_t)1 << 26 : 300000;
    options.max_slots = 1 + below(life, 50), options.resident_bytes = (size_t)4096 << below(life, 12);
    options.flags = below(life, 16) & ~(uint32_t)VMALLOC_SLOTS_NO_GUARDS;
    vmalloc_slots *slots = vmalloc_slots_new(space, &options, NULL);
    CHECK(slots != NULL);
    return slots;
}

static vmalloc_stacks *open_stacks(struct life *life)
{
    vmalloc_stacks_options options = VMALLOC_STACKS_OPTIONS_INIT;
    options.stack_bytes = page() * (1 + below(life, 40)), options.span_bytes = (size_t)1 << 32;
    options.flags = below(life, 4), options.name = "stress";
    vmalloc_stacks *stacks = vmalloc_stacks_open(&options, NULL);
    CHECK(stacks != NULL);
    return stacks;
}

static uint64_t world(uint64_t seed, int kind)
{
    static struct life lives[THREADS];
    static const char *const names[THREADS] = { "own 0", "own 1" };
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.max_bytes = (size_t)1 << 36;
    vmalloc_root *root = vmalloc_root_open(&options, NULL);
    CHECK(root != NULL);
    vmalloc_space *space = open_kind(root, kind);
    if (space == NULL) {
        vmalloc_root_close(root);
        return 0;
    }
    pthread_t threads[THREADS];
    uint64_t steps = 0;
    memset(lives, 0, sizeof lives);
    lives[0].random = seed * 2654435761u + 1;
    vmalloc_slots *slots = open_slots(space, &lives[0]);
    vmalloc_stacks *stacks = open_stacks(&lives[0]);
    for (int nth = 0; nth < THREADS; nth++) {
        struct life *life = &lives[nth];
        life->random = (seed + (uint64_t)nth * 77) * 2654435761u + 1;
        life->space = space, life->root = root, life->slots = slots, life->stacks = stacks;
        life->own = subspace(root, names[nth], 0);
        CHECK(pthread_create(&threads[nth], NULL, live, life) == 0);
    }
    for (int nth = 0; nth < THREADS; nth++) {
        CHECK(pthread_join(threads[nth], NULL) == 0);
        steps += lives[nth].steps;
        check_whole(lives[nth].own);
        vmalloc_close(lives[nth].own);
    }
    vmalloc_slots_free(slots), vmalloc_stacks_close(stacks);
    check_whole(space);
    vmalloc_close(space), vmalloc_root_close(root);
    return steps;
}

int main(void)
{
    const char *given = getenv("VMALLOC_SEED"), *seconds = getenv("VMALLOC_SECONDS");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 4711, steps = 0, worlds = 0;
    double end = now() + (seconds ? strtod(seconds, NULL) : 5);
    for (; worlds == 0 || now() < end; seed++)
        for (int kind = 0; kind < WORLDS; kind++, worlds++) {
            fprintf(stderr, "VMALLOC_SEED=%" PRIu64 ", kind %d\n", seed, kind);
            steps += world(seed, kind);
        }
    printf("%" PRIu64 " worlds, %" PRIu64 " steps\n", worlds, steps);
    return 0;
}
