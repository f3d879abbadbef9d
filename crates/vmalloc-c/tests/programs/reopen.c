/* The library is opened and closed with a space, a watch and a thread left behind, and the program goes on. reopen is not linked
   to the library. */
#include "check.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AREAS = 50, TURNS = 2, WAIT_S = 30 };

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

#define CALL(library, name) ((__typeof__(&name))dlsym(library, #name))

/* Frees areas without a purge: the thread of the library has something to do. */
static vmalloc_space *leave_behind(void *library, int watched)
{
    vmalloc_space *space = CALL(library, vmalloc_open)(NULL, NULL);
    CHECK(space != NULL);
    if (watched)
        CHECK(CALL(library, vmalloc_watch_new)(space, NULL) != NULL);
    for (int i = 0; i < AREAS; i++) {
        void *memory = CALL(library, vmalloc_alloc)(space, 100000, NULL);
        CHECK(memory != NULL);
        memset(memory, 1, 100000);
        CHECK(CALL(library, vmalloc_free)(space, memory, NULL) == 0);
    }
    return space;
}

/* A child of a fork goes on: the handlers of forks are the library's. */
static void fork_once(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static uint64_t purges(void *library, vmalloc_space *space)
{
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    CHECK(CALL(library, vmalloc_get_stats)(space, &stats, NULL) == 0);
    return stats.purges;
}

int main(void)
{
    CHECK(signal(SIGSEGV, handle) != SIG_ERR);
    for (int turn = 0; turn < TURNS; turn++) {
        void *library = dlopen("libvmalloc.so.0", RTLD_NOW);
        CHECK(library != NULL);
        vmalloc_space *space = leave_behind(library, turn > 0);
        uint64_t before = purges(library, space);
        CHECK(dlclose(library) == 0);
        fork_once();
        CHECK(raise(SIGSEGV) == 0 && handled == turn + 1);

        /* It is still there, and its thread drains. */
        library = dlopen("libvmalloc.so.0", RTLD_NOW | RTLD_NOLOAD);
        CHECK(library != NULL);
        for (int nth = 0; purges(library, space) == before; nth++) {
            CHECK(nth < WAIT_S * 100);
            usleep(10000);
        }
        CHECK(dlclose(library) == 0);
    }
    puts("done");
    return 0;
}
