/* Programs whose line of counts has a difficult way. stats NAME */
#include "check.h"
#include <fcntl.h>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    free(malloc(1 << 20));
    if (!strcmp(argv[1], "forked")) {
        pid_t child = fork();
        if (child == 0)
            exit(0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    } else {
        /* Every descriptor but stdout is closed, and then leads to a file of the program's own. */
        char name[] = "/tmp/vmalloc-stats-XXXXXX";
        int file = mkstemp(name);
        CHECK(file >= 0 && unlink(name) == 0);
        for (int fd = 2; fd < 256; fd++)
            if (fd != file)
                CHECK(dup2(file, fd) == fd);
        puts("done");
        fflush(stdout);
        struct rlimit none = {0, 0};
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
        /* A line in that file would raise SIGXFSZ now. */
        CHECK(close(2) == 0);
        return 0;
    }
    puts("done");
    return 0;
}
