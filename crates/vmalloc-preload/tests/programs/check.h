/* A check that says where it failed, with write(2) alone: it is also used where malloc is not. */
#ifndef CHECK_H
#define CHECK_H
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT(x) #x
#define LINE(x) TEXT(x)
#define CHECK(holds)                                                                                       \
    do {                                                                                                   \
        if (!(holds)) {                                                                                    \
            static const char text[] = __FILE__ ":" LINE(__LINE__) ": " #holds "\n";                       \
            if (write(2, text, sizeof text - 1) < 0) { }                                                   \
            _exit(1);                                                                                      \
        }                                                                                                  \
    } while (0)

/* Keeps the compiler from knowing what malloc returns. */
static inline void *hidden(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}
static inline size_t hidden_size(size_t n)
{
    __asm__ volatile("" : "+r"(n));
    return n;
}
#define malloc(n) hidden(malloc(hidden_size(n)))
#define calloc(m, n) hidden(calloc(hidden_size(m), hidden_size(n)))
#define realloc(p, n) hidden(realloc(hidden(p), hidden_size(n)))
#define free(p) free(hidden(p))

/* The bytes of a page, as the machine tells. */
static inline size_t page_bytes(void)
{
    return (size_t) sysconf(_SC_PAGESIZE);
}

/* A step of xorshift64: the next number of a sequence that its seed repeats. */
static inline uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
#endif
