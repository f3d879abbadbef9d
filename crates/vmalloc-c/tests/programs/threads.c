/* Threads that allocate, hand over, free, and fork meanwhile. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 3000, SLOTS = 64 };

static vmalloc_space *space;
static _Atomic(char *) handed[SLOTS];
static atomic_int stop;

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* The first word of an area has its size, and its last byte the size's low byte. */
static char *make(uint64_t *random)
{
    size_t bytes = 16 + next(random) % (20 * page());
    /* The library clears the memory of a former owner, and copies it as it moves. */
    char *memory = bytes % 2 ? vmalloc_zalloc(space, bytes, NULL) : vmalloc_alloc(space, bytes, NULL);
    CHECK(memory != NULL && (bytes % 2 == 0 || (memory[0] == 0 && memory[bytes - 1] == 0)));
    if (bytes % 4 < 2) {
        memory[bytes - 1] = 7;
        size_t last = bytes - 1;
        memory = vmalloc_realloc(space, memory, bytes *= 2, NULL);
        CHECK(memory != NULL && memory[last] == 7);
    }
    memcpy(memory, &bytes, sizeof bytes);
    memory[bytes - 1] = (char)bytes;
    return memory;
}

static void end(char *memory)
{
    size_t bytes;
    memcpy(&bytes, memory, sizeof bytes);
    CHECK(memory[bytes - 1] == (char)bytes && vmalloc_usable_size(space, memory) >= bytes);
    CHECK(vmalloc_free(space, memory, NULL) == 0);
}

static void turns(uint64_t seed, int count)
{
    for (int turn = 0; turn < count && !stop; turn++) {
        char *before = atomic_exchange(&handed[next(&seed) % SLOTS], make(&seed));
        if (before != NULL)
            end(before);
        if (turn % 500 == 0)
            CHECK(vmalloc_purge(space, NULL) == 0);
    }
}

static void *work(void *context)
{
    turns((uintptr_t)context, TURNS);
    return NULL;
}

static void *work_on(void *context)
{
    turns((uintptr_t)context, 1 << 30);
    return NULL;
}

static void forks(void)
{
    pthread_t threads[2];
    for (uintptr_t nth = 0; nth < 2; nth++)
        CHECK(pthread_create(&threads[nth], NULL, work_on, (void *)(nth + 77)) == 0);
    for (int turn = 0; turn < 30; turn++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            turns(turn + 1, 200);
            CHECK(vmalloc_purge(space, NULL) == 0 && vmalloc_verify(space, NULL) == 0);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    stop = 1;
    for (int nth = 0; nth < 2; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
}

int main(void)
{
    const char *given = getenv("VMALLOC_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 4711;
    printf("VMALLOC_SEED=%" PRIu64 "\n", seed);
    space = open_space(0);
    pthread_t threads[THREADS];
    for (uintptr_t nth = 0; nth < THREADS; nth++)
        CHECK(pthread_create(&threads[nth], NULL, work, (void *)(seed + nth + 1)) == 0);
    for (int nth = 0; nth < THREADS; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    forks();
    for (int nth = 0; nth < SLOTS; nth++)
        if (handed[nth] != NULL)
            end(handed[nth]);
    CHECK(vmalloc_purge(space, NULL) == 0 && vmalloc_verify(space, NULL) == 0);
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    CHECK(vmalloc_get_stats(space, &stats, NULL) == 0 && stats.busy_areas == 0);
    vmalloc_close(space);
    return 0;
}
