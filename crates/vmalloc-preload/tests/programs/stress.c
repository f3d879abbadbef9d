/* Threads that allocate, resize and free, also for each other, while others fork. Contents are checked.
   stress THREADS STEPS FORKS SEED */
#include "check.h"

enum { SLOTS = 64, SHARED = 32 };

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned char with;
};

static _Atomic(struct block *) shared[SHARED];
static atomic_int rest;
static int steps;

static size_t some_size(uint64_t *state)
{
    uint64_t word = next(state);
    return ((word >> 8) & 0xffff) + ((word & 7) == 0 ? (word >> 24) & 0x3fffff : (word & 1) * 0x8000);
}

static void fill(struct block *block)
{
    memset(block->bytes, block->with, block->size);
}

static void verify(const struct block *block)
{
    size_t stride = block->size / 61 + 1;
    for (size_t i = 0; i < block->size; i += stride)
        CHECK(block->bytes[i] == block->with);
    CHECK(block->size == 0 || block->bytes[block->size - 1] == block->with);
}

static void replace(struct block *block, uint64_t *state)
{
    uint64_t word = next(state);
    size_t size = some_size(state);
    if (block->bytes && word % 3 == 0) {
        unsigned char *grown = realloc(block->bytes, size + 1);
        CHECK(grown);
        block->bytes = grown;
        block->size = size < block->size ? size : block->size;
        verify(block);
    } else {
        free(block->bytes);
        block->bytes = word % 5 ? malloc(size) : word % 7 ? calloc(1, size) : memalign(1 << (word % 17), size);
        CHECK(block->bytes);
    }
    block->size = size;
    block->with = (unsigned char) (word >> 40);
    fill(block);
}

static void play(uint64_t seed, int count)
{
    struct block slots[SLOTS] = {{0}};
    uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
    for (int step = 0; step < count; step++) {
        struct block *block = &slots[next(&state) % SLOTS];
        if (block->bytes)
            verify(block);
        replace(block, &state);
        if (step % 8 == 0) {
            struct block *mine = malloc(sizeof *mine);
            *mine = *block;
            block->bytes = NULL;
            struct block *theirs = atomic_exchange(&shared[next(&state) % SHARED], mine);
            if (theirs) {
                verify(theirs);
                free(theirs->bytes);
                free(theirs);
            }
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].bytes)
            verify(&slots[i]);
        free(slots[i].bytes);
    }
}

static void *thread(void *seed)
{
    play((uint64_t) (uintptr_t) seed, steps);
    atomic_fetch_sub(&rest, 1);
    return NULL;
}

static void *brief(void *seed)
{
    play((uint64_t) (uintptr_t) seed, 20);
    return NULL;
}

static void fork_once(uint64_t seed)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        play(seed, 60);
        pthread_t other;
        CHECK(pthread_create(&other, NULL, brief, (void *) (uintptr_t) (seed + 1)) == 0);
        play(seed + 2, 60);
        pthread_join(other, NULL);
        if (seed % 4 == 0) {
            pid_t grandchild = fork();
            if (grandchild == 0) {
                play(seed + 3, 30);
                _exit(0);
            }
            int status;
            CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        }
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

/* Handlers of the program that allocate, the first of which is registered before the library has any. */
static void *of_handler;
static void handler(void)
{
    free(of_handler);
    of_handler = calloc(1, 60000);
    CHECK(of_handler);
    of_handler = realloc(of_handler, 90000);
    CHECK(of_handler && malloc_usable_size(of_handler) >= 90000);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    int threads = atoi(argv[1]), forks = atoi(argv[3]);
    steps = atoi(argv[2]);
    uint64_t seed = strtoull(argv[4], NULL, 10);
    CHECK(pthread_atfork(handler, handler, handler) == 0);
    free(malloc(2 << 20));
    CHECK(pthread_atfork(handler, handler, handler) == 0);
    atomic_store(&rest, threads);
    pthread_t all[64];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i], NULL, thread, (void *) (uintptr_t) (seed + 100 + i)) == 0);
    for (int i = 0; i < forks; i++) {
        fork_once(seed * 1000 + i);
        pthread_t one;
        CHECK(pthread_create(&one, NULL, brief, (void *) (uintptr_t) (seed + i)) == 0);
        pthread_join(one, NULL);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < SHARED; i++) {
        struct block *block = atomic_load(&shared[i]);
        if (block) {
            verify(block);
            free(block->bytes);
            free(block);
        }
    }
    puts("done");
    return 0;
}
