/* The dynamic loader and the first large calls of malloc. loader plugin FILE | loader error |
   loader reopen FILE */
#include "check.h"
#include <dlfcn.h>

int main(int count, char **words)
{
    CHECK(count >= 2);
    /* The test fails by this signal if a thread waits for ever. */
    alarm(60);
    if (!strcmp(words[1], "plugin")) {
        CHECK(count == 3 && dlopen(words[2], RTLD_NOW));
    } else if (!strcmp(words[1], "reopen")) {
        /* This program runs without the library to preload, and opens it. All of malloc stays glibc's. */
        for (int turn = 0; turn < 3; turn++) {
            void *library = dlopen(words[2], RTLD_NOW);
            CHECK(library);
            void *(*theirs)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
            char *p = theirs(5 << 20);
            CHECK(p);
            memset(p, 1, 5 << 20);
            CHECK(dlclose(library) == 0 && dlopen(words[2], RTLD_NOW | RTLD_NOLOAD));
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            p = realloc(p, 6 << 20);
            CHECK(p && p[4 << 20] == 1);
            free(p);
        }
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
