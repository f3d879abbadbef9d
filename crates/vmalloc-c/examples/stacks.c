/* Threads on guarded stacks of a pool: cheap to make again. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <vmalloc.h>

static void *work(void *context)
{
    char local[10000] = { 1 };
    *(int *)context += local[0];
    return NULL;
}

int main(void)
{
    vmalloc_stacks_options options = VMALLOC_STACKS_OPTIONS_INIT;
    options.stack_bytes = 256 << 10;
    options.name = "workers";
    vmalloc_stacks *pool = vmalloc_stacks_open(&options, NULL);
    int done = 0;
    for (int turn = 0; turn < 100; turn++) {
        vmalloc_stack stack;
        if (vmalloc_stack_make(pool, 0, NULL, &stack, NULL) != 0)
            return 1;
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack.bottom, stack.bytes);
        if (pthread_create(&thread, &attributes, work, &done) != 0 || pthread_join(thread, NULL) != 0)
            return 1;
        pthread_attr_destroy(&attributes);
        vmalloc_stack_drop(&stack, NULL);
    }
    printf("%d threads ran on guarded stacks\n", done);
    vmalloc_stacks_close(pool);
    return 0;
}
