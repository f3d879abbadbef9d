/* Each entry point against the C standard and glibc's manual. It has to pass with and without the library. */
#include "check.h"

static const size_t SIZES[] = {0,     1,      24,      4095,    4096,    4097,     32767,    32768,
                               32769, 100000, 131072,  1 << 20, 4 << 20, 33 << 20, 64 << 20};
#define COUNT (sizeof SIZES / sizeof *SIZES)

/* Of a large block the first MiB is written, some bytes at each 64 KiB behind it, and the last byte: a touch of
   every page would be most of the work. */
#define WHOLE ((size_t) 1 << 20)
#define STEP ((size_t) 64 << 10)
#define SOME 64

static void fill(unsigned char *p, size_t n, unsigned char with)
{
    memset(p, with, n < WHOLE ? n : WHOLE);
    for (size_t at = WHOLE; at < n; at += STEP)
        memset(p + at, with, n - at < SOME ? n - at : SOME);
    if (n)
        p[n - 1] = with;
}

/* Looks where the fill of a block that is as large or larger has written. */
static int is_filled(const unsigned char *p, size_t n, unsigned char with)
{
    size_t whole = n < WHOLE ? n : WHOLE;
    if (whole && (p[0] != with || memcmp(p, p + 1, whole - 1) != 0))
        return 0;
    for (size_t at = WHOLE; at < n; at += STEP)
        for (size_t i = at; i < n && i < at + SOME; i++)
            if (p[i] != with)
                return 0;
    return 1;
}

static void sizes(void)
{
    unsigned char *all[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        errno = 77;
        all[i] = malloc(SIZES[i]);
        CHECK(all[i] && errno == 77);
        CHECK((uintptr_t) all[i] % 16 == 0);
        CHECK(malloc_usable_size(all[i]) >= SIZES[i]);
        fill(all[i], malloc_usable_size(all[i]), (unsigned char) i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(is_filled(all[i], SIZES[i], (unsigned char) i));
        errno = 78;
        free(all[i]);
        CHECK(errno == 78);
    }
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
}

static void zeros(void)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < COUNT; i++) {
            unsigned char *dirty = malloc(SIZES[i]);
            fill(dirty, SIZES[i], 0xff);
            free(dirty);
            unsigned char *clean = calloc(1 + SIZES[i] / 8, 8);
            CHECK(clean && is_filled(clean, SIZES[i], 0));
            fill(clean, SIZES[i], 0xee);
            free(clean);
        }
    errno = 0;
    CHECK(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    void *none = calloc(0, 8);
    CHECK(none);
    free(none);
}

static void resizes(void)
{
    for (size_t from = 0; from < COUNT; from++)
        for (size_t to = 0; to < COUNT; to++) {
            if (!SIZES[to] && SIZES[from])
                continue;
            unsigned char *p = malloc(SIZES[from]);
            fill(p, SIZES[from], 0x5a);
            errno = 79;
            unsigned char *q = realloc(p, SIZES[to] ? SIZES[to] : 1);
            CHECK(q && errno == 79);
            CHECK(is_filled(q, SIZES[from] < SIZES[to] ? SIZES[from] : SIZES[to], 0x5a));
            fill(q, SIZES[to], 0xa5);
            free(q);
        }
    CHECK(realloc(malloc(100), 0) == NULL);
    CHECK(realloc(malloc(100000), 0) == NULL);
    void *p = realloc(NULL, 100000);
    CHECK(p);
    errno = 0;
    CHECK(realloc(p, (size_t) PTRDIFF_MAX + 1) == NULL && errno == ENOMEM);
    memset(p, 1, 100000);
    errno = 0;
    CHECK(reallocarray(p, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    p = reallocarray(p, 50000, 4);
    CHECK(p && malloc_usable_size(p) >= 200000 && is_filled(p, 100000, 1));
    free(p);
}

static void alignments(void)
{
    for (size_t align = sizeof(void *); align <= 16 << 20; align *= 2)
        for (size_t i = 0; i < COUNT; i += 3) {
            void *p = NULL;
            CHECK(posix_memalign(&p, align, SIZES[i]) == 0 && p && (uintptr_t) p % align == 0);
            void *q = aligned_alloc(align, SIZES[i]);
            CHECK(q && (uintptr_t) q % align == 0);
            void *r = memalign(align, SIZES[i]);
            CHECK(r && (uintptr_t) r % align == 0);
            fill(p, SIZES[i], 1);
            fill(q, SIZES[i], 2);
            fill(r, SIZES[i], 3);
            CHECK(is_filled(p, SIZES[i], 1) && is_filled(q, SIZES[i], 2));
            r = realloc(r, SIZES[i] + 70000);
            CHECK(r && is_filled(r, SIZES[i], 3));
            free(p);
            free(q);
            free(r);
        }
    void *p = (void *) 5;
    size_t wrong[] = {0, 1, 4, 24, 4097};
    for (size_t i = 0; i < 5; i++) {
        CHECK(posix_memalign(&p, wrong[i], 100000) == EINVAL && p == (void *) 5);
    }
    CHECK(posix_memalign(&p, 64, (size_t) PTRDIFF_MAX + 1) == ENOMEM && p == (void *) 5);
    CHECK(posix_memalign(&p, (size_t) 1 << 62, 1 << 20) == ENOMEM && p == (void *) 5);
    errno = 0;
    CHECK(memalign(SIZE_MAX, 100000) == NULL && errno == EINVAL);
    p = memalign(24, 100000);
    CHECK(p && (uintptr_t) p % 32 == 0);
    free(p);
    p = valloc(100000);
    CHECK(p && (uintptr_t) p % page_bytes() == 0);
    free(p);
    p = pvalloc(100001);
    CHECK(p && (uintptr_t) p % page_bytes() == 0 && malloc_usable_size(p) >= 100001);
    free(p);
    errno = 0;
    CHECK(pvalloc(SIZE_MAX) == NULL && errno == ENOMEM);
}

static void absurd(void)
{
    size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t) PTRDIFF_MAX + 1, PTRDIFF_MAX, (size_t) 1 << 47};
    for (size_t i = 0; i < 5; i++) {
        errno = 0;
        CHECK(malloc(sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(calloc(1, sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(aligned_alloc(64, sizes[i]) == NULL && errno == ENOMEM);
    }
}

static void counts(void)
{
    struct mallinfo2 before = mallinfo2();
    void *p = malloc(10 << 20);
    memset(p, 1, 10 << 20);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.hblkhd + after.uordblks >= before.hblkhd + before.uordblks + (10 << 20));
    free(p);
    CHECK(malloc_trim(0) >= 0);
}

int main(void)
{
    for (int round = 0; round < 2; round++) {
        sizes();
        zeros();
        resizes();
        alignments();
        absurd();
        counts();
    }
    puts("done");
    return 0;
}
