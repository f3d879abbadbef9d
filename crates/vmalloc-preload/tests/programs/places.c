/* Places from which malloc is called: constructors, dlsym, dlopen, handlers of signals, exits of threads, vfork. */
#include "check.h"
#include <dlfcn.h>

static unsigned char *early;

__attribute__((constructor)) static void construct(void)
{
    early = malloc(3 << 20);
    CHECK(early);
    memset(early, 7, 3 << 20);
}

__attribute__((destructor)) static void destruct(void)
{
    unsigned char *late = malloc(3 << 20);
    CHECK(late && early[(3 << 20) - 1] == 7);
    free(late);
    free(early);
}

static void on_signal(int number)
{
    (void) number;
    void *p = malloc(200000);
    CHECK(p);
    memset(p, 1, 200000);
    free(p);
}

static void of_thread(void *p)
{
    free(p);
    free(malloc(70000));
}

static pthread_key_t key;

static void *thread(void *unused)
{
    (void) unused;
    CHECK(pthread_setspecific(key, malloc(100000)) == 0);
    free(malloc(1 << 20));
    return NULL;
}

int main(void)
{
    void *(*from_dlsym)(size_t) = (void *(*) (size_t)) dlsym(RTLD_DEFAULT, "malloc");
    CHECK(from_dlsym);
    void *p = from_dlsym(500000);
    CHECK(p);
    free(p);
    void *math = dlopen("libm.so.6", RTLD_NOW);
    CHECK(math && dlsym(math, "cos"));
    CHECK(dlclose(math) == 0);
    CHECK(dlopen("/nowhere.so", RTLD_NOW) == NULL && dlerror());

    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 100; i++)
        CHECK(raise(SIGUSR1) == 0);

    CHECK(pthread_key_create(&key, of_thread) == 0);
    for (int i = 0; i < 200; i++) {
        pthread_t one;
        CHECK(pthread_create(&one, NULL, thread, NULL) == 0);
        CHECK(pthread_join(one, NULL) == 0);
    }
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(system("exit 3") == 3 << 8);
    puts("done");
    return 0;
}
