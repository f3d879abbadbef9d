/* The address map alone, in memory of the program's: runs of ids, and no heap. */
#include <stdalign.h>
#include <stdio.h>
#include <vmalloc.h>

int main(void)
{
    static alignas(16) char memory[64 << 10];
    vmalloc_map *ids = vmalloc_map_new_in(memory, sizeof memory, 1, 1 << 20, NULL);
    vmalloc_fit fit = VMALLOC_FIT_INIT;
    fit.pages = 100;
    fit.align = 64;
    uint64_t first, second;
    if (vmalloc_map_alloc(ids, &fit, &first, NULL) != 0 || vmalloc_map_alloc(ids, &fit, &second, NULL) != 0)
        return 1;
    printf("100 ids from %llu on, 100 from %llu on\n", (unsigned long long)first, (unsigned long long)second);
    vmalloc_map_release(ids, first, NULL, NULL);
    fit.pages = 2 << 20;
    vmalloc_error error;
    if (vmalloc_map_alloc(ids, &fit, &first, &error) != 0)
        printf("%s\n", error.text);
    vmalloc_map_free(ids);
    return 0;
}
