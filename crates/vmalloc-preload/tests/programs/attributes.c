/* Blocks with attributes of their pages, which end with them; and children that lack a block. attributes NAME */
#include "check.h"

static const size_t size = 8 << 20;

static char *pages_of(char *block)
{
    return (char *) (((uintptr_t) block + page_bytes() - 1) & -page_bytes());
}

static void advise(char *block, int advice)
{
    CHECK(madvise(pages_of(block), size - 2 * page_bytes(), advice) == 0);
}

static char *block_of(int content)
{
    char *block = malloc(size);
    CHECK(block);
    memset(block, content, size);
    return block;
}

/* Allocates more than the hole has room for. */
static void churn(void)
{
    char *all[200];
    for (int i = 0; i < 200; i++) {
        char *block = malloc(100000 + i * 1000);
        CHECK(block);
        memset(block, i, 100000);
        block = realloc(block, 200000 + i * 1000);
        CHECK(block && block[99999] == (char) i);
        all[i] = block;
        free(malloc(10 + i * 100));
    }
    for (int i = 0; i < 200; i++)
        free(all[i]);
    void *foreign = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(foreign != MAP_FAILED && malloc_usable_size(malloc(1 << 20)) >= 1 << 20);
}

/* Runs a child that allocates, and checks a byte of a block. */
static void in_child(char *block, int expected, void (*work)(void))
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work();
        if (block) {
            CHECK(block[size / 2] == (char) expected);
            block[size / 2] = 9;
            free(block);
        }
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Frees a block with an attribute, and has a child look at all that comes from there. */
static void next_owners(char *block)
{
    free(block);
    char *next[4];
    for (int i = 0; i < 4; i++)
        next[i] = block_of(i + 1);
    for (int i = 0; i < 4; i++)
        in_child(next[i], i + 1, churn);
}

static void grandchild(void)
{
    in_child(NULL, 0, churn);
}

/* Tells whether the mapping of an address is in core dumps. */
static int is_dumped(char *at)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    int here = 0, dumped = 1;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (uintptr_t) at && (uintptr_t) at < to;
        if (here && !strncmp(line, "VmFlags:", 8))
            dumped = !strstr(line, " dd");
    }
    if (file)
        fclose(file);
    return dumped;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char *block = block_of(7);
    if (!strcmp(argv[1], "left-out")) {
        advise(block, MADV_DONTFORK);
        in_child(NULL, 0, churn);
        in_child(NULL, 0, grandchild);
        next_owners(block);
    } else if (!strcmp(argv[1], "wiped")) {
        advise(block, MADV_WIPEONFORK);
        in_child(block, 0, churn);
        next_owners(block);
    } else if (!strcmp(argv[1], "not-dumped")) {
        advise(block, MADV_DONTDUMP);
        CHECK(!is_dumped(block + size / 2));
        free(block);
        for (int i = 0; i < 4; i++)
            CHECK(is_dumped(block_of(i) + size / 2));
    } else if (!strcmp(argv[1], "resized")) {
        advise(block, MADV_DONTFORK);
        char *other = block_of(3);
        block = realloc(block, 3 * size);
        CHECK(block && block[0] == 7 && block[size - 1] == 7);
        memset(block + size, 7, size);
        in_child(block, 7, churn);
        in_child(other, 3, churn);
        advise(block, MADV_DONTFORK);
        block = realloc(block, size);
        CHECK(block && block[size - 1] == 7);
        next_owners(block);
    } else if (!strcmp(argv[1], "given-back")) {
        for (int i = 0; i < 100; i++) {
            advise(block, MADV_DONTFORK);
            advise(block, MADV_DOFORK);
        }
        in_child(block, 7, churn);
        next_owners(block);
    } else {
        /* Pages here and there. */
        size_t page = page_bytes();
        for (size_t at = page; at + 2 * page < size; at += 16 * page)
            CHECK(madvise(pages_of(block) + at, page + at % (2 * page), MADV_DONTFORK) == 0);
        in_child(NULL, 0, churn);
        next_owners(block);
    }
    puts("done");
    return 0;
}
