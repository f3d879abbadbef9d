// Every form of operator new and delete, large and small: those of the C++ library stand on malloc.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <malloc.h>
#include <new>

static void require(bool holds, int line)
{
    if (!holds) {
        std::fprintf(stderr, "operators.cpp:%d\n", line);
        std::exit(1);
    }
}
#define REQUIRE(holds) require(holds, __LINE__)

static int handled;
static void handler()
{
    if (++handled == 3)
        std::set_new_handler(nullptr);
}

int main()
{
    std::free(std::malloc(2 << 20));
    for (std::size_t size : {std::size_t(16), std::size_t(100000), std::size_t(5) << 20}) {
        const std::align_val_t align{8192};
        void *all[] = {
            operator new(size),        operator new[](size),        operator new(size, std::nothrow),
            operator new[](size, std::nothrow), operator new(size, align), operator new[](size, align),
            operator new(size, align, std::nothrow), operator new[](size, align, std::nothrow),
            operator new(size), operator new[](size), operator new(size, align), operator new[](size, align),
        };
        for (void *p : all) {
            REQUIRE(p && malloc_usable_size(p) >= size);
            std::memset(p, 1, size);
        }
        for (int i : {4, 5, 6, 7, 10, 11})
            REQUIRE(reinterpret_cast<std::uintptr_t>(all[i]) % 8192 == 0);
        operator delete(all[0]);
        operator delete[](all[1]);
        operator delete(all[2], std::nothrow);
        operator delete[](all[3], std::nothrow);
        operator delete(all[4], align);
        operator delete[](all[5], align);
        operator delete(all[6], align, std::nothrow);
        operator delete[](all[7], align, std::nothrow);
        operator delete(all[8], size);
        operator delete[](all[9], size);
        operator delete(all[10], size, align);
        operator delete[](all[11], size, align);
    }
    volatile std::size_t absurd = SIZE_MAX / 2;
    REQUIRE(operator new(absurd, std::nothrow) == nullptr);
    std::set_new_handler(handler);
    bool thrown = false;
    try {
        REQUIRE(operator new(absurd) == nullptr);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    REQUIRE(thrown && handled == 3);
    std::puts("done");
}
