/* Threads that read long lines, which grow by realloc under the lock of a file; that flush all files, under
   the lock of their list and those of the files; and that fork, which takes the lock of the list. No thread
   may wait for memory while another forks, or they wait in a circle for ever.
   files FORKS */
#include "check.h"

enum { READERS = 4, FORKERS = 2, LINE_BYTES = 300000 };

static char path[] = "/tmp/vmalloc-files-XXXXXX";
static atomic_int rest;
static int forks;

static void *read_lines(void *unused)
{
    while (atomic_load(&rest) > 0) {
        FILE *file = fopen(path, "r");
        CHECK(file);
        char *line = NULL;
        size_t room = 0;
        CHECK(getline(&line, &room, file) == LINE_BYTES);
        CHECK(line[0] == 'x' && line[LINE_BYTES - 2] == 'x');
        free(line);
        fclose(file);
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
            char *block = malloc(LINE_BYTES);
            CHECK(block);
            memset(block, 1, LINE_BYTES);
            free(block);
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
    int file = mkstemp(path);
    CHECK(file >= 0);
    char *line = malloc(LINE_BYTES);
    memset(line, 'x', LINE_BYTES - 1);
    line[LINE_BYTES - 1] = '\n';
    CHECK(write(file, line, LINE_BYTES) == LINE_BYTES);
    free(line);
    /* The test fails by this signal if the threads wait in a circle. */
    alarm(600);
    pthread_t threads[READERS + 1 + FORKERS];
    for (int nth = 0; nth < READERS + 1 + FORKERS; nth++) {
        void *(*play)(void *) = nth < READERS ? read_lines : nth == READERS ? flush_all : fork_often;
        CHECK(pthread_create(&threads[nth], NULL, play, NULL) == 0);
    }
    for (int nth = 0; nth < READERS + 1 + FORKERS; nth++)
        CHECK(pthread_join(threads[nth], NULL) == 0);
    CHECK(unlink(path) == 0);
    puts("done");
    return 0;
}
