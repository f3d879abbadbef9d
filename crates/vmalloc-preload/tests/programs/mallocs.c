/* Blocks of every size and from every function, in a program that has another malloc as well: whatever makes a block resizes,
   measures and frees it, and no byte changes. mallocs [LIBRARY TO OPEN] */
#include "check.h"
#include <dlfcn.h>
#include <gnu/libc-version.h>

enum { KINDS = 9, MOST = 3 << 20 };

/* Bytes of a block that are its own: the number of the kind in all of them. */
static int holds(const unsigned char *p, size_t n, int value)
{
    for (size_t i = 0; i < n; i += 1 + n / 500)
        if (p[i] != value)
            return 0;
    return p[n - 1] == value;
}

static void *make(int kind, size_t n)
{
    void *p = NULL;
    switch (kind) {
    case 0: return malloc(n);
    case 1:
        p = calloc(n, 1);
        CHECK(p && holds(p, n, 0));
        return p;
    case 2: return posix_memalign(&p, 64, n) ? NULL : p;
    case 3: return aligned_alloc(4096, (n + 4095) / 4096 * 4096);
    case 4: return memalign(256, n);
    case 5: return valloc(n);
    case 6: return realloc(NULL, n);
    case 7: return reallocarray(NULL, n, 1);
    default:
        p = malloc(n);
        memset(p, 'x', n - 1);
        ((char *)p)[n - 1] = 0;
        char *copy = strdup(p);
        free(p);
        return copy;
    }
}

static void *resized(void *p, size_t n, int by_array)
{
    return by_array ? hidden(reallocarray(hidden(p), n, 1)) : realloc(p, n);
}

static void play(void)
{
    static const size_t sizes[] = { 1, 100, 4000, 5000, 30000, 33000, 100000, 500000, 1 << 20, MOST };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int kind = 0; kind < KINDS; kind++)
        for (int from = 0; from < SIZES; from++)
            for (int to = 0; to < SIZES; to++) {
                size_t old = sizes[from], new = sizes[to], kept = old < new ? old : new;
                unsigned char *p = make(kind, old);
                CHECK(p && malloc_usable_size(p) >= old && malloc_usable_size(p) < old + old / 2 + 16384);
                memset(p, kind + 1, malloc_usable_size(p));
                p = resized(p, new, from & 1);
                CHECK(p && malloc_usable_size(p) >= new && holds(p, kept, kind + 1));
                memset(p, kind + 2, new);
                p = resized(p, old, to & 1);
                CHECK(p && holds(p, kept, kind + 2));
                free(p);
            }
}

int main(int count, char **words)
{
    volatile size_t version = (size_t)gnu_get_libc_version;
    CHECK(version);
    char *before = malloc(100), *large = malloc(MOST);
    memset(before, 1, 100);
    memset(large, 1, MOST);
    if (count > 1)
        CHECK(dlopen(words[1], RTLD_NOW | RTLD_GLOBAL));
    play();
    before = realloc(before, MOST);
    large = realloc(large, 10);
    CHECK(holds((unsigned char *)before, 100, 1) && holds((unsigned char *)large, 10, 1));
    free(before);
    free(large);
    puts("done");
    return 0;
}
