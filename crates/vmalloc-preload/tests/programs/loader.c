/* The dynamic loader and the first large calls of malloc. loader plugin FILE | loader error */
#include "check.h"
#include <dlfcn.h>

int main(int count, char **words)
{
    CHECK(count >= 2);
    /* The test fails by this signal if a thread waits for ever. */
    alarm(60);
    if (!strcmp(words[1], "plugin")) {
        CHECK(count == 3 && dlopen(words[2], RTLD_NOW));
    } else {
        CHECK(dlopen("/nowhere.so", RTLD_NOW) == NULL);
        void *p = malloc(2 << 20);
        CHECK(p);
        p = realloc(p, 4 << 20);
        CHECK(p);
        free(p);
        const char *said = dlerror();
        CHECK(said && strstr(said, "/nowhere.so"));
    }
    puts("done");
    return 0;
}
