// The header in C++: owners by unique_ptr, and structs initialized.
#include "check.h"
#include <memory>

struct Close {
    void operator()(vmalloc_space *space) const { vmalloc_close(space); }
};

struct Free {
    vmalloc_space *space;
    void operator()(void *memory) const { vmalloc_free(space, memory, nullptr); }
};

int main()
{
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.max_bytes = std::size_t{1} << 36;
    std::unique_ptr<vmalloc_space, Close> space(vmalloc_open(&options, nullptr));
    CHECK(space != nullptr);
    {
        std::unique_ptr<char, Free> memory(static_cast<char *>(vmalloc_zalloc(space.get(), 100000, nullptr)),
                                           Free{space.get()});
        CHECK(memory.get()[99999] == 0);
    }
    vmalloc_stats stats = VMALLOC_STATS_INIT;
    CHECK(vmalloc_get_stats(space.get(), &stats, nullptr) == 0 && stats.busy_areas == 0);
    vmalloc_area area = VMALLOC_AREA_INIT;
    vmalloc_error error;
    CHECK(vmalloc_find(space.get(), &area, &area, &error) == -EFAULT && error.code == VMALLOC_E_NOT_AN_AREA);
    return 0;
}
