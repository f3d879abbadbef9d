/* A block that grows by 1 MiB up to 512 MiB, with room behind it and with another block there. Prints microseconds a
   step, the first touch of new pages not included. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

int main(int argc, char **argv)
{
    int blocked = argc > 1 && !strcmp(argv[1], "blocked");
    size_t mib = 1 << 20;
    char *block = malloc(mib), *behind[512];
    memset(block, 1, mib);
    double spent = 0;
    for (size_t step = 2; step <= 512; step++) {
        if (blocked) {
            behind[step - 1] = malloc(4 * mib);
            behind[step - 1][0] = 1;
        }
        double start = now();
        char *grown = realloc(block, step * mib);
        spent += now() - start;
        if (!grown)
            return 1;
        block = grown;
        memset(block + (step - 1) * mib, (int) step, mib);
    }
    for (size_t step = 2; step <= 512; step++)
        if ((unsigned char) block[step * mib - 1] != (unsigned char) step)
            return 2;
    printf("%.1f\n", spent / 511);
    return 0;
}
