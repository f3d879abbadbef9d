/* Two threads that write to one area without an order: a race, which a sanitizer has to find. */
#include "check.h"
#include <pthread.h>

static vmalloc_space *space;
static char *shared;

static void *work(void *context)
{
    (void)context;
    for (int turn = 0; turn < 1000; turn++)
        shared[0]++;
    return NULL;
}

int main(void)
{
    space = open_space(0);
    shared = vmalloc_alloc(space, page(), NULL);
    CHECK(shared != NULL);
    pthread_t threads[2];
    for (int nth = 0; nth < 2; nth++)
        CHECK(pthread_create(&threads[nth], NULL, work, NULL) == 0);
    for (int nth = 0; nth < 2; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    CHECK(vmalloc_free(space, shared, NULL) == 0);
    vmalloc_close(space);
    return 0;
}
