/* Maps memory, writes to a part of its pages, finds nothing there of the last time, and unmaps it.
   maps KIB PERCENT CYCLES */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    size_t bytes = strtoul(words[1], NULL, 10) << 10;
    size_t pages = bytes >> 12, touched = pages * strtoul(words[2], NULL, 10) / 100;
    unsigned long cycles = strtoul(words[3], NULL, 10), wrong = 0;
    for (unsigned long cycle = 0; cycle < cycles; cycle++) {
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return 1;
        for (size_t page = 0; page < touched; page++) {
            volatile unsigned long *words = (volatile unsigned long *)(memory + (page << 12));
            words[cycle & 511] = cycle + 1;
            wrong += words[(cycle - 1) & 511] != 0;
        }
        munmap(memory, bytes);
    }
    printf("%lu wrong\n", wrong);
    return wrong != 0;
}
