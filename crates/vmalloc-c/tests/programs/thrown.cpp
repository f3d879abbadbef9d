// An exception that a callback throws ends the program, and never passes the library.
#include "check.h"

static int throws(void *, const vmalloc_area *)
{
    throw 1;
}

int main()
{
    vmalloc_space *space = open_space(0);
    CHECK(vmalloc_alloc(space, 1, nullptr) != nullptr);
    try {
        vmalloc_walk(space, nullptr, throws, nullptr, nullptr);
    } catch (...) {
        return 0; // it has passed
    }
    return 0;
}
