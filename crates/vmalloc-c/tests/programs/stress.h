/* Things of all kinds for random programs: how each is made, checked, changed, misused and ended. */
#ifndef STRESS_H
#define STRESS_H

#include "check.h"
#include <sched.h>
#include <stdatomic.h>

enum { MOST = 60 };

enum kind { AREA, RESERVED, MAPPING, NUMBERS, SHORT, SPARSE, SHARED, CONGRUENT, HEAP, SLOT, STACK, GROWABLE, KINDS };

/* What a notifier's callbacks have seen. */
struct notes {
    atomic_int calls, released;
};

/* Something that a thread owns. `bytes` from `memory` on are written at both ends. */
struct thing {
    enum kind kind;
    char *memory, *other;
    size_t bytes, align;
    uint64_t stamp;
    vmalloc_frames *frames;
    vmalloc_mapping *mapping;
    vmalloc_slot *slot;
    vmalloc_growable *growable;
    vmalloc_stack *stack;
};

/* A thread, and what it shares. */
struct life {
    uint64_t random, steps;
    vmalloc_space *space, *own;
    vmalloc_root *root;
    vmalloc_slots *slots;
    vmalloc_stacks *stacks;
    struct thing things[MOST];
    int count;
};

static inline uint64_t below(struct life *life, uint64_t end)
{
    uint64_t *state = &life->random;
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (*state >> 11) % end;
}

static inline size_t some_bytes(struct life *life)
{
    return 16 + below(life, below(life, 5) ? 20 * page() : 600 * page());
}

/* ---- What it holds ---- */

static inline void write_ends(struct life *life, struct thing *thing)
{
    thing->stamp = below(life, UINT64_MAX);
    if (thing->bytes >= sizeof thing->stamp) {
        memcpy(thing->memory, &thing->stamp, sizeof thing->stamp);
        memcpy(thing->memory + thing->bytes - sizeof thing->stamp, &thing->stamp, sizeof thing->stamp);
    }
}

static inline void check_ends(const char *memory, const struct thing *thing)
{
    if (thing->bytes >= sizeof thing->stamp) {
        CHECK(memcmp(memory, &thing->stamp, sizeof thing->stamp) == 0);
        CHECK(memcmp(memory + thing->bytes - sizeof thing->stamp, &thing->stamp, sizeof thing->stamp) == 0);
    }
}

static inline void check_zeros(const char *memory, size_t bytes)
{
    CHECK(bytes == 0 || (memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0));
}

static inline void check_thing(struct life *life, struct thing *thing)
{
    vmalloc_area area = VMALLOC_AREA_INIT;
    /* Stacks have a space of their own, and short mappings of consecutive frames lie outside of it. */
    int is_inside = thing->kind == AREA || thing->kind == RESERVED || thing->kind == SLOT || thing->other != NULL;
    if (is_inside && thing->bytes > 0) {
        CHECK(vmalloc_find(life->space, thing->memory + thing->bytes - 1, &area, NULL) == 0);
        CHECK(area.addr <= (uintptr_t)thing->memory && area.pages > 0);
    }
    check_ends(thing->memory, thing);
    if (thing->other != NULL)
        check_ends(thing->other, thing);
}

/* ---- Made ---- */

static inline int is_short(int error)
{
    return error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE;
}

static inline char *make_area(struct life *life, struct thing *thing)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = thing->bytes, request.tag = below(life, 2) ? "tagged" : NULL;
    request.align = below(life, 3) ? 0 : (size_t)1 << below(life, 24);
    request.flags = below(life, 16) & (VMALLOC_ZERO | VMALLOC_NO_GUARD | VMALLOC_NO_BLOCK);
    char *memory = vmalloc_alloc_with(life->space, &request, NULL);
    if (memory != NULL && (request.flags & VMALLOC_ZERO))
        check_zeros(memory, thing->bytes);
    CHECK(memory == NULL || request.align == 0 || (uintptr_t)memory % request.align == 0);
    return memory;
}

/* Whole pages of addresses, of which the first are memory. */
static inline char *make_reserved(struct life *life, struct thing *thing)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    thing->bytes = page() * (1 + below(life, 30)), request.bytes = 2 * thing->bytes;
    char *memory = vmalloc_reserve(life->space, &request, NULL);
    vmalloc_range range = { memory, thing->bytes };
    if (memory != NULL && vmalloc_commit(life->space, &range, 1, NULL) != 0) {
        CHECK(vmalloc_unreserve(life->space, memory, NULL) == 0);
        return NULL;
    }
    if (memory != NULL)
        check_zeros(memory, thing->bytes);
    return memory;
}

