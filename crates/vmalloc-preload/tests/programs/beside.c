/* One thread grows blocks, which moves their pages; the main one maps memory of its own beside the heap, looks at it and
   unmaps it. No such mapping may lie in the heap's reservation, and none may change. beside SECONDS RESERVED_BYTES */
#include "check.h"
#include <time.h>

enum { BLOCKS = 8 };

static atomic_int over;
static atomic_long moves;

/* Returns where the largest mapping ends, which is the rest of the reservation. */
static uintptr_t end_of_largest(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    char line[512];
    unsigned long start, end, most = 0, at = 0;
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && end - start > most) {
            most = end - start;
            at = end;
        }
    }
    fclose(maps);
    return at;
}

static char *grown(char *block, size_t bytes, size_t touched)
{
    block = realloc(block, bytes);
    CHECK(block && block[0] == 1);
    block[touched] = 1;
    atomic_fetch_add(&moves, 1);
    return block;
}

/* Blocks that are freed between others are reused: what grows is several mappings of the kernel then. */
static void *grow(void *none)
{
    uint64_t state = 88172645463325252;
    while (!over) {
        char *blocks[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            size_t bytes = (600 << 10) + next(&state) % (1 << 20);
            blocks[i] = malloc(bytes);
            CHECK(blocks[i]);
            memset(blocks[i], 1, bytes);
        }
        for (int i = 0; i < BLOCKS; i += 2)
            free(blocks[i]);
        for (int i = 0; i < BLOCKS; i++) {
            if (i % 2 == 0) {
                blocks[i] = malloc(700 << 10);
                CHECK(blocks[i]);
                blocks[i][0] = 1;
            }
            blocks[i] = grown(blocks[i], (2 << 20) + next(&state) % (3 << 20), page_bytes());
            blocks[i] = grown(blocks[i], (6 << 20) + next(&state) % (3 << 20), 5 << 20);
        }
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    return none;
}

/* Maps pages, writes to them, and looks at them for a while. */
static void look(uint64_t *state, uintptr_t start, uintptr_t end)
{
    size_t bytes = (next(state) % 64 + 1) * page_bytes();
    volatile char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    CHECK(((uintptr_t)own < start || (uintptr_t)own >= end) && "a mapping of others is inside of the reservation");
    for (size_t at = 0; at < bytes; at += page_bytes())
        own[at] = 77;
    for (int turn = 0; turn < 10; turn++)
        for (size_t at = 0; at < bytes; at += page_bytes())
            CHECK(own[at] == 77 && "a mapping of others has changed");
    CHECK(munmap((void *)own, bytes) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    time_t last = time(NULL) + atoi(argv[1]);
    /* It opens the heap. */
    free(malloc(1 << 20));
    uintptr_t end = end_of_largest(), start = end - strtoull(argv[2], NULL, 10);
    uint64_t state = 1181783497276652981;
    long looks = 0;
    pthread_t grower;
    CHECK(pthread_create(&grower, NULL, grow, NULL) == 0);
    for (; time(NULL) < last; looks++)
        look(&state, start, end);
    over = 1;
    CHECK(pthread_join(grower, NULL) == 0);
    printf("%ld moves, %ld mappings\ndone\n", moves, looks);
    return 0;
}
