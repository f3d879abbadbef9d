/* Says whether it has more rights than its caller, and uses a large block. */
#include "check.h"
#include <sys/auxv.h>

int main(void)
{
    puts(getauxval(AT_SECURE) ? "more rights" : "the rights of the caller");
    char *block = malloc(1 << 20);
    CHECK(block);
    memset(block, 1, 1 << 20);
    free(block);
    puts("done");
    return 0;
}
