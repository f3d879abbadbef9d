/* A library that counts some of the calls of malloc, and hands them on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static long calls;

void *malloc(size_t n)
{
    static void *(*next)(size_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "malloc");
    calls++;
    return next(n);
}
void free(void *p)
{
    static void (*next)(void *);
    if (!next)
        next = dlsym(RTLD_NEXT, "free");
    next(p);
}
