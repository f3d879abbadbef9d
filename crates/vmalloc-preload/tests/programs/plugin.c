/* A library whose constructor starts a thread and joins it, inside dlopen(3), whose lock it holds. The thread
   makes the first large calls of the program. */
#include "check.h"

static void *use_memory(void *unused)
{
    unsigned char *p = malloc(2 << 20);
    CHECK(p);
    memset(p, 1, 2 << 20);
    p = realloc(p, 5 << 20);
    CHECK(p && p[(2 << 20) - 1] == 1);
    CHECK(malloc_usable_size(p) >= 5 << 20);
    free(p);
    p = realloc(malloc(100), 3 << 20);
    CHECK(p);
    free(p);
    CHECK(malloc_trim(0) >= 0);
    CHECK(mallinfo2().hblks < 100);
    return unused;
}

__attribute__((constructor)) static void construct(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_memory, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}
