/* What every test program uses. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vmalloc.h>

#define CHECK(it)                                                                                  \
    do {                                                                                           \
        if (!(it)) {                                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #it);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that a call answers this errno and this code. */
#define REFUSED(call, number, wanted)                                                              \
    do {                                                                                           \
        vmalloc_error detail_;                                                                     \
        memset(&detail_, 0xa5, sizeof detail_);                                                    \
        vmalloc_error *detail = &detail_;                                                          \
        int answer_ = (call);                                                                      \
        if (answer_ != -(number) || detail_.code != (wanted) || detail_.error_number != (number)   \
            || detail_.family != (wanted) / 100) {                                                 \
            fprintf(stderr, "%s:%d: %s answered %d, code %d: %s\n", __FILE__, __LINE__, #call,     \
                    answer_, detail_.code, detail_.text);                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that a second free is refused. Its addresses may be free by then: a thread drains. */
#define FREED_TWICE(call)                                                                          \
    do {                                                                                           \
        vmalloc_error detail_, *detail = &detail_;                                                 \
        int answer_ = (call);                                                                      \
        CHECK((answer_ == -EALREADY && detail_.code == VMALLOC_E_ALREADY_FREED)                    \
              || (answer_ == -EFAULT && detail_.code == VMALLOC_E_NOT_AN_AREA));                   \
    } while (0)

/* Checks that a call returns NULL with this errno and this code. */
#define NO_POINTER(call, number, wanted)                                                           \
    REFUSED((errno = 0, (call) == NULL ? -errno : 1), number, wanted)

static inline vmalloc_space *open_space(uint32_t flags)
{
    vmalloc_options options = VMALLOC_OPTIONS_INIT;
    options.max_bytes = (size_t)1 << 36;
    options.flags = flags;
    vmalloc_space *space = vmalloc_open(&options, NULL);
    CHECK(space != NULL);
    return space;
}

static inline size_t page(void)
{
    return vmalloc_page_size();
}

#endif
