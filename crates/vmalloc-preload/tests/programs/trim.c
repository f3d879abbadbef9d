/* malloc_trim tells whether it has given something back, with large blocks and small ones. trim [LARGE ONES ARE OURS] */
#include "check.h"

enum { BLOCKS = 200 };

int main(int count, char **words)
{
    (void)words;
    static const size_t sizes[] = { 20000, 600000 };
    malloc_trim(0);
    for (int round = 0; round < 4; round++) {
        char *blocks[BLOCKS];
        size_t n = sizes[round % 2];
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(n);
            CHECK(blocks[i]);
            memset(blocks[i], 1, n);
        }
        /* Every second one: glibc's heap keeps its top. */
        for (int i = 0; i < BLOCKS; i += 2)
            free(blocks[i]);
        CHECK(malloc_trim(0) == 1 && "something was free");
        CHECK(malloc_trim(0) == 0 && malloc_trim(0) == 0 && "nothing was left to give back");
        for (int i = 1; i < BLOCKS; i += 2)
            free(blocks[i]);
    }
    /* Whole chunks of addresses are free now. glibc trims by itself as it frees. */
    int given = malloc_trim(0);
    CHECK((given == 1 || count < 2) && "something was free");
    CHECK(malloc_trim(0) == 0 && "nothing was left to give back");
    puts("done");
    return 0;
}
