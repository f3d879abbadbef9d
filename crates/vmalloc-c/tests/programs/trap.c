/* A watched space reports a trap before the program ends of it. */
#include "check.h"

int main(void)
{
    vmalloc_space *space = open_space(VMALLOC_OPEN_TRAP_ON_FREE);
    vmalloc_watch *watch = vmalloc_watch_new(space, NULL);
    CHECK(watch != NULL);
    char *memory = vmalloc_alloc(space, 5 * page(), NULL);
    memory[0] = 1;
    CHECK(vmalloc_free(space, memory, NULL) == 0);
    *(volatile char *)memory = 1;
    return 0;
}
