/* Guarded stacks: a thread runs on one. */
#include "check.h"
#include <pthread.h>

static void *run(void *context)
{
    volatile char local = 1;
    vmalloc_stack *stack = context;
    uintptr_t here = (uintptr_t)&local;
    /* A sanitizer may have moved the variable to a stack of its own. */
    return here > (uintptr_t)stack->bottom && here < (uintptr_t)stack->top ? stack : NULL;
}

static void growable(vmalloc_stacks *pool)
{
    vmalloc_growable *stack = vmalloc_growable_new(pool, page(), 64 * page(), "deep", NULL);
    CHECK(stack != NULL && vmalloc_growable_size(stack) == page());
    CHECK(vmalloc_growable_grow(stack, 10 * page(), NULL) == 0 && vmalloc_growable_size(stack) == 10 * page());
    char *top = vmalloc_growable_top(stack);
    top[-1] = 1, top[-(ptrdiff_t)(10 * page())] = 1;
    CHECK(vmalloc_growable_shrink(stack, 2 * page(), NULL) == 0 && vmalloc_growable_size(stack) == 2 * page());
    REFUSED(vmalloc_growable_grow(stack, 65 * page(), detail), ERANGE, VMALLOC_E_BEYOND);
    vmalloc_growable_free(stack), vmalloc_growable_free(NULL);
    stack = vmalloc_growable_new(pool, 0, 64 * page(), NULL, NULL);
    CHECK(stack != NULL && vmalloc_growable_size(stack) == 0);
    vmalloc_growable_free(stack);
    stack = vmalloc_growable_new(pool, 0, page(), "x", NULL);
    CHECK(stack != NULL && vmalloc_growable_size(stack) == 0);
    vmalloc_growable_free(stack);
    NO_POINTER(vmalloc_growable_new(pool, 2 * page(), page(), NULL, detail), ERANGE, VMALLOC_E_BEYOND);
    NO_POINTER(vmalloc_growable_new(NULL, 1, 1, NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_growable_grow(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_growable_shrink(NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    CHECK(vmalloc_growable_top(NULL) == NULL && vmalloc_growable_size(NULL) == 0);
}

int main(void)
{
    vmalloc_stacks_options options = VMALLOC_STACKS_OPTIONS_INIT;
    options.stack_bytes = 256 << 10, options.name = "workers", options.span_bytes = ((size_t)1 << 34) + 1;
    vmalloc_stacks *pool = vmalloc_stacks_open(&options, NULL);
    CHECK(pool != NULL && vmalloc_stacks_stack_bytes(pool) == 256 << 10);
    vmalloc_alt_stack *alternate = vmalloc_alt_stack_install(pool, NULL);
    CHECK(alternate != NULL && vmalloc_stacks_report_overflows(NULL) == 0);
    for (int turn = 0; turn < 3; turn++) {
        vmalloc_stack stack = { 0 };
        CHECK(vmalloc_stack_make(pool, turn == 1 ? 1 << 20 : 0, turn == 2 ? "named" : NULL, &stack, NULL) == 0);
        CHECK((char *)stack.top - (char *)stack.bottom == (ptrdiff_t)stack.bytes);
        pthread_attr_t attributes;
        pthread_t thread;
        void *answer;
        CHECK(pthread_attr_init(&attributes) == 0);
        CHECK(pthread_attr_setstack(&attributes, stack.bottom, stack.bytes) == 0);
        CHECK(pthread_create(&thread, &attributes, run, &stack) == 0 && pthread_join(thread, &answer) == 0);
#if !defined(__SANITIZE_ADDRESS__)
        CHECK(answer == &stack);
#endif
        CHECK(vmalloc_stack_drop(&stack, NULL) == 0);
        REFUSED(vmalloc_stack_drop(&stack, detail), EALREADY, VMALLOC_E_ALREADY_FREED);
        pthread_attr_destroy(&attributes);
    }
    growable(pool);
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    CHECK(vmalloc_stacks_get_stats(pool, &stats, NULL) == 0 && stats.span_pages > 0);
    CHECK(vmalloc_stacks_trim(pool, NULL) == 0 && vmalloc_stacks_clear(pool, NULL) == 0);
    vmalloc_stack stack = { 0 };
    CHECK(vmalloc_stack_make(pool, 0, NULL, &stack, NULL) == 0);
    vmalloc_alt_stack_free(alternate), vmalloc_alt_stack_free(NULL);
    vmalloc_stacks_close(pool); /* its last stack keeps it */
    ((char *)stack.top)[-1] = 1;
    CHECK(vmalloc_stack_drop(&stack, NULL) == 0);

    REFUSED(vmalloc_stack_drop(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_stack_make(NULL, 0, NULL, &stack, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_stacks_trim(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_stacks_clear(NULL, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_stacks_get_stats(NULL, &stats, detail), EINVAL, VMALLOC_E_NULL);
    NO_POINTER(vmalloc_alt_stack_install(NULL, detail), EINVAL, VMALLOC_E_NULL);
    CHECK(vmalloc_stacks_stack_bytes(NULL) == 0);
    options.stack_bytes = 1;
    NO_POINTER(vmalloc_stacks_open(&options, detail), EINVAL, VMALLOC_E_TOO_SMALL);
    options.stack_bytes = 0, options.align = 3;
    NO_POINTER(vmalloc_stacks_open(&options, detail), EINVAL, VMALLOC_E_ALIGN);
    options.align = 0, options.flags = 1u << 20;
    NO_POINTER(vmalloc_stacks_open(&options, detail), EINVAL, VMALLOC_E_FLAGS);
    vmalloc_stacks_close(NULL);
    return 0;
}