/* Frames, shown once or twice in one of the ways that there are. */
static inline char *make_mapped(struct life *life, struct thing *thing)
{
    size_t count = 1 + below(life, 20);
    thing->bytes = count * page();
    thing->frames = below(life, 2) ? vmalloc_frames_take(life->space, count, NULL)
                                   : vmalloc_frames_take_run(life->space, count, 4, NULL);
    if (thing->frames == NULL)
        return NULL;
    const uint64_t *numbers = vmalloc_frames_numbers(thing->frames);
    if (thing->kind == MAPPING) {
        thing->mapping = vmalloc_mapping_new(thing->frames, below(life, 2) ? VMALLOC_MAP_SHORT : 0, NULL);
        return vmalloc_mapping_addr(thing->mapping);
    }
    if (thing->kind == SHORT)
        return vmalloc_map_short(life->space, numbers, count, NULL);
    thing->other = vmalloc_map_frames(life->space, numbers, count, VMALLOC_READ, "tagged", NULL);
    if (thing->other == NULL)
        return NULL;
    if (thing->kind == NUMBERS)
        return vmalloc_map_frames(life->space, numbers, count, VMALLOC_READ_WRITE, NULL, NULL);
    char *memory = NULL;
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = thing->bytes;
    size_t offset = 0;
    if (thing->kind == SPARSE)
        memory = vmalloc_reserve(life->space, &request, NULL);
    else if (vmalloc_alloc_congruent(life->space, &offset, &thing->bytes, 1, page(), (void **)&memory, NULL) != 0)
        return NULL;
    if (memory != NULL)
        CHECK(vmalloc_map_pages(life->space, memory, numbers, count, VMALLOC_READ_WRITE, NULL) == 0);
    return memory;
}

static inline char *make_shared(struct life *life, struct thing *thing)
{
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    thing->bytes = page() * (1 + below(life, 20)), request.bytes = thing->bytes;
    char *memory = vmalloc_alloc_shared(life->space, &request, NULL);
    if (memory == NULL)
        return NULL;
    check_zeros(memory, thing->bytes);
    thing->other = vmalloc_map_shared(life->space, memory, thing->bytes, VMALLOC_READ, NULL, NULL);
    return memory;
}

static inline char *make_slot(struct life *life, struct thing *thing)
{
    thing->slot = below(life, 2) ? vmalloc_slot_alloc(life->slots, NULL)
                                 : vmalloc_slot_alloc_for(life->slots, below(life, 4), NULL);
    thing->bytes = vmalloc_slot_committed(thing->slot);
    if (thing->slot != NULL)
        check_zeros(vmalloc_slot_addr(thing->slot), thing->bytes);
    return vmalloc_slot_addr(thing->slot);
}

static inline char *make_stack(struct life *life, struct thing *thing)
{
    thing->stack = calloc(1, sizeof *thing->stack);
    CHECK(thing->stack != NULL);
    size_t bytes = below(life, 2) ? 0 : page() + below(life, 100000);
    int refused = vmalloc_stack_make(life->stacks, bytes, below(life, 3) ? NULL : "named", thing->stack, NULL);
    CHECK(refused == 0 || is_short(-refused));
    thing->bytes = thing->stack->bytes;
    return thing->stack->bottom;
}

static inline void of_growable(struct thing *thing)
{
    thing->bytes = vmalloc_growable_size(thing->growable);
    thing->memory = (char *)vmalloc_growable_top(thing->growable) - thing->bytes;
}

static inline void end_thing(struct life *life, struct thing *thing);

/* Returns 1 if it was made, and 0 where there is no room. */
static inline int make_thing(struct life *life, struct thing *thing)
{
    memset(thing, 0, sizeof *thing);
    thing->kind = (enum kind)below(life, KINDS), thing->bytes = some_bytes(life);
    thing->align = (size_t)1 << below(life, 10);
    char *memory = NULL;
    errno = 0;
    switch (thing->kind) {
    case AREA: memory = make_area(life, thing); break;
    case RESERVED: memory = make_reserved(life, thing); break;
    case SHARED: memory = make_shared(life, thing); break;
    case HEAP: memory = vmalloc_alloc_or_heap(life->space, thing->bytes, thing->align, NULL); break;
    case SLOT: memory = make_slot(life, thing); break;
    case STACK: memory = make_stack(life, thing); break;
    case GROWABLE:
        thing->growable = vmalloc_growable_new(life->stacks, page(), 60 * page(), NULL, NULL);
        memory = vmalloc_growable_top(thing->growable);
        break;
    default: memory = make_mapped(life, thing);
    }
    thing->memory = memory;
    if (memory == NULL) {
        CHECK(thing->kind == STACK || is_short(errno));
        end_thing(life, thing);
        return 0;
    }
    if (thing->kind == GROWABLE)
        of_growable(thing);
    write_ends(life, thing);
    return 1;
}

