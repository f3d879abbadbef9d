/* Calls in threads that have the least stack. stacks NAME */
#include "check.h"
#include <limits.h>

enum { BLOCKS = 400 };

static void *blocks[BLOCKS];
static const char *name;

static void fill_blocks(void)
{
    for (int nth = 0; nth < BLOCKS; nth++) {
        blocks[nth] = malloc(40000 + 5000 * (nth % 30));
        CHECK(blocks[nth]);
        memset(blocks[nth], nth, 40000);
    }
}

static void free_blocks(int step)
{
    for (int nth = 0; nth < BLOCKS; nth += step) {
        free(blocks[nth]);
        blocks[nth] = NULL;
    }
}

static void use_memory(void)
{
    for (int nth = 0; nth < 30; nth++) {
        unsigned char *p = nth % 2 ? calloc(1, 2 << 20) : malloc(2 << 20);
        CHECK(p && (nth % 2 == 0 || p[100] == 0));
        memset(p, 1, 100000);
        p = realloc(p, 40000 + nth * 100000);
        CHECK(p && p[39999] == 1);
        p = realloc(p, 5 << 20);
        CHECK(p && p[39999] == 1);
        p = realloc(p, 100);
        CHECK(p && p[99] == 1);
        p = realloc(p, 100000);
        CHECK(p && p[99] == 1 && malloc_usable_size(p) >= 100000);
        free(p);
        void *aligned = aligned_alloc(1 << 16, 3 << 16);
        CHECK(aligned);
        free(aligned);
    }
}

static void *play(void *unused)
{
    if (!strcmp(name, "start")) {
        use_memory();
    } else if (!strcmp(name, "all")) {
        use_memory();
        free_blocks(2);
        use_memory();
        malloc_trim(0);
        free_blocks(1);
        malloc_trim(0);
        CHECK(mallinfo2().hblks < 1000);
    } else if (!strcmp(name, "free")) {
        free_blocks(1);
    } else if (!strcmp(name, "trim")) {
        CHECK(malloc_trim(0) == 1);
    }
    return unused;
}

int main(int count, char **words)
{
    CHECK(count == 2);
    name = words[1];
    if (strcmp(name, "start"))
        fill_blocks();
    if (!strcmp(name, "trim"))
        free_blocks(2);
    pthread_attr_t least;
    CHECK(pthread_attr_init(&least) == 0);
    CHECK(pthread_attr_setstacksize(&least, PTHREAD_STACK_MIN) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &least, play, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    free_blocks(1);
    puts("done");
    return 0;
}
