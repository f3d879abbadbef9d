/* Threads that map memory under the lock of a file; that flush all files, under the lock of their list and
   those of the files; and that fork, which takes the lock of the list. No thread may wait for memory while
   another forks, or they wait in a circle for ever.
   files FORKS */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(it) ((it) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #it), abort()))

enum { MAPPERS = 4, FORKERS = 2, BYTES = 256 << 10, PAGE = 4096 };

static FILE *file;
static atomic_int rest;
static int forks;

/* Maps memory, cuts it in two, grows one part, and unmaps all. */
static void use_memory(void)
{
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && at[0] == 0 && at[BYTES - 1] == 0);
    at[0] = at[BYTES - 1] = 1;
    CHECK(munmap(at + BYTES / 2, PAGE) == 0);
    CHECK(mprotect(at, BYTES, PROT_READ) == -1);
    char *rest_of_it = at + BYTES / 2 + PAGE;
    at = mremap(at, BYTES / 2, BYTES, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    CHECK(at[0] == 1 && at[BYTES - 1] == 0 && rest_of_it[BYTES / 2 - PAGE - 1] == 1);
    CHECK(munmap(at, BYTES) == 0 && munmap(rest_of_it, BYTES / 2 - PAGE) == 0);
}

static void *map_often(void *unused)
{
    while (atomic_load(&rest) > 0) {
        char *served = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(served != MAP_FAILED);
        flockfile(file);
        served[BYTES - 1] = 1;
        CHECK(munmap(served, BYTES) == 0);
        use_memory();
        funlockfile(file);
    }
    return unused;
}

static void *flush_all(void *unused)
{
    while (atomic_load(&rest) > 0)
        CHECK(fflush(NULL) == 0);
    return unused;
}

static void *fork_often(void *unused)
{
    for (int nth = 0; nth < forks; nth++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(600);
            for (int step = 0; step < 10; step++)
                use_memory();
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_fetch_sub(&rest, 1);
    return unused;
}

int main(int count, char **words)
{
    CHECK(count == 2);
    forks = atoi(words[1]);
    atomic_store(&rest, FORKERS);
    file = tmpfile();
    CHECK(file);
    /* The test fails by this signal if the threads wait in a circle. */
    alarm(600);
    pthread_t threads[MAPPERS + 1 + FORKERS];
    for (int nth = 0; nth < MAPPERS + 1 + FORKERS; nth++) {
        void *(*play)(void *) = nth < MAPPERS ? map_often : nth == MAPPERS ? flush_all : fork_often;
        CHECK(pthread_create(&threads[nth], NULL, play, NULL) == 0);
    }
    for (int nth = 0; nth < MAPPERS + 1 + FORKERS; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    fclose(file);
    puts("done");
    return 0;
}
