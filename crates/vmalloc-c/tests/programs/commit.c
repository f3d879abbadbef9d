/* Memory at chosen addresses inside a reservation. */
#include "check.h"

int main(void)
{
    vmalloc_space *space = open_space(0);
    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 1000 * page();
    char *area = vmalloc_reserve(space, &request, NULL);
    CHECK(area != NULL);
    vmalloc_range ranges[2] = { { area + 10 * page(), 5 * page() }, { area, page() } };
    CHECK(vmalloc_commit(space, ranges, 2, NULL) == 0);
    area[0] = 1, area[15 * page() - 1] = 2;
    CHECK(vmalloc_discard(space, ranges, 1, NULL) == 0 && area[15 * page() - 1] == 0 && area[0] == 1);
    area[15 * page() - 1] = 2;
    CHECK(vmalloc_reset(space, ranges, 2, NULL) == 0 && area[15 * page() - 1] == 0 && area[0] == 0);
    char byte = 1;
    size_t mapped;
    CHECK(vmalloc_read(space, area + 20 * page(), &byte, 1, &mapped, NULL) == 0 && mapped == 0 && byte == 0);

    vmalloc_range overlapping[2] = { { area + 20 * page(), 2 * page() }, { area + 21 * page(), page() } };
    REFUSED(vmalloc_commit(space, overlapping, 2, detail), EINVAL, VMALLOC_E_OVERLAP);
    vmalloc_range beyond = { area + 999 * page(), 2 * page() };
    REFUSED(vmalloc_commit(space, &beyond, 1, detail), ERANGE, VMALLOC_E_BEYOND);
    vmalloc_range odd = { area + 1, page() };
    REFUSED(vmalloc_commit(space, &odd, 1, detail), EINVAL, VMALLOC_E_UNALIGNED);
    vmalloc_range empty = { area, 0 };
    REFUSED(vmalloc_decommit(space, &empty, 1, detail), EINVAL, VMALLOC_E_ZERO_SIZE);
    vmalloc_range huge = { area, SIZE_MAX };
    REFUSED(vmalloc_discard(space, &huge, 1, detail), EOVERFLOW, VMALLOC_E_SIZE_OVERFLOW);
    REFUSED(vmalloc_reset(space, NULL, 1, detail), EINVAL, VMALLOC_E_NULL);
    REFUSED(vmalloc_reset(space, ranges, SIZE_MAX, detail), EINVAL, VMALLOC_E_COUNT);

    CHECK(vmalloc_decommit(space, ranges, 2, NULL) == 0);
    CHECK(vmalloc_unreserve(space, area, NULL) == 0);
    FREED_TWICE(vmalloc_unreserve(space, area, detail));
    vmalloc_close(space);
    return 0;
}
