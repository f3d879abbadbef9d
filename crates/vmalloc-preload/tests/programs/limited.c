/* Programs that limit themselves, or lock their memory, before or after their first large blocks. limited NAME */
#include "check.h"
#include <sys/syscall.h>

enum { MIB = 1 << 20 };

static void *thread(void *of)
{
    char *block = malloc(100000);
    CHECK(block);
    memset(block, 1, 100000);
    free(block);
    return of;
}

static void run_thread(void)
{
    pthread_t id;
    CHECK(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
}

static size_t kib(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t value = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            value = strtoul(line + strlen(name) + 1, NULL, 10);
    if (file)
        fclose(file);
    return value;
}

/* Checks that each page of which the block has the begin is in memory. Counts of the process (VmRSS) lag behind: each
   thread keeps up to 64 pages to itself before Linux 6.2, and each CPU some since. */
static void check_present(char *block, size_t bytes)
{
    static unsigned char present[50 * MIB / 512];
    size_t page = page_bytes();
    char *first = (char *) ((uintptr_t) block & -page);
    size_t pages = (block + bytes - first + page - 1) / page;
    CHECK(pages <= sizeof present && mincore(first, pages * page, present) == 0);
    for (size_t i = 0; i < pages; i++)
        CHECK(present[i] & 1);
}

static void limit(int resource, size_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(resource, &limit) == 0);
}

/* Large blocks, of which every third stays in use. */
static char *stay[30];
static void use(void)
{
    for (int i = 0; i < 90; i++) {
        char *block = malloc(MIB + i * 10000);
        CHECK(block);
        memset(block, i, MIB);
        if (i % 3)
            free(block);
        else
            stay[i / 3] = block;
    }
}

static void check_and_free(void)
{
    for (int i = 0; i < 30; i++) {
        if (!stay[i])
            continue;
        CHECK(stay[i][0] == (char) (3 * i) && stay[i][MIB - 1] == (char) (3 * i));
        stay[i] = realloc(stay[i], (i + 1) * 100000);
        CHECK(stay[i] && stay[i][0] == (char) (3 * i) && stay[i][99999] == (char) (3 * i));
        free(stay[i]);
        stay[i] = NULL;
    }
}

/* A million small blocks, and what they grow to. */
static void use_small(int count)
{
    char **all = calloc(count, sizeof *all);
    CHECK(all);
    for (int i = 0; i < count; i++) {
        CHECK((all[i] = i % 3 ? malloc(50 + i % 100) : i % 2 ? calloc(1, 90) : memalign(64, 70)));
        all[i][0] = (char) i;
    }
    for (int i = 0; i < count; i++) {
        CHECK((all[i] = realloc(all[i], 200 + i % 50)) && all[i][0] == (char) i);
        free(all[i]);
    }
    free(all);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char *mode = argv[1];
    if (!strcmp(mode, "limits-itself")) {
        use();
        limit(RLIMIT_AS, 1024l * MIB);
        use_small(1000000);
        run_thread();
        /* What glibc maps, in the place of what was given back. */
        void *mapped[8];
        for (int i = 0; i < 8; i++) {
            mapped[i] = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(mapped[i] != MAP_FAILED);
            memset(mapped[i], 1, page_bytes());
        }
        char *large = malloc(200 * MIB);
        CHECK(large && malloc_usable_size(large) >= 200 * MIB);
        free(large);
        CHECK(mallinfo2().hblkhd < 1000l * MIB);
        check_and_free();
        use();
    } else if (!strcmp(mode, "limits-itself-often")) {
        use();
        for (long mib = 1 << 20; mib >= 512; mib /= 2) {
            struct rlimit limit = {mib * MIB, RLIM_INFINITY}, old;
            CHECK(prlimit(mib % 3 ? 0 : getpid(), RLIMIT_AS, &limit, &old) == 0);
            run_thread();
            free(malloc(MIB));
        }
        pid_t child = fork();
        CHECK(child >= 0);
        use_small(100000);
        check_and_free();
        int status = 0;
        CHECK(child == 0 || (waitpid(child, &status, 0) == child && status == 0));
        if (child == 0)
            exit(0);
    } else if (!strcmp(mode, "is-limited")) {
        /* By somebody else: the library does not see it. */
        use();
        size_t size = (kib("VmSize:") << 10) + 2 * MIB;
        struct rlimit limit = {size, size};
        CHECK(syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL) == 0);
        use_small(30000);
        check_and_free();
        errno = 0;
        CHECK(malloc(1l << 45) == NULL && errno == ENOMEM);
    } else if (!strcmp(mode, "data-before")) {
        limit(RLIMIT_DATA, 256 * MIB);
        use();
        check_and_free();
        run_thread();
    } else if (!strcmp(mode, "data-after")) {
        use();
        limit(RLIMIT_DATA, 256 * MIB);
        check_and_free();
        use();
        run_thread();
    } else {
        int before = !strcmp(mode, "locks-before");
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_MEMLOCK, &all);
        if (!before) {
            use();
            stay[0] = realloc(stay[0], 20 * MIB);
        }
        size_t locked = kib("VmLck:");
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
            puts("may not lock");
            return 0;
        }
        locked = kib("VmLck:") - locked;
        /* The reservation is a terabyte; glibc's own is some MiB, and an arena of 64 MiB. */
        CHECK(locked < 600 * 1024);
        if (!before)
            check_present((char *) stay[0] + 15 * MIB, 4 * MIB);
        char *fresh = malloc(50 * MIB);
        CHECK(fresh);
        check_present(fresh, 50 * MIB);
        free(fresh);
        check_and_free();
        use();
        run_thread();
    }
    puts("done");
    return 0;
}
