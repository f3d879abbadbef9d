/* A handler of a signal that forks, in a program of one thread, whatever it has interrupted. The child goes on
   behind the handler, where it was interrupted, and later it forks as well.
   alarms FORKS SEED */
#include "check.h"
#include <sys/time.h>

enum { BLOCKS = 40, LIMIT_S = 60 };

static volatile sig_atomic_t forks_left;
static volatile sig_atomic_t is_child;

static void wait_for(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

static void set_timer(int in_us)
{
    struct itimerval timer = {{0, 0}, {0, in_us}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void on_alarm(int number)
{
    (void) number;
    int before = errno;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        is_child = 1;
    } else {
        wait_for(child);
        forks_left--;
    }
    errno = before;
}

static void use_memory(void)
{
    unsigned char *blocks[BLOCKS];
    for (int nth = 0; nth < BLOCKS; nth++) {
        size_t bytes = 33000 + 8192 * (nth % 20);
        blocks[nth] = nth % 2 ? calloc(1, bytes) : malloc(bytes);
        CHECK(blocks[nth] && (nth % 2 == 0 || blocks[nth][bytes - 1] == 0));
        memset(blocks[nth], nth, bytes);
    }
    for (int nth = 0; nth < BLOCKS; nth++) {
        CHECK(blocks[nth][0] == nth && blocks[nth][32999] == nth);
        blocks[nth] = nth % 3 ? blocks[nth] : realloc(blocks[nth], 700000);
        CHECK(blocks[nth] && blocks[nth][32999] == nth);
        free(blocks[nth]);
    }
    malloc_trim(0);
}

/* The rest of the life of a child. */
static void end_child(void)
{
    use_memory();
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
        use_memory();
        _exit(0);
    }
    wait_for(grandchild);
    _exit(0);
}

static void play(uint64_t seed)
{
    CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
    while (forks_left > 0) {
        int before = forks_left;
        set_timer(20 + next(&seed) % 1500);
        while (forks_left == before) {
            use_memory();
            if (is_child)
                end_child();
        }
    }
}

static pid_t player;

static void end_player(int number)
{
    (void) number;
    kill(-player, SIGKILL);
    static const char text[] = "alarms.c: a fork waits for ever, or for a second each\n";
    if (write(2, text, sizeof text - 1) < 0) { }
    _exit(1);
}

int main(int count, char **words)
{
    CHECK(count == 3);
    forks_left = atoi(words[1]);
    player = fork();
    CHECK(player >= 0);
    if (player == 0) {
        CHECK(setpgid(0, 0) == 0);
        play(strtoull(words[2], NULL, 10) + 1);
        _exit(0);
    }
    CHECK(signal(SIGALRM, end_player) != SIG_ERR);
    alarm(LIMIT_S);
    wait_for(player);
    puts("done");
    return 0;
}
