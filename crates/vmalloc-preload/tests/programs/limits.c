/* Allocations under limits: of addresses, and without /proc; how glibc's heap grows; and how many new blocks
   have memory before they are touched. limits NAME */
#include "check.h"

static void use(void)
{
    for (int i = 0; i < 50; i++) {
        unsigned char *p = malloc(1 << 20);
        CHECK(p);
        memset(p, i, 1 << 20);
        p = realloc(p, 3 << 20);
        CHECK(p && p[(1 << 20) - 1] == i);
        free(p);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!strcmp(argv[1], "start")) {
        char *block = malloc(1 << 20);
        CHECK(block);
        memset(block, 1, 2 * page_bytes());
        free(block);
    } else if (!strcmp(argv[1], "addresses")) {
        struct rlimit limit = {512 << 20, 512 << 20};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        use();
        unsigned char *most = malloc(400 << 20);
        CHECK(most);
        free(most);
        errno = 0;
        CHECK(malloc(600 << 20) == NULL && errno == ENOMEM);
    } else if (!strcmp(argv[1], "chroot")) {
        CHECK(chroot("/var/empty") == 0 || chroot("/tmp") == 0);
        CHECK(chdir("/") == 0);
        use();
    } else if (!strcmp(argv[1], "heap")) {
        use();
        int moves = 0;
        void *before = sbrk(0);
        for (int i = 0; i < 10000; i++) {
            CHECK(malloc(1000));
            moves += sbrk(0) != before;
            before = sbrk(0);
        }
        printf("moved %d times\n", moves);
    } else if (!strcmp(argv[1], "new")) {
        /* Nothing is freed, so that what comes next is new. */
        for (int i = 0; i < 8; i++)
            CHECK(malloc(1 << 20));
        int populated = 0;
        for (int i = 0; i < 40; i++) {
            char *block = malloc(64 << 10);
            unsigned char present;
            CHECK(block && mincore(block, page_bytes(), &present) == 0);
            populated += present & 1;
            memset(block, i, 64 << 10);
        }
        printf("populated %d blocks\n", populated);
    } else {
        use();
        use();
    }
    puts("done");
    return 0;
}
