/* One mistake by its name, with a block of a size. mistakes NAME BYTES */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t n = strtoul(argv[2], NULL, 10);
    volatile char *p = malloc(n);
    CHECK(p && malloc_usable_size((char *)p) >= n && malloc_usable_size((char *)p) < n + 16);
    memset((char *)p, 1, malloc_usable_size((char *)p));
    if (!strcmp(argv[1], "overrun")) {
        p[malloc_usable_size((char *)p)] = 1;
    } else if (!strcmp(argv[1], "write")) {
        free((char *)p);
        p[0] = 1;
    } else if (!strcmp(argv[1], "read")) {
        free((char *)p);
        CHECK(p[n - 1] == 2);
    } else if (!strcmp(argv[1], "moved")) {
        char *moved = realloc((char *)p, n + 1);
        CHECK(moved && moved[n - 1] == 1);
        p[n - 1] = 2;
    } else if (!strcmp(argv[1], "twice")) {
        free((char *)p);
        free((char *)p);
    } else if (!strcmp(argv[1], "inside")) {
        free((char *)p + (n > 16 ? 16 : 1));
    } else {
        p = calloc(n, 1);
        CHECK(p && p[0] == 0 && p[n - 1] == 0);
        free((char *)p);
    }
    puts("done");
    return 0;
}
