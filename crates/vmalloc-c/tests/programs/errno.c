/* What calls make of errno. */
#include "check.h"

#include <sys/mman.h>

/* Checks an answer, and that the call leaves errno as it was. Each may answer -EAGAIN instead. */
#define LEAVES_ERRNO(call, wanted)                                                                 \
    do {                                                                                           \
        errno = EXDEV;                                                                             \
        int answer_ = (call);                                                                      \
        CHECK(errno == EXDEV && (answer_ == (wanted) || answer_ == -EAGAIN));                      \
    } while (0)

static void in_handlers(uint32_t flags)
{
    vmalloc_space *space = open_space(flags);
    vmalloc_request tagged = VMALLOC_REQUEST_INIT;
    tagged.bytes = 3 * page() - 8;
    tagged.tag = "rows";
    vmalloc_area area = VMALLOC_AREA_INIT;
    vmalloc_error detail;
    for (int round = 0; round < 100; round++) {
        char *plain = vmalloc_alloc(space, 2 * page(), NULL), *noted = vmalloc_alloc_with(space, &tagged, NULL);
        CHECK(plain != NULL && noted != NULL);
        /* Where the limit on locked memory forbids it, the rest holds as well. */
        if (mlock(plain, 2 * page()) == 0)
            noted[0] = 1;
        LEAVES_ERRNO(vmalloc_try_find(space, plain + 1, &area, &detail), 0);
        LEAVES_ERRNO(vmalloc_try_find(space, noted + 1, &area, &detail), 0);
        LEAVES_ERRNO(vmalloc_try_find(space, &area, &area, &detail), -EFAULT);
        LEAVES_ERRNO(vmalloc_free_atomic(space, plain + page(), &detail), -EINVAL);
        LEAVES_ERRNO(vmalloc_free_atomic(space, (void *)page(), &detail), -EFAULT);
        LEAVES_ERRNO(vmalloc_free_atomic(space, plain, &detail), 0);
        LEAVES_ERRNO(vmalloc_free_atomic(space, noted, &detail), 0);
    }
    CHECK(vmalloc_purge(space, NULL) == 0);
    vmalloc_close(space);
}

/* Locked memory makes the system refuse the first call of a decommit, which another one does then. */
static void a_refusal_sets_errno_whatever_it_was(void)
{
    vmalloc_space *space = open_space(0);
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 16 * page();
    char *area = vmalloc_reserve(space, &request, NULL);
    vmalloc_range range = { area, 4 * page() };
    CHECK(vmalloc_commit(space, &range, 1, NULL) == 0);
    (void)mlock(area, page());
    CHECK(vmalloc_decommit(space, &range, 1, NULL) == 0);
    errno = EXDEV;
    CHECK(vmalloc_alloc(space, (size_t)1 << 60, NULL) == NULL && errno == ENOSPC);
    CHECK(vmalloc_unreserve(space, area, NULL) == 0);
    vmalloc_close(space);
}

int main(void)
{
    in_handlers(0);
    in_handlers(VMALLOC_OPEN_TRAP_ON_FREE);
    a_refusal_sets_errno_whatever_it_was();
    return 0;
}
