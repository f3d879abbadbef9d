/* A library with a malloc of its own, to which a program is linked. Preloading takes its place, as a whole. */
#include <stdlib.h>

void *malloc(size_t n)
{
    (void) n;
    abort();
}
size_t malloc_usable_size(void *p)
{
    (void) p;
    abort();
}
int malloc_trim(size_t pad)
{
    (void) pad;
    abort();
}
void rival(void) {}