/* ---- Changed ---- */

static inline void resize_area(struct life *life, struct thing *thing)
{
    size_t bytes = some_bytes(life), old = thing->bytes;
    uint64_t way = below(life, 3);
    if (way == 0 && bytes < old) {
        CHECK(vmalloc_shrink_in_place(life->space, thing->memory, bytes, NULL) == 0);
        thing->bytes = bytes;
    } else if (way == 1 && bytes > old) {
        if (vmalloc_grow_in_place(life->space, thing->memory, bytes, NULL) == 0)
            thing->bytes = bytes;
    } else {
        char *moved = vmalloc_realloc(life->space, thing->memory, bytes, NULL);
        if (moved == NULL) {
            check_thing(life, thing);
            return;
        }
        thing->memory = moved, thing->bytes = bytes;
    }
    CHECK(memcmp(thing->memory, &thing->stamp, sizeof thing->stamp) == 0);
}

static inline void clear_reserved(struct life *life, struct thing *thing)
{
    vmalloc_range range = { thing->memory, thing->bytes };
    CHECK((below(life, 2) ? vmalloc_discard : vmalloc_reset)(life->space, &range, 1, NULL) == 0);
    check_zeros(thing->memory, thing->bytes);
}

static inline void change_slot(struct life *life, struct thing *thing)
{
    size_t before = thing->bytes, most = vmalloc_slot_size(thing->slot);
    if (below(life, 2)) {
        size_t bytes = below(life, most < before + 500000 ? most : before + 500000);
        int refused = vmalloc_slot_grow(thing->slot, bytes, NULL);
        CHECK(refused == 0 || is_short(-refused));
        thing->bytes = vmalloc_slot_committed(thing->slot);
        check_zeros(thing->memory + before, thing->bytes - before);
    } else {
        vmalloc_slot_bytes ends[2] = { { 0, 8 }, { before - (before > 0 ? 8 : 0), before } };
        int is_all = below(life, 2) != 0;
        /* The end before this one may be inside of a slot that grew: all is dirty then. */
        CHECK(vmalloc_slot_reset(thing->slot, is_all || thing->align == 0 ? NULL : ends,
                                 is_all || thing->align == 0 ? 0 : 2, NULL) == 0);
        check_zeros(thing->memory, thing->bytes);
        thing->align = 1;
    }
    if (thing->bytes != before)
        thing->align = 0;
}

static inline void change_thing(struct life *life, struct thing *thing)
{
    size_t bytes = page() * (1 + below(life, 60));
    int refused = 0;
    switch (thing->kind) {
    case AREA: resize_area(life, thing); break;
    case RESERVED: clear_reserved(life, thing); break;
    case SLOT: change_slot(life, thing); break;
    case GROWABLE:
        refused = below(life, 2) ? vmalloc_growable_grow(thing->growable, bytes, NULL)
                                 : vmalloc_growable_shrink(thing->growable, bytes, NULL);
        CHECK(refused == 0 || is_short(-refused));
        of_growable(thing);
        break;
    default: break;
    }
    write_ends(life, thing);
}

/* ---- Misused ---- */

