/* Frees wrong pointers while another thread forks: no block may be altered, and no list may run in a circle.
   astray FORKS */
#include "check.h"

/* Whole pages: such a block of the library starts with its page, and one of glibc does not. */
#define BYTES (24 * page_bytes())
#define INSIDE page_bytes()

static atomic_int is_over;
static int forks;

static void *fork_often(void *unused)
{
    for (int nth = 0; nth < forks; nth++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&is_over, 1);
    return unused;
}

int main(int count, char **words)
{
    CHECK(count == 2);
    forks = atoi(words[1]);
    alarm(600);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fork_often, NULL) == 0);
    while (!atomic_load(&is_over)) {
        unsigned char *block = malloc(BYTES);
        CHECK(block);
        memset(block, 7, BYTES);
        if ((uintptr_t) block % page_bytes() != 0) {
            /* One of glibc's, which serves the others while a thread forks, and ends the program. */
            free(block);
            continue;
        }
        free(block + INSIDE);
        for (int i = 0; i < 64; i++)
            CHECK(block[INSIDE + i] == 7);
        free(block);
        free(block);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    puts("done");
    return 0;
}
