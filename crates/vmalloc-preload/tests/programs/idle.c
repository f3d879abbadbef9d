/* What an idle program keeps of a burst of 310 MB. idle waits|calls|rests */
#include "check.h"
#include <time.h>

enum { BLOCKS = 310, LEFT = 8 << 20, LEFT_ALONE = 32 << 20 };

static size_t resident(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu %lu", &all, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void sleep_ms(long ms)
{
    const struct timespec nap = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&nap, NULL);
}

int main(int count, char **words)
{
    static char *blocks[BLOCKS];
    CHECK(count == 2);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1 << 20);
        CHECK(blocks[i]);
        memset(blocks[i], 1, 1 << 20);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    if (strcmp(words[1], "rests") == 0) {
        CHECK(resident() <= LEFT_ALONE);
        puts("done");
        return 0;
    }
    if (strcmp(words[1], "calls") == 0) {
        /* More than 32 times the time between two decays. */
        sleep_ms(200);
        free(malloc(1 << 20));
    } else {
        /* A quarter each second takes 13 seconds and more. */
        for (int i = 0; i < 1000 && resident() > LEFT; i++)
            sleep_ms(10);
    }
    CHECK(resident() <= LEFT);
    puts("done");
    return 0;
}
