/* One misuse by its name. */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char *p = malloc(1 << 20), *big = malloc(2 << 20), *q = malloc(100000);
    p[0] = q[0] = big[0] = 1;
    if (!strcmp(argv[1], "interior")) {
        free(q + page_bytes());
    } else if (!strcmp(argv[1], "unaligned")) {
        free(q + 16);
    } else if (!strcmp(argv[1], "double")) {
        free(q);
        free(q);
    } else if (!strcmp(argv[1], "double-large")) {
        free(big);
        free(big);
    } else if (!strcmp(argv[1], "realloc-freed")) {
        free(q);
        CHECK(realloc(q, 200000) == NULL);
    } else if (!strcmp(argv[1], "realloc-interior")) {
        CHECK(realloc(q + page_bytes(), 200000) == NULL);
    } else if (!strcmp(argv[1], "realloc-small-interior")) {
        CHECK(realloc(q + page_bytes(), 20) == NULL);
    } else if (!strcmp(argv[1], "foreign")) {
        static char foreign[64];
        free(foreign + 16);
    } else if (!strcmp(argv[1], "touch")) {
        free(q);
        q[5] = 1;
    } else if (!strcmp(argv[1], "overrun")) {
        q[malloc_usable_size(q)] = 1;
    }
    free(p);
    puts("done");
    return 0;
}