static inline void misuse_memory(struct life *life, struct thing *thing)
{
    char *memory = thing->memory;
    if (thing->kind == AREA) {
        REFUSED(vmalloc_unmap(life->space, memory, detail), EPERM, VMALLOC_E_WRONG_KIND);
        REFUSED(vmalloc_unreserve(life->space, memory, detail), EPERM, VMALLOC_E_WRONG_KIND);
        NO_POINTER(vmalloc_realloc(life->space, memory, 0, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
        NO_POINTER(vmalloc_realloc(life->space, memory, SIZE_MAX, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    } else {
        REFUSED(vmalloc_free(life->space, memory, detail), EPERM, VMALLOC_E_WRONG_KIND);
    }
    REFUSED(vmalloc_unmap_short(life->space, memory, 1, detail), EPERM, VMALLOC_E_WRONG_KIND);
    REFUSED(vmalloc_free(life->space, memory + 8, detail), EINVAL, VMALLOC_E_UNALIGNED);
    if (thing->bytes > page())
        REFUSED(vmalloc_free(life->space, memory + page(), detail), EINVAL, VMALLOC_E_INTERIOR);
}

static inline void misuse_thing(struct life *life, struct thing *thing)
{
    vmalloc_stack none = { 0 };
    size_t count = vmalloc_frames_count(thing->frames);
    switch (thing->kind) {
    case AREA:
    case RESERVED: misuse_memory(life, thing); break;
    case SLOT:
        REFUSED(vmalloc_slot_grow(thing->slot, vmalloc_slot_size(thing->slot) + 1, detail), ERANGE, VMALLOC_E_BEYOND);
        REFUSED(vmalloc_slot_free(thing->slot, NULL, 3, detail), EINVAL, VMALLOC_E_NULL);
        break;
    case GROWABLE:
        REFUSED(vmalloc_growable_grow(thing->growable, 61 * page(), detail), ERANGE, VMALLOC_E_BEYOND);
        break;
    case STACK: REFUSED(vmalloc_stack_drop(&none, detail), EALREADY, VMALLOC_E_ALREADY_FREED); break;
    case SHORT:
        REFUSED(vmalloc_unmap_short(life->space, thing->memory, count + 1, detail), EINVAL, VMALLOC_E_WRONG_COUNT);
        break;
    case SPARSE: REFUSED(vmalloc_unmap(life->space, thing->memory, detail), EPERM, VMALLOC_E_WRONG_KIND); break;
    case MAPPING:
        REFUSED(vmalloc_frames_swap(thing->frames, 0, count, detail), EINVAL, VMALLOC_E_COUNT);
        NO_POINTER(vmalloc_mapping_new(thing->frames, 3, detail), EINVAL, VMALLOC_E_FLAGS);
        break;
    default: break;
    }
}

/* ---- Ended ---- */

static inline void end_area(struct life *life, struct thing *thing)
{
    vmalloc_area area = VMALLOC_AREA_INIT;
    int answer = 0;
    switch (below(life, 4)) {
    case 0: answer = vmalloc_free_altered(life->space, thing->memory, NULL); break;
    case 1: answer = vmalloc_remove(life->space, thing->memory, &area, NULL); break;
    case 2: answer = vmalloc_free_atomic(life->space, thing->memory, NULL);
        if (answer != -EAGAIN)
            break; /* fall through */
    default: answer = vmalloc_free(life->space, thing->memory, NULL);
    }
    CHECK(answer == 0);
}

static inline void end_mapped(struct life *life, struct thing *thing)
{
    size_t offset = 0, count = vmalloc_frames_count(thing->frames);
    if (thing->kind == NUMBERS)
        CHECK(vmalloc_unmap(life->space, thing->memory, NULL) == 0);
    else if (thing->kind == SHORT)
        CHECK(vmalloc_unmap_short(life->space, thing->memory, count, NULL) == 0);
    else if (thing->kind == SPARSE)
        CHECK(vmalloc_unreserve(life->space, thing->memory, NULL) == 0);
    else if (thing->kind == CONGRUENT)
        CHECK(vmalloc_free_congruent(life->space, thing->memory, &offset, &thing->bytes, 1, NULL) == 0);
}

/* Ends what there is of a thing: one that was made in part has no memory. */
static inline void end_thing(struct life *life, struct thing *thing)
{
    if (thing->memory != NULL && thing->kind == SHARED)
        CHECK(vmalloc_free(life->space, thing->memory, NULL) == 0);
    else if (thing->memory != NULL && thing->kind == AREA)
        end_area(life, thing);
    else if (thing->memory != NULL && thing->kind == RESERVED)
        CHECK(vmalloc_unreserve(life->space, thing->memory, NULL) == 0);
    else if (thing->memory != NULL && thing->kind == HEAP)
        CHECK(vmalloc_free_or_heap(life->space, thing->memory, thing->bytes, thing->align, NULL) == 0);
    else if (thing->memory != NULL && thing->frames != NULL)
        end_mapped(life, thing);
    if (thing->other != NULL) {
        if (thing->memory != NULL)
            check_ends(thing->other, thing); /* what is mapped twice stays until both have ended */
        CHECK(vmalloc_unmap(life->space, thing->other, NULL) == 0);
    }
    if (thing->kind == STACK)
        CHECK(vmalloc_stack_drop(thing->stack, NULL) == (thing->memory != NULL ? 0 : -EALREADY));
    free(thing->stack);
    vmalloc_mapping_free(thing->mapping), vmalloc_frames_free(thing->frames);
    vmalloc_growable_free(thing->growable);
    CHECK(vmalloc_slot_free(thing->slot, NULL, 0, NULL) == 0);
}

#endif
